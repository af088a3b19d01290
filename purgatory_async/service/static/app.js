// The dashboard: polls the stats once a second, follows the events, completes and cancels operations.
// Keys and ids come from clients: the page shows them as text only.
"use strict";

const API = "../v1";
const PERIOD_MS = 1000;
const ANSWER_MS = 5000; // a stuck service or an unplugged cable raises no error
const SILENCE_MS = 45000; // the event stream sends a comment every 15 s
const EVENTS_SHOWN = 30;
const KEYS_NAMED = 3;
const SVG = "http://www.w3.org/2000/svg";

let token = "";
let lastAnswer = 0;
let newestEvent = null;
let keepTroubleUntil = 0;

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
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function rate(value) {
  return value >= 100 ? whole.format(value) : fine.format(value);
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
  return fetch(API + path, { ...options, headers, signal: patience, cache: "no-store", credentials: "omit" });
}

async function tick() {
  try {
    const answer = await ask("/admin/stats");
    if (answer.status === 401 || answer.status === 403) {
      await refused(answer);
    } else if (!answer.ok) {
      throw new Error(`the service answered ${answer.status}`);
    } else {
      draw(await answer.json());
      lastAnswer = Date.now();
      if (Date.now() > keepTroubleUntil) at("trouble").hidden = true;
      at("login").hidden = true;
      at("figures").hidden = false;
    }
  } catch (error) {
    // A time, not an age: a screen reader repeats a text that changes every second.
    const last = lastAnswer ? ` These figures are from ${clock.format(lastAnswer)}.` : "";
    state("silent", "no answer");
    trouble(`The service does not answer (${error.message}).${last}`);
  }
  setTimeout(tick, PERIOD_MS);
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

// --- drawing -----------------------------------------------------------------------------------------

function draw(stats) {
  const { counts, limits, rates, history, delays } = stats;
  state(stats.draining ? "draining" : "serving", stats.draining ? "draining" : "serving");
  const old = stats.survey_age > 3 ? ` · details ${seconds(stats.survey_age)} old` : "";
  at("about").textContent =
    `${stats.version} · up ${seconds(stats.uptime)} · ${whole.format(counts.submitted)} submitted${old}`;
  document.title = `${whole.format(counts.pending)} pending · purgatory`;
  at("pending").textContent = whole.format(counts.pending);
  at("pending-limit").textContent =
    `of ${whole.format(limits.pending)}, on ${whole.format(counts.keys)} keys`;
  spark(at("pending-history"), [["", history.pending]], true);
  pairs(at("rates"), [
    ["arrivals", rate(rates.submitted), "submitted"],
    ["completed", rate(rates.completed), "completed"],
    ["expired", rate(rates.expired), "expired"],
    ["cancelled", rate(rates.cancelled), ""],
    ["signals", rate(rates.signals), ""],
  ]);
  spark(at("rate-history"), ["submitted", "completed", "expired"].map((name) => [name, history[name]]), false);
  for (const [id, name] of [["wait", "wait"], ["lateness", "lateness"], ["loop-lag", "loop_lag"]]) {
    const delay = delays[name];
    pairs(at(id), [["p50", seconds(delay.p50)], ["p99", seconds(delay.p99)], ["longest", seconds(delay.max)]]);
  }
  pairs(at("held"), [
    ["requests", whole.format(counts.held + counts.takers)],
    ["items", whole.format(counts.items)],
    ["on loan", whole.format(counts.leases)],
  ]);
  drawWheel(stats.wheel);
  drawKeys(stats.busiest_keys);
  drawOldest(stats.oldest_operations);
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
    group.children[0].textContent = name;
    group.children[1].textContent = value;
    group.children[1].className = className || "";
  });
}

function spark(svg, series, filled) {
  const top = Math.max(1, ...series.flatMap(([, values]) => values));
  svg.replaceChildren();
  for (const [name, values] of series) {
    if (!values.length) continue;
    const step = 240 / Math.max(59, values.length - 1);
    const start = 240 - step * (values.length - 1);
    const points = values.map((value, index) => `${(start + index * step).toFixed(1)},${(45 - (value / top) * 42).toFixed(1)}`);
    if (filled) svg.append(shape("polygon", { points: `${start.toFixed(1)},48 ${points.join(" ")} 240,48` }));
    svg.append(shape("polyline", { points: points.join(" ") }, name));
  }
}

