// The dashboard: asks for its feed once a second, and lets the views show it. Each view is a module of its own.
// A table keeps its rows in their places while the pointer or the focus is in it.

import * as detail from "./detail.js";
import * as events from "./events.js";
import * as figures from "./figures.js";
import * as operations from "./operations.js";
import { at, write } from "./page.js";
import { DETAIL } from "./question.js";
import * as questions from "./questions.js";
import { ask, calm, hasToken, PERIOD_MS, signIn, trouble } from "./service.js";
import { clock } from "./words.js";

// What the page shows. `open` is called once the service has let the page in, `draw` with each feed. A further view is
// its module, its section in index.html, and its place here.
const VIEWS = [figures, questions, operations, detail, events];

let lastAnswer = 0;
let ticking = null;

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
      const feed = await answer.json();
      state(feed.draining ? "draining" : "serving", feed.draining ? "draining" : "serving");
      for (const view of VIEWS) view.draw?.(feed);
      lastAnswer = Date.now();
      calm();
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
  at("login").hidden = at("by-id").hidden = true;
  at("figures").hidden = false;
  at("operations-column").append(at("detail"));
  for (const view of VIEWS) view.open?.();
}

async function refused(answer) {
  const problem = await answer.json().catch(() => ({ detail: "" }));
  state("silent", answer.status === 401 ? "token needed" : "not allowed");
  at("login").hidden = false;
  at("figures").hidden = true;
  at("by-id").hidden = answer.status !== 403;
  at(answer.status === 403 ? "main" : "operations-column").append(at("detail"));
  if (answer.status === 403) alone(problem.detail);
  else if (hasToken()) trouble(problem.detail || "The token was refused.");
}

// Of a token that may not list, one operation: its id may have come with a question.
function alone(why) {
  write(at("by-id-why"), `Nothing is listed: ${why}.`);
  at("trouble").hidden = true;
  at("main").classList.remove("ending");
  at("main").classList.add("answering"); // if it may not, the service says so
  detail.open();
}

function state(kind, text) {
  const pill = at("state");
  if (pill.textContent !== text) pill.textContent = text; // a screen reader reads out each write
  pill.className = `pill ${kind}`;
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(at("token").value.trim());
  at("token").value = "";
  at("trouble").hidden = true;
  tick();
});

at("by-id").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = DETAIL + encodeURIComponent(at("asked-id").value.trim());
});

tick();
