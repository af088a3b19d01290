// The dashboard: polls its feed once a second, searches and shows operations, follows the events, and completes and
// cancels operations. A table keeps its rows in their places while the pointer or the focus is in it.
// Keys and ids come from clients: the page shows them as text only.
"use strict";

const API = "../v1";
const PERIOD_MS = 1000;
const ANSWER_MS = 5000; // a stuck service or an unplugged cable raises no error
const SILENCE_MS = 45000; // the event stream sends a comment every 15 s
const EVENTS_SHOWN = 30;
const EVENTS_KEPT = 1000; // for the filter
const EVENTS_MS = 100; // between two drawings of the events
const KEYS_NAMED = 3;
const PAGE = 50;
const UNDO_MS = 5000;
const DETAIL = "#operation=";
const SPAN_S = 60; // of the charts
const SVG = "http://www.w3.org/2000/svg";

let token = "";
let lastAnswer = 0;
let newestEvent = null;
let keepTroubleUntil = 0;
let ticking = null;

const at = (id) => document.getElementById(id);

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function shape(name, attributes, className) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (className) made.setAttribute("class", className);
  return made;
}

// --- words for names ---------------------------------------------------------------------------------

// Invisible characters can make an id look like another: the user must see which operation a button cancels.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function plain(name) {
  return name.replace(UNSEEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

function names(keys) {
  const more = keys.length - KEYS_NAMED;
  const named = keys.slice(0, KEYS_NAMED).map(plain).join(", ");
  return more > 0 ? `${named} and ${whole.format(more)} more` : named;
}

// --- words for numbers -------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dated = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function rate(value) {
  return value >= 100 ? whole.format(value) : fine.format(value);
}

function number(value, noun) {
  return `${whole.format(value)} ${noun}${value === 1 ? "" : "s"}`;
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.9995) return `${Number((value * 1000).toPrecision(3))} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const total = Math.round(value);
  if (total < 3600) return `${Math.floor(total / 60)} m ${total % 60} s`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${Math.floor((total % 3600) / 60)} m`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

function needed(need) {
  if (need === "any") return "a signal on any of its keys";
  if (need === "all") return "a signal on each of its keys";
  if (need.amount !== undefined) return `signals of an amount of ${whole.format(need.amount)} in all`;
  return `signals of ${whole.format(need.voters)} voters`;
}

function missing(waitingFor) {
  if (waitingFor.any) return "any of its keys";
  if (waitingFor.all) return `all of ${names(waitingFor.all)}`;
  if (waitingFor.amount !== undefined) return `an amount of ${whole.format(waitingFor.amount)}`;
  return `${whole.format(waitingFor.voters)} more voters`;
}

// --- talking to the service --------------------------------------------------------------------------

async function ask(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const patience = options.signal ?? AbortSignal.timeout(ANSWER_MS);
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(path, { ...options, headers, signal: patience, cache: "no-store", credentials: "omit" });
}

async function read(path) {
  const answer = await ask(path);
  if (!answer.ok) throw new Error(`the service answered ${answer.status}`);
  return answer.json();
}

async function tick() {
  clearTimeout(ticking);
  let next = PERIOD_MS;
  try {
    const answer = await ask("feed");
    if (answer.status === 401 || answer.status === 403) {
      await refused(answer);
      next = null; // signing in goes on
    } else if (!answer.ok) {
      throw new Error(`the service answered ${answer.status}`);
    } else {
      draw(await answer.json());
      lastAnswer = Date.now();
      if (Date.now() > keepTroubleUntil) at("trouble").hidden = true;
      if (at("figures").hidden) open();
    }
  } catch (error) {
    // A time, not an age: a screen reader repeats a text that changes every second.
    const last = lastAnswer ? ` These figures are from ${clock.format(lastAnswer)}.` : "";
    state("silent", "no answer");
    trouble(`The service does not answer (${error.message}).${last}`);
  }
  if (next !== null) ticking = setTimeout(tick, next);
}

function open() {
  at("login").hidden = true;
  at("figures").hidden = false;
  listAgain();
  showDetail();
  if (!following) follow();
}

async function refused(answer) {
  const problem = await answer.json().catch(() => ({ detail: "" }));
  state("silent", answer.status === 401 ? "token needed" : "not allowed");
  at("login").hidden = false;
  at("figures").hidden = true;
  if (token) trouble(problem.detail || "The token was refused.");
}

