// The operations that are pending: search, pages, rows.

import { endButtons } from "./ending.js";
import { at, cell, element, PAGE, rows, write } from "./page.js";
import { pages } from "./pages.js";
import { DETAIL } from "./question.js";
import { read, repeated } from "./service.js";
import { missing, names, plain, prose, seconds } from "./words.js";

let wanted = ""; // begins the ids or keys that are listed

const list = pages({
  range: at("range"),
  previous: at("previous"),
  next: at("next"),
  body: at("operations"),
  size: PAGE,
  ask: (first, limit) => read(`operations?${new URLSearchParams({ search: wanted, first, limit })}`).catch(() => null),
  draw: drawOperations,
});

// As a loop of its own: a search must not hold up the figures.
export const listAgain = repeated(async () => {
  if (!at("list").hidden) await list.list();
});

function find(text) {
  wanted = text;
  if (location.hash.startsWith(DETAIL)) location.hash = "";
  list.restart();
}

function drawOperations(page) {
  const { first, total, operations } = page;
  at("no-operations").hidden = total > 0;
  write(at("no-operations"), wanted ? `Nothing pending has an id or a key that begins with ${plain(wanted)}.` : "Nothing is pending.");
  at("has-ended").hidden = page.ended === null;
  write(at("ended-link"), `${plain(wanted)} is ${page.ended}`);
  at("ended-link").href = DETAIL + encodeURIComponent(wanted);
  // An id has no space; a one-shot wait has no id.
  const waits = new Map();
  const named = new Map(operations.map((operation) => {
    if (operation.id !== null) return [operation.id, operation];
    const keys = operation.keys.join("\n");
    waits.set(keys, (waits.get(keys) ?? 0) + 1);
    return [`wait ${waits.get(keys)} ${keys}`, operation];
  }));
  rows(at("operations"), named, newRow, fillOperation, first === 0 ? endRow : undefined);
}

function newRow(operation) {
  const row = element("tr");
  const name = element("th", "name");
  name.scope = "row";
  const words = [element("bdi", "clamp", names(operation.keys)),
    element("bdi", "id", operation.id === null ? "a one-shot wait" : plain(operation.id))];
  if (operation.id === null) {
    name.append(...words);
  } else {
    const link = element("a");
    link.href = DETAIL + encodeURIComponent(operation.id);
    words[0].append(" "); // between the two in the link's name
    link.append(...words);
    name.append(link);
  }
  const waits = cell("waits", "Waits for");
  waits.append(element("bdi", "clamp"));
  const ends = element("td", "ends");
  if (operation.id !== null) {
    words[1].id = `id-${operation.id}`;
    ends.append(...endButtons(operation, words[1].id));
  }
  row.append(name, waits, cell("number", "Waiting"), cell("number", "Expires in"), ends);
  return row;
}

function fillOperation(row, operation) {
  row.classList.remove("gone");
  write(row.cells[1].firstElementChild, operation.title === undefined ? missing(operation.waiting_for) : `an answer: ${prose(operation.title)}`);
  write(row.cells[2], seconds(operation.elapsed));
  write(row.cells[3], seconds(operation.expires_in));
}

function endRow(row) {
  row.classList.add("gone");
  write(row.cells[1].firstElementChild, "nothing more: it has ended");
  write(row.cells[3], "–");
  for (const button of row.querySelectorAll("button")) button.setAttribute("aria-disabled", "true");
}

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  find(at("search-text").value.trim());
});
at("search-text").addEventListener("input", () => {
  if (!at("search-text").value && wanted) find(""); // its cross was pressed
});

export { listAgain as open };
