// The events as they come: by fetch, because an EventSource cannot send a token.

import { at, element, write } from "./page.js";
import { API, ask, PERIOD_MS } from "./service.js";
import { names, plain, whole } from "./words.js";

const SILENCE_MS = 45000; // the stream sends a comment every 15 s
const SHOWN = 30;
const KEPT = 1000; // for the filter
const DRAWING_MS = 100; // between two drawings

let following = false;
let newestEvent = null;
let kept = []; // the newest last
let pausedAt = null; // what was kept when the events were paused
let newer = 0;
let drawingEvents = null;

export function open() {
  if (!following) follow();
}

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
    // app.js reports that the service does not answer.
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
  if (kept.length > 2 * KEPT) kept = kept.slice(-KEPT);
  if (pausedAt) newer += 1;
  // Not once an event: thousands may come in a second.
  drawingEvents ??= setTimeout(drawEvents, DRAWING_MS);
}

function drawEvents() {
  clearTimeout(drawingEvents);
  drawingEvents = null;
  const wanted = at("events-filter").value.trim();
  const of = pausedAt ?? kept;
  const shown = [];
  for (let place = of.length - 1; place >= 0 && shown.length < SHOWN; place -= 1) {
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