function trouble(text) {
  if (at("trouble").textContent !== text) at("trouble").textContent = text;
  at("trouble").hidden = false;
}

function actionTrouble(text) {
  keepTroubleUntil = Date.now() + 10 * PERIOD_MS; // the next poll must not hide it
  trouble(text);
}

function state(kind, text) {
  const pill = at("state");
  if (pill.textContent !== text) pill.textContent = text; // a screen reader reads out each write
  pill.className = `pill ${kind}`;
}

function say(text) {
  at("said").textContent = text;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text; // a selection and a screen reader keep their place
}

// --- drawing -----------------------------------------------------------------------------------------

function draw(stats) {
  const { counts, queues, limits, rates, history, delays } = stats;
  at("figures").classList.toggle("reading", !stats.may_end);
  state(stats.draining ? "draining" : "serving", stats.draining ? "draining" : "serving");
  const old = stats.survey_age > 3 ? ` · details ${seconds(stats.survey_age)} old` : "";
  at("about").textContent =
    `${stats.version} · up ${seconds(stats.uptime)} · ${whole.format(counts.submitted)} submitted${old}`;
  document.title = `${whole.format(counts.pending)} pending · purgatory`;
  at("pending").textContent = whole.format(counts.pending);
  at("pending-limit").textContent =
    `of ${whole.format(limits.pending)}, on ${whole.format(counts.keys)} keys`;
  pairs(at("rates"), [
    ["arrivals", rate(rates.submitted), "submitted"],
    ["completed", rate(rates.completed), "completed"],
    ["expired", rate(rates.expired), "expired"],
    ["cancelled", rate(rates.cancelled), ""],
    ["signals", rate(rates.signals), ""],
  ]);
  chart(at("pending-history"), at("pending-top"), [["pending", "", history.pending]], true);
  chart(at("rate-history"), at("rate-top"), [
    ["arrivals", "submitted", history.submitted],
    ["completed", "completed", history.completed],
    ["expired", "expired", history.expired],
  ], false);
  for (const [id, name] of [["wait", "wait"], ["lateness", "lateness"], ["loop-lag", "loop_lag"]]) {
    const delay = delays[name];
    pairs(at(id), [["p50", seconds(delay.p50)], ["p99", seconds(delay.p99)], ["longest", seconds(delay.max)]]);
  }
  pairs(at("held"), [
    ["requests", whole.format(counts.held + counts.takers)],
    ["items", whole.format(queues.items + queues.delayed)],
    ["leased", whole.format(queues.leased)],
  ]);
  drawWheel(stats.wheel);
  drawKeys(stats.busiest_keys);
  drawWorkers(stats.workers);
  drawQueues(queues);
}

function pairs(list, rows) {
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

// --- charts, and what they say about the place under the pointer or chosen with the arrow keys -------------

const looks = new Map(); // chart: its tip, the chosen place, and where places are

function readable(svg, tip) {
  const mark = element("i", "mark");
  mark.hidden = true;
  svg.after(mark);
  const look = { svg, tip, mark, place: null, count: 0, from: 0, step: 1, text: () => "" };
  looks.set(svg, look);
  const fit = (place) => Math.min(look.count - 1, Math.max(0, place));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    choose(look, fit(Math.round(((event.clientX - box.left) / box.width - look.from) / look.step)));
  });
  svg.addEventListener("pointerleave", () => choose(look, null));
  svg.addEventListener("focus", () => choose(look, fit(look.start ?? look.count - 1)));
  svg.addEventListener("blur", () => choose(look, null));
  svg.addEventListener("keydown", (event) => {
    const here = look.place ?? look.count - 1;
    const places = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: look.count - 1, Escape: null };
    if (!(event.key in places)) return;
    event.preventDefault();
    choose(look, places[event.key] === null ? null : fit(places[event.key]));
    if (look.place !== null) say(look.tip.textContent);
  });
}

function choose(look, place) {
  look.place = look.count ? place : null;
  look.tip.hidden = look.mark.hidden = look.place === null;
  if (look.place === null) return;
  const share = 100 * (look.from + look.step * look.place);
  look.mark.style.left = `${share}%`;
  look.tip.style.left = `${share}%`;
  look.tip.style.transform = `translateX(${-share}%)`; // it stays within its chart
  write(look.tip, look.text(look.place));
}

