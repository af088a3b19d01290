// The questions that operations ask people: those that wait, or those that have ended.

import { at, rows, write } from "./page.js";
import { pages } from "./pages.js";
import { fillQuestion, keyOf, lookAgain, newQuestion } from "./question.js";
import { read, repeated } from "./service.js";

const SHOWN = 10;

let ended = false;

const list = pages({
  range: at("questions-range"),
  previous: at("previous-questions"),
  next: at("next-questions"),
  body: at("questions"),
  size: SHOWN,
  ask: (first, limit) => {
    const query = new URLSearchParams({ state: ended ? "ended" : "pending", first, limit });
    return read(`questions?${query}`).catch(() => null);
  },
  draw: ({ total, operations, may_answer: mayAnswer }) => {
    at("main").classList.toggle("answering", mayAnswer);
    at("no-questions").hidden = total > 0;
    write(at("no-questions"), ended ? "No question that has ended is kept." : "No question waits for an answer.");
    const named = new Map(operations.map((operation) => [keyOf(operation), operation]));
    rows(at("questions"), named, newQuestion, fillQuestion, lookAgain);
  },
});

at("ended-questions").addEventListener("click", () => {
  ended = !ended;
  at("ended-questions").setAttribute("aria-pressed", String(ended));
  list.restart();
});

export const open = repeated(list.list);
