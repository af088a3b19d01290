// The operations that are pending: search, pages, rows.

import { endButtons } from "./ending.js";
import { at, cell, element, PAGE, rows, say, write } from "./page.js";
import { PERIOD_MS, read } from "./service.js";
import { missing, names, plain, seconds, whole } from "./words.js";

export const DETAIL = "#operation="; // begins the address of one operation

const view = { text: "", first: 0, total: 0, asked: 0, timer: null };

// As a loop of its own: a search of very many operations must not hold up the figures, nor be repeated at once.
export async function listAgain() {
  clearTimeout(view.timer);
  const began = performance.now();
  if (!at("list").hidden) await list();
  if (at("figures").hidden) return;
  clearTimeout(view.timer);
  view.timer = setTimeout(listAgain, Math.max(PERIOD_MS, 10 * (performance.now() - began)));
}

async function list(spoken = false) {
  view.asked += 1;
  const asked = view.asked;
  const query = new URLSearchParams({ search: view.text, first: view.first, limit: PAGE });
  const page = await read(`operations?${query}`).catch(() => null);
  if (page === null || asked !== view.asked) return; // or another one was asked for meanwhile
  if (page.total <= view.first && view.first > 0) {
    view.first = PAGE * Math.floor(Math.max(0, page.total - 1) / PAGE);
    list(spoken);
    return;
  }
  view.total = page.total;
  drawOperations(page);
  if (spoken) say(`${whole.format(page.total)} found`);
}

function turn(first) {
  if (first < 0 || (first > 0 && first >= view.total)) return;
  view.first = first;
  at("operations").replaceChildren();
  list(true);
}

function find(text) {
  view.text = text;
  view.first = 0;
  at("operations").replaceChildren();
  if (location.hash.startsWith(DETAIL)) location.hash = "";
  list(true);
}

function drawOperations(page) {
  const { first, total, operations } = page;
  const last = first + operations.length;
  // No separators: one of them would read as another number in some languages.
  write(at("range"), total ? `${first + 1}–${last} of ${total}` : "0 of 0");
  at("previous").setAttribute("aria-disabled", String(first === 0));
  at("next").setAttribute("aria-disabled", String(last >= total));
  at("no-operations").hidden = total > 0;
  write(at("no-operations"), view.text ? `Nothing pending has an id or a key that begins with ${plain(view.text)}.` : "Nothing is pending.");
  at("has-ended").hidden = page.ended === null;
  write(at("ended-link"), `${plain(view.text)} is ${page.ended}`);
  at("ended-link").href = DETAIL + encodeURIComponent(view.text);
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
  write(row.cells[1].firstElementChild, missing(operation.waiting_for));
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
  if (!at("search-text").value && view.text) find(""); // its cross was pressed
});
at("previous").addEventListener("click", () => turn(view.first - PAGE));
at("next").addEventListener("click", () => turn(view.first + PAGE));

export { listAgain as open };