function places(svg, count, from, step, text) {
  const look = looks.get(svg);
  Object.assign(look, { count, from, step, text });
  choose(look, look.place === null ? null : Math.min(look.place, count - 1));
}

function roundTop(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return unit * [1, 2, 5, 10].find((factor) => factor * unit >= Math.max(1, value));
}

function chart(svg, axis, series, filled) {
  const top = roundTop(Math.max(1, ...series.flatMap(([, , values]) => values)));
  const count = series[0][2].length;
  const step = 1 / (SPAN_S - 1);
  const from = 1 - step * (count - 1);
  write(axis, `0 to ${whole.format(top)}`);
  svg.replaceChildren();
  for (const [, className, values] of series) {
    if (!values.length) continue;
    const points = values.map((value, index) =>
      `${(240 * (from + index * step)).toFixed(1)},${(47 - (value / top) * 46).toFixed(1)}`);
    if (filled) svg.append(shape("polygon", { points: `${(240 * from).toFixed(1)},48 ${points.join(" ")} 240,48` }));
    svg.append(shape("polyline", { points: points.join(" ") }, className));
  }
  places(svg, count, from, step, (place) => {
    const values = series.map(([name, , column]) => `${whole.format(column[place])} ${name}`);
    return `${count - place} s ago: ${values.join(", ")}`;
  });
}

function drawWheel(wheel) {
  at("wheel-about").textContent = wheel
    ? `${number(wheel.operations, "operation")} and ${number(wheel.entries - wheel.operations, "internal timer")} ` +
      `(takers, leases, upkeep). Each strip begins now; a bar is a bucket, its height grows with the square root of its deadlines; a tick is ${seconds(wheel.tick)}.`
    : "This service does not use a timing wheel.";
  const root = at("wheel");
  const levels = wheel ? wheel.levels : [];
  while (root.children.length > levels.length) root.lastElementChild.remove();
  levels.forEach((level, index) => {
    const row = root.children[index] ?? newLevel(root);
    const span = level.ticks_per_bucket * wheel.tick;
    const total = level.counts.reduce((sum, count) => sum + count, 0);
    const [name, plot, sum, axis] = row.children;
    const reach = span * level.counts.length;
    write(name, `next ${seconds(reach)}`);
    write(sum, whole.format(total));
    write(axis.children[1], seconds(reach / 2));
    write(axis.children[2], seconds(reach));
    strip(plot.firstElementChild, level.counts, `${number(total, "deadline")}, ${seconds(span)} a bucket`);
    places(plot.firstElementChild, level.counts.length, 0.5 / level.counts.length, 1 / level.counts.length, (place) =>
      `in ${seconds(place * span)} to ${seconds((place + 1) * span)}: ${number(level.counts[place], "deadline")}`);
  });
}

function newLevel(root) {
  const row = element("div", "level");
  const plot = element("div", "plot");
  const tip = element("p", "tip");
  const svg = shape("svg", { preserveAspectRatio: "none", role: "img", tabindex: 0 }, "strip");
  const axis = element("p", "axis");
  axis.setAttribute("aria-hidden", "true");
  axis.append(element("span", "", "now"), element("span"), element("span"));
  tip.setAttribute("role", "tooltip");
  tip.id = `level-${root.children.length}`;
  tip.hidden = true;
  svg.setAttribute("aria-describedby", tip.id);
  plot.append(svg, tip);
  row.append(element("p"), plot, element("p", "number"), axis);
  root.append(row);
  readable(svg, tip);
  looks.get(svg).start = 0; // a strip begins now
  return row;
}

function strip(svg, counts, label) {
  svg.setAttribute("viewBox", `0 0 ${counts.length} 10`);
  svg.setAttribute("aria-label", label);
  const top = Math.max(1, ...counts);
  const bars = [shape("rect", { x: 0, y: 0, width: 0.5, height: 10 }, "now")];
  counts.forEach((count, index) => {
    if (!count) return;
    const height = 2 + 8 * Math.sqrt(count / top);
    bars.push(shape("rect", {
      x: index, y: (10 - height).toFixed(2), width: 0.9, height: height.toFixed(2),
      "fill-opacity": (0.35 + 0.65 * Math.sqrt(count / top)).toFixed(2),
    }));
  });
  svg.replaceChildren(...bars);
}

