// The page's elements and tables. What comes from clients is shown as text only.

export const PAGE = 50; // rows of a table
const SVG = "http://www.w3.org/2000/svg";

export const at = (id) => document.getElementById(id);

export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function shape(name, attributes, className) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (className) made.setAttribute("class", className);
  return made;
}

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text; // a selection and a screen reader keep their place
}

export function say(text) {
  at("said").textContent = text;
}

export function pairs(list, rows) {
  // Only values change: the nodes stay, so a screen reader keeps its place.
  while (list.children.length > rows.length) list.lastElementChild.remove();
  rows.forEach(([name, value, className], index) => {
    let group = list.children[index];
    if (!group) {
      group = element("div");
      group.append(element("dt"), element("dd"));
      if (list.classList.contains("delays")) group.className = "pair";
      list.append(group);
    }
    write(group.children[0], name);
    write(group.children[1], value);
    group.children[1].className = className || "";
  });
}

// --- tables ------------------------------------------------------------------------------------------------

function inUse(table) {
  return table.matches(":hover") || table.contains(document.activeElement);
}

// Update rows in place. While the table, or the list, is in use none moves or goes: what is new comes last, if there is room.
export function rows(body, items, make, fill, gone) {
  const steady = inUse(body.closest("table") ?? body);
  const known = new Map([...body.children].map((row) => [row.dataset.id, row]));
  for (const [id, row] of known) {
    if (items.has(id)) continue;
    if (steady) gone?.(row);
    else row.remove();
  }
  let index = 0;
  for (const [id, item] of items) {
    let row = known.get(id);
    if (!row && (!steady || body.children.length < PAGE)) {
      row = make(item);
      row.dataset.id = id;
      body.append(row);
    }
    if (row) fill(row, item);
    if (!steady && body.children[index] !== row) body.insertBefore(row, body.children[index]);
    index += 1;
  }
}

export function cell(className, label) {
  const made = element("td", className);
  made.dataset.label = label;
  return made;
}

export function figuresRow(labels) {
  const row = element("tr");
  const name = element("th", "name");
  name.scope = "row";
  name.append(element("bdi", "clamp"));
  row.append(name, ...labels.map(([label, className]) => cell(className ?? "number", label)));
  return row;
}

export function fillRow(row, name, values) {
  write(row.cells[0].firstElementChild, name);
  values.forEach((value, index) => write(row.cells[index + 1], value));
}
