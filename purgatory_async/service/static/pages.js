// A list in pages: which one is shown, and the buttons that turn them.

import { say, write } from "./page.js";
import { whole } from "./words.js";

// `ask` gets a page from its first place, null for no answer; `draw` shows one that is not empty, or the first.
export function pages({ range, previous, next, body, size, ask, draw }) {
  let first = 0;
  let last = 0;
  let total = 0;
  let asked = 0;

  async function list(spoken = false) {
    asked += 1;
    const mine = asked;
    const page = await ask(first, size);
    if (page === null || mine !== asked) return; // or another one was asked for meanwhile
    if (page.total <= first && first > 0) {
      first = size * Math.floor(Math.max(0, page.total - 1) / size);
      list(spoken);
      return;
    }
    total = page.total;
    last = first + page.operations.length;
    // No separators: one of them would read as another number in some languages.
    write(range, total ? `${first + 1}–${last} of ${total}` : "0 of 0");
    previous.setAttribute("aria-disabled", String(first === 0));
    next.setAttribute("aria-disabled", String(last >= total));
    draw(page);
    if (spoken) say(`${whole.format(total)} found`);
  }

  function show(place) {
    first = place;
    body.replaceChildren();
    return list(true);
  }

  previous.addEventListener("click", () => {
    if (first > 0) show(Math.max(0, first - size));
  });
  // An answer has room for so many bytes, so a page may be shorter than asked for.
  next.addEventListener("click", () => {
    if (last < total) show(last);
  });
  return { list: () => list(), restart: () => show(0) };
}
