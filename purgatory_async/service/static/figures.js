// The figures of the feed: counts, rates, delays, the wheel, the busiest keys, workers and queues.

import { chart, drawWheel, readable } from "./charts.js";
import { at, element, figuresRow, fillRow, pairs, rows, shape, write } from "./page.js";
import { API, read } from "./service.js";
import { plain, rate, seconds, whole } from "./words.js";

readable(at("pending-history"), at("pending-value"));
readable(at("rate-history"), at("rate-value"));

export function draw(stats) {
  const { counts, queues, limits, rates, history, delays } = stats;
  at("main").classList.toggle("ending", stats.may_end);
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
  if (found === null) return; // app.js reports that the service does not answer
  rows(at("queues"), new Map(found.queues.map((queue) => [queue.queue, queue])), () => figuresRow(labels), (row, queue) => {
    fillRow(row, plain(queue.queue), [
      ...[queue.items, queue.delayed, queue.leased, queue.takers].map(whole.format), seconds(queue.oldest),
    ]);
  });
}
