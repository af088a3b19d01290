// The dashboard: asks for the figures once a second, follows the events, and ends operations when told to.
// Whatever a client of the service wrote (keys, ids) is only ever put into the page as text.
"use strict";

const API = "../v1";
const PERIOD_MS = 1000;
const EVENTS_SHOWN = 30;
const SVG = "http://www.w3.org/2000/svg";

let token = "";
let lastAnswer = 0;
let newestEvent = null;

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

// --- words for numbers -------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function rate(value) {
  return value >= 100 ? whole.format(value) : fine.format(value);
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${(value * 1000).toFixed(value < 0.1 ? 2 : 0)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const total = Math.round(value);
  if (total < 3600) return `${Math.floor(total / 60)} m ${total % 60} s`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${Math.floor((total % 3600) / 60)} m`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

function missing(waitingFor) {
  if (waitingFor.any) return "any of its keys";
  if (waitingFor.all) return `all of ${waitingFor.all.join(", ")}`;
  if (waitingFor.amount !== undefined) return `an amount of ${whole.format(waitingFor.amount)}`;
  return `${whole.format(waitingFor.voters)} more voters`;
}

// --- talking to the service --------------------------------------------------------------------------

async function ask(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(API + path, { ...options, headers, cache: "no-store", credentials: "omit" });
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
      at("trouble").hidden = true;
      at("login").hidden = true;
      at("figures").hidden = false;
    }
  } catch (error) {
    const since = lastAnswer ? ` since ${seconds((Date.now() - lastAnswer) / 1000)}` : "";
    state("silent", "no answer");
    trouble(`The service does not answer${since} (${error.message}). What is shown is what it said last.`);
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
  at("trouble").textContent = text;
  at("trouble").hidden = false;
}

function state(kind, text) {
  const pill = at("state");
  if (pill.textContent !== text) pill.textContent = text; // so that it is read out only when it changes
  pill.className = `pill ${kind}`;
}

// --- drawing -----------------------------------------------------------------------------------------

function draw(stats) {
  const { counts, limits, rates, history, delays } = stats;
  state(stats.draining ? "draining" : "serving", stats.draining ? "draining" : "serving");
  at("about").textContent = `${stats.version} · up ${seconds(stats.uptime)} · ${whole.format(counts.submitted)} submitted`;
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
  // Values change every second, names never: the nodes stay, so that a screen reader keeps its place.
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
    ? `${whole.format(wheel.entries)} deadlines in buckets, a tick is ${seconds(wheel.tick)}; each strip begins now, and turns with time.`
    : "This service keeps its deadlines elsewhere.";
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
  at("keys").replaceChildren(...keys.map((key) => {
    const item = element("li");
    const bar = shape("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
    bar.append(shape("rect", { x: 0, y: 0, height: 4, width: ((100 * key.watchers) / top).toFixed(1) }));
    item.append(element("span", "", key.key), element("span", "number", whole.format(key.watchers)), bar);
    return item;
  }));
}

function drawOldest(operations) {
  const body = at("oldest");
  const rows = new Map([...body.children].map((row) => [row.dataset.id, row]));
  const named = operations.map((operation, index) => [operation.id ?? `a wait, ${index}`, operation]);
  // A row that stays is changed in place: a button must not vanish under somebody's finger.
  named.forEach(([id, operation], index) => {
    const row = rows.get(id) ?? newRow(id, operation);
    rows.delete(id);
    row.cells[1].textContent = missing(operation.waiting_for);
    row.cells[2].textContent = seconds(operation.elapsed);
    row.cells[3].textContent = seconds(operation.expires_in);
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
  });
  for (const row of rows.values()) row.remove();
}

function newRow(id, operation) {
  const row = element("tr");
  row.dataset.id = id;
  const name = element("td", "name", operation.id ?? "a one-shot wait");
  name.append(element("span", "quiet", operation.keys.join(", ")));
  const ends = element("td", "ends");
  if (operation.id !== null) {
    ends.append(endButton("complete", operation.id), endButton("cancel", operation.id));
  }
  row.append(name, element("td"), element("td", "number"), element("td", "number"), ends);
  return row;
}

function endButton(verb, id) {
  const button = element("button", verb === "cancel" ? "danger" : "", verb);
  button.type = "button";
  button.setAttribute("aria-label", `${verb} operation ${id}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    const path = `/operations/${encodeURIComponent(id)}`;
    try {
      const answer = verb === "cancel"
        ? await ask(path, { method: "DELETE" })
        : await ask(`${path}/complete`, { method: "POST" });
      if (!answer.ok) trouble((await answer.json()).detail);
    } catch (error) {
      trouble(`The operation could not be ended: ${error.message}.`);
    }
    button.disabled = false;
  });
  return button;
}

// --- events: read with fetch, because an EventSource cannot send a token -------------------------------

async function follow() {
  try {
    const headers = { Accept: "text/event-stream" };
    if (newestEvent !== null) headers["Last-Event-ID"] = newestEvent;
    const answer = await ask("/events", { headers });
    if (answer.ok) {
      let rest = "";
      for await (const text of chunks(answer.body)) {
        const frames = (rest + text).split("\n\n");
        rest = frames.pop();
        frames.forEach(show);
      }
    }
  } catch {
    // The figures say that the service does not answer; here is nothing to add.
  }
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
  const subject = [data.id, (data.keys ?? []).join(", ")].filter(Boolean).join(" · ");
  item.append(element("span", kind, kind), element("span", "", subject));
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
