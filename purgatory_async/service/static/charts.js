// Charts, and what they say about the place under the pointer or chosen with the arrow keys.

import { at, element, say, shape, write } from "./page.js";
import { number, seconds, whole } from "./words.js";

const SPAN_S = 60;

const looks = new Map(); // chart: its tip, the chosen place, and where places are

export function readable(svg, tip) {
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

export function chart(svg, axis, series, filled) {
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

// --- the timing wheel: a strip for each level ------------------------------------------------------------------

export function drawWheel(wheel) {
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