function drawWheel(wheel) {
  at("wheel-about").textContent = wheel
    ? `${whole.format(wheel.entries)} deadlines of operations, signals, leases and connections. Each strip begins now; a tick is ${seconds(wheel.tick)}.`
    : "This service does not use a timing wheel.";
  const root = at("wheel");
  const levels = wheel ? wheel.levels : [];
  while (root.children.length > levels.length) root.lastElementChild.remove();
  levels.forEach((level, index) => {
    let row = root.children[index];
    if (!row) {
      row = element("div", "level");
      row.append(element("p"), shape("svg", { preserveAspectRatio: "none", role: "img" }, "strip"), element("p", "number"));
      root.append(row);
    }
    const span = level.ticks_per_bucket * wheel.tick;
    const total = level.counts.reduce((sum, count) => sum + count, 0);
    row.children[0].textContent = `next ${seconds(span * level.counts.length)}`;
    row.children[2].textContent = whole.format(total);
    strip(row.children[1], level.counts, `${whole.format(total)} deadlines, ${seconds(span)} a bucket`);
  });
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

function drawOldest(operations) {
  const body = at("oldest");
  at("no-oldest").hidden = operations.length > 0;
  const rows = new Map([...body.children].map((row) => [row.dataset.id, row]));
  // An id has no space; a one-shot wait has no id.
  const named = new Map(operations.map((operation, index) => [operation.id ?? `wait ${index}`, operation]));
  for (const [id, row] of rows) if (!named.has(id)) leave(row);
  let index = 0;
  // Update rows in place: a button must not move while it is pressed, nor lose the focus.
  for (const [id, operation] of named) {
    const row = rows.get(id) ?? newRow(id, operation);
    row.cells[0].lastElementChild.textContent = names(operation.keys);
    row.cells[1].firstElementChild.textContent = missing(operation.waiting_for);
    row.cells[2].textContent = seconds(operation.elapsed);
    row.cells[3].textContent = seconds(operation.expires_in);
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
    index += 1;
  }
}

function leave(row) {
  // Focus the next row, not its button: a second Enter must not end the next operation.
  const next = row.nextElementSibling ?? row.previousElementSibling ?? at("oldest-title");
  if (row.contains(document.activeElement)) next.focus({ preventScroll: true });
  row.remove();
}

function cell(className, label) {
  const made = element("td", className);
  made.dataset.label = label;
  return made;
}

function newRow(id, operation) {
  const row = element("tr");
  row.dataset.id = id;
  row.tabIndex = -1;
  const name = element("td", "name");
  name.append(element("bdi", "id", operation.id === null ? "a one-shot wait" : plain(operation.id)));
  name.append(element("bdi", "quiet clamp"));
  const waits = cell("waits", "Waits for");
  waits.append(element("bdi", "clamp"));
  const ends = element("td", "ends");
  if (operation.id !== null) {
    ends.append(endButton("complete", operation.id), endButton("cancel", operation.id));
  }
  row.append(name, waits, cell("number", "Waiting"), cell("number", "Expires in"), ends);
  return row;
}

function endButton(verb, id) {
  const button = element("button", verb === "cancel" ? "danger" : "", verb);
  button.type = "button";
  button.setAttribute("aria-label", `${verb} operation ${plain(id)}`);
  button.addEventListener("click", async () => {
    // `disabled` would drop the focus.
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    const path = `/operations/${encodeURIComponent(id)}`;
    try {
      const answer = verb === "cancel"
        ? await ask(path, { method: "DELETE" })
        : await ask(`${path}/complete`, { method: "POST" });
      if (!answer.ok) actionTrouble((await answer.json()).detail);
    } catch (error) {
      actionTrouble(`The operation could not be ended: ${error.message}.`);
    }
    button.removeAttribute("aria-disabled");
  });
  return button;
}

// --- events: fetch, because an EventSource cannot send a token -----------------------------------------

async function follow() {
  const broken = new AbortController();
  let watchdog = setTimeout(() => broken.abort(), SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream" };
    if (newestEvent !== null) headers["Last-Event-ID"] = newestEvent;
    const answer = await ask("/events", { headers, signal: broken.signal });
    if (answer.ok) {
      at("no-events").textContent = "None since this page was opened.";
      let rest = "";
      for await (const text of chunks(answer.body)) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => broken.abort(), SILENCE_MS);
        const frames = (rest + text).split("\n\n");
        rest = frames.pop();
        frames.forEach(show);
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

function show(frame) {
  const fields = {};
  for (const line of frame.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  if (!fields.event) return;
  if (fields.id) newestEvent = fields.id;
  const data = JSON.parse(fields.data ?? "{}");
  const kind = fields.event === "ended" ? data.state : fields.event;
  const item = element("li");
  const subject = [plain(data.id ?? ""), names(data.keys ?? [])].filter(Boolean).join(" · ");
  item.append(element("span", kind, kind), element("bdi", "clamp", subject));
  at("no-events").hidden = true;
  const list = at("events");
  list.prepend(item);
  while (list.children.length > EVENTS_SHOWN) list.lastElementChild.remove();
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  at("trouble").hidden = true;
});

tick();
follow();