function drawKeys(keys) {
  const top = Math.max(1, ...keys.map((key) => key.watchers));
  at("no-keys").hidden = keys.length > 0;
  at("keys").replaceChildren(...keys.map((key) => {
    const item = element("li");
    const bar = shape("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
    bar.append(shape("rect", { x: 0, y: 0, height: 4, width: Math.max(0.6, (100 * key.watchers) / top).toFixed(1) }));
    item.append(element("bdi", "clamp", plain(key.key)), element("span", "number", whole.format(key.watchers)), bar);
    return item;
  }));
}

// --- tables ------------------------------------------------------------------------------------------------

function inUse(table) {
  return table.matches(":hover") || table.contains(document.activeElement);
}

// Update rows in place. While the table is in use none moves or goes: what is new comes last, if there is room.
function rows(body, items, make, fill, gone) {
  const steady = inUse(body.closest("table"));
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

function cell(className, label) {
  const made = element("td", className);
  made.dataset.label = label;
  return made;
}

function figuresRow(labels) {
  const row = element("tr");
  const name = element("th", "name");
  name.scope = "row";
  name.append(element("bdi", "clamp"));
  row.append(name, ...labels.map(([label, className]) => cell(className ?? "number", label)));
  return row;
}

function fillRow(row, name, values) {
  write(row.cells[0].firstElementChild, name);
  values.forEach((value, index) => write(row.cells[index + 1], value));
}

function drawWorkers(workers) {
  at("store").hidden = workers === null;
  const labels = [["State", ""], ["Last entry"], ["Position"], ["Takers"]];
  rows(at("workers"), new Map((workers ?? []).map((worker) => [worker.name, worker])), () => figuresRow(labels), (row, worker) => {
    fillRow(row, worker.name, [
      `${worker.silent < 20 ? "alive" : "silent"}${worker.own ? ", this one" : ""}`,
      `${seconds(worker.silent)} ago`, whole.format(worker.position), whole.format(worker.takers),
    ]);
  });
}

async function drawQueues(all) {
  const oldest = all.oldest === null ? "" : `, the oldest for ${seconds(all.oldest)}`;
  write(at("queues-about"), `In all ${whole.format(all.items)} ready${oldest}; ${whole.format(all.dead)} went to a dead queue.`);
  const labels = [["Ready"], ["Delayed"], ["Leased"], ["Takers"], ["Oldest"]];
  const found = await read(`${API}/queues?limit=100`).catch(() => null);
  if (found === null) return; // tick() reports that the service does not answer
  rows(at("queues"), new Map(found.queues.map((queue) => [queue.queue, queue])), () => figuresRow(labels), (row, queue) => {
    fillRow(row, plain(queue.queue), [
      ...[queue.items, queue.delayed, queue.leased, queue.takers].map(whole.format), seconds(queue.oldest),
    ]);
  });
}

// --- operations: search, pages, rows -----------------------------------------------------------------------

const view = { text: "", first: 0, total: 0, asked: 0, timer: null };

// As a loop of its own: a search of very many operations must not hold up the figures, nor be repeated at once.
async function listAgain() {
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

// --- one operation -----------------------------------------------------------------------------------------

const detail = { id: null, state: null, from: null };

function showDetail() {
  const id = location.hash.startsWith(DETAIL) ? decoded(location.hash.slice(DETAIL.length)) : null;
  if (at("figures").hidden || id === detail.id) return;
  const left = detail.id;
  Object.assign(detail, { id, state: null });
  at("detail").hidden = id === null;
  at("list").hidden = at("pager").hidden = id !== null;
  at("facts").replaceChildren();
  at("detail-ends").replaceChildren();
  if (id === null) {
    listAgain();
    const row = [...at("operations").children].find((each) => each.dataset.id === left);
    (row?.querySelector("a") ?? at("operations-title")).focus();
  } else {
    write(at("detail-title"), `Operation ${plain(id)}`);
    at("detail-title").focus();
    look(id);
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // no id of the service's: it will say so
  }
}

// Until the operation has ended, or another one is shown.
async function look(id) {
  if (detail.id !== id) return;
  try {
    const answer = await ask(`${API}/operations/${encodeURIComponent(id)}`);
    const body = await answer.json();
    if (detail.id !== id) return;
    if (answer.ok) {
      drawDetail(body);
    } else {
      detail.state = "unknown";
      pairs(at("facts"), [["State", body.detail ?? `the service answered ${answer.status}`]]);
      at("detail-ends").replaceChildren();
    }
  } catch {
    // tick() reports that the service does not answer.
  }
  if (detail.id === id && (detail.state === null || detail.state === "pending")) setTimeout(look, PERIOD_MS, id);
}

function drawDetail(operation) {
  const { deadline } = operation;
  pairs(at("facts"), [
    ["Keys", operation.keys.map(plain).join(", ")],
    ["State", operation.state],
    ["Needs", needed(operation.need)],
    ["Waiting for", operation.waiting_for ? missing(operation.waiting_for) : "nothing more"],
    ["Signals", operation.signals.length ? operation.signals.map(signalled).join("\n") : "none so far"],
    ["Age", seconds(operation.elapsed)],
    ["Deadline", deadline ? `${dated.format(new Date(deadline))}${operation.state === "pending" ? `, in ${seconds(Math.max(0, (new Date(deadline) - Date.now()) / 1000))}` : ""}` : "none"],
    ["Owner", operation.owner ?? "none"],
    ...["data", "result"].filter((name) => operation[name] !== undefined)
      .map((name) => [name === "data" ? "Data" : "Result", plain(JSON.stringify(operation[name]))]),
  ]);
  if (detail.state === operation.state) return;
  detail.state = operation.state;
  at("detail-ends").replaceChildren(...(operation.state === "pending" ? endButtons(operation, "detail-title") : []));
}

function signalled(signal) {
  const value = signal.value === undefined ? "" : ` = ${plain(JSON.stringify(signal.value))}`;
  return `${plain(signal.key)}${value}${signal.voter === undefined ? "" : ` by ${plain(signal.voter)}`}`;
}

// --- ending an operation: ask, wait for an undo, send --------------------------------------------------------

const underWay = new Map(); // id: the timer after which its end is sent
let asking = null;

function endButtons(operation, describedBy) {
  return ["Complete", "Cancel"].map((verb) => {
    const button = element("button", verb === "Cancel" ? "danger" : "", verb);
    button.type = "button";
    button.setAttribute("aria-describedby", describedBy);
    button.addEventListener("click", () => {
      // `disabled` would drop the focus.
      if (button.getAttribute("aria-disabled") !== "true" && !underWay.has(operation.id)) confirmEnd(verb, operation, button);
    });
    return button;
  });
}

function confirmEnd(verb, operation, button) {
  asking = { verb, id: operation.id, button };
  write(at("confirm-title"), `${verb} this operation?`);
  write(at("confirm-keys"), names(operation.keys));
  write(at("confirm-id"), plain(operation.id));
  write(at("sure"), verb);
  at("sure").className = verb === "Cancel" ? "danger" : "";
  at("confirm").showModal();
}

function endLater({ verb, id, button }, byKeyboard) {
  if (underWay.has(id)) return;
  const line = element("p");
  const undo = element("button", "", "Undo");
  undo.type = "button";
  line.append(element("bdi", "clamp", `${verb} ${plain(id)} in 5 s`), undo);
  const done = () => {
    clearTimeout(underWay.get(id));
    underWay.delete(id);
    const focused = line.contains(document.activeElement);
    line.remove();
    // Back to where it was asked for, which cannot end anything by one more Enter.
    if (focused) (button.isConnected && button.offsetParent !== null ? button : at("operations-title")).focus();
  };
  undo.addEventListener("click", done);
  underWay.set(id, setTimeout(() => {
    done();
    send(verb, id);
  }, UNDO_MS));
  at("undo").append(line);
  if (byKeyboard) undo.focus(); // 5 s are too few to find it with Tab
}

async function send(verb, id) {
  const path = `${API}/operations/${encodeURIComponent(id)}`;
  try {
    const answer = verb === "Cancel"
      ? await ask(path, { method: "DELETE" })
      : await ask(`${path}/complete`, { method: "POST" });
    if (!answer.ok) actionTrouble((await answer.json()).detail);
  } catch (error) {
    actionTrouble(`The operation could not be ended: ${error.message}.`);
  }
}

// --- events: fetch, because an EventSource cannot send a token -----------------------------------------

let following = false;
let kept = []; // the newest last
let pausedAt = null; // what was kept when the events were paused
let newer = 0;
let drawingEvents = null;

async function follow() {
  following = true;
  const broken = new AbortController();
  let watchdog = setTimeout(() => broken.abort(), SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream" };
    if (newestEvent !== null) headers["Last-Event-ID"] = newestEvent;
    const answer = await ask(`${API}/events`, { headers, signal: broken.signal });
    if (answer.ok) {
      if (!kept.length) write(at("no-events"), "None since this page was opened.");
      let rest = "";
      for await (const text of chunks(answer.body)) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => broken.abort(), SILENCE_MS);
        const frames = (rest + text).split("\n\n");
        rest = frames.pop();
        frames.forEach(keep);
      }
    }
  } catch {
    // tick() reports that the service does not answer.
  }
  clearTimeout(watchdog);
  setTimeout(follow, 2 * PERIOD_MS);
}

async function* chunks(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

function keep(frame) {
  const fields = {};
  for (const line of frame.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  if (!fields.event) return;
  if (fields.id) newestEvent = fields.id;
  const data = JSON.parse(fields.data ?? "{}");
  const kind = fields.event === "ended" ? data.state : fields.event;
  kept.push({ kind, id: data.id ?? "", keys: data.keys ?? [] });
  if (kept.length > 2 * EVENTS_KEPT) kept = kept.slice(-EVENTS_KEPT);
  if (pausedAt) newer += 1;
  // Not once an event: thousands may come in a second.
  drawingEvents ??= setTimeout(drawEvents, EVENTS_MS);
}

function drawEvents() {
  clearTimeout(drawingEvents);
  drawingEvents = null;
  const wanted = at("events-filter").value.trim();
  const of = pausedAt ?? kept;
  const shown = [];
  for (let place = of.length - 1; place >= 0 && shown.length < EVENTS_SHOWN; place -= 1) {
    const { kind, id, keys } = of[place];
    if (!wanted || [kind, id, ...keys].some((word) => word.includes(wanted))) shown.push(of[place]);
  }
  at("events").replaceChildren(...shown.map(({ kind, id, keys }) => {
    const item = element("li");
    const words = element("bdi", "clamp");
    words.append(names(keys), keys.length && id ? " · " : "", element("span", "id", plain(id)));
    item.append(element("span", kind, kind), words);
    return item;
  }));
  if (of.length) write(at("no-events"), wanted && !shown.length ? `No event has ${plain(wanted)}.` : "");
  if (pausedAt) write(at("no-events"), `Paused; ${whole.format(newer)} newer.`);
  at("no-events").hidden = !at("no-events").textContent;
}

at("pause").addEventListener("click", () => {
  pausedAt = pausedAt ? null : [...kept];
  newer = 0;
  at("pause").setAttribute("aria-pressed", String(pausedAt !== null));
  if (!pausedAt && !kept.length) write(at("no-events"), "None since this page was opened.");
  drawEvents();
});
at("events-filter").addEventListener("input", drawEvents);

// --- what the user does --------------------------------------------------------------------------------

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  at("trouble").hidden = true;
  tick();
});

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  find(at("search-text").value.trim());
});
at("search-text").addEventListener("input", () => {
  if (!at("search-text").value && view.text) find(""); // its cross was pressed
});
at("previous").addEventListener("click", () => turn(view.first - PAGE));
at("next").addEventListener("click", () => turn(view.first + PAGE));

at("back").addEventListener("click", () => { location.hash = ""; });
addEventListener("hashchange", showDetail);

at("keep").addEventListener("click", () => at("confirm").close());
at("sure").addEventListener("click", (event) => {
  at("confirm").close();
  endLater(asking, event.detail === 0);
});
// A page that is left, also one that the browser may bring back, ends nothing.
addEventListener("pagehide", () => {
  for (const timer of underWay.values()) clearTimeout(timer);
  underWay.clear();
  at("undo").replaceChildren();
});

readable(at("pending-history"), at("pending-value"));
readable(at("rate-history"), at("rate-value"));
tick();
