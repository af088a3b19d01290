// One question: what it says, its choices, the comment, and what ended it.

import { confirm } from "./confirm.js";
import { at, element, pairs, say, write } from "./page.js";
import { actionTrouble, API, ask, read } from "./service.js";
import { dated, plain, prose, seconds } from "./words.js";

export const DETAIL = "#operation="; // begins the address of one operation

const drafts = new Map(); // comments that are being written, by question: they outlive a list that is drawn anew
let count = 0;

// An id may be used again, once an operation is forgotten.
export const keyOf = (operation) => `${operation.id} ${operation.submitted_at}`;

export function newQuestion(operation, tag = "li") {
  const { title, text, choices, comment } = operation.ask;
  const card = element(tag, "question");
  const heading = foreign("h3", title);
  count += 1;
  heading.id = `question-${count}`;
  card.append(heading);
  if (text) card.append(written(text));
  const link = element("a");
  link.href = DETAIL + encodeURIComponent(operation.id);
  link.append(element("bdi", "", plain(operation.id)));
  const about = element("p", "quiet");
  about.append(link, element("span", "times"));
  card.append(about);
  if (operation.state === "pending") card.append(...form(card, operation, choices, comment, heading.id));
  card.append(element("dl", "facts"));
  fillQuestion(card, operation);
  return card;
}

// Foreign text, in its own direction.
function foreign(tag, text, className = "") {
  const made = element(tag, className, prose(text));
  made.dir = "auto";
  return made;
}

function written(text) {
  const made = foreign("p", text, "text");
  if (text.length > 1000 || text.split("\n").length > 12) {
    made.classList.add("long"); // it scrolls, also by keyboard
    made.tabIndex = 0;
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", "Text of the question");
  }
  return made;
}

function form(card, operation, choices, comment, describedBy) {
  const parts = [];
  let field = null;
  if (comment !== "none") {
    field = element("textarea");
    field.rows = 2;
    field.maxLength = 4096;
    field.dir = "auto";
    field.required = comment === "required";
    field.value = drafts.get(keyOf(operation)) ?? "";
    field.addEventListener("input", () => drafts.set(keyOf(operation), field.value));
    const label = element("label", "comment answers", field.required ? "Comment" : "Comment (optional)");
    label.append(field);
    parts.push(label);
  }
  const buttons = element("p", "ends");
  buttons.append(...choices.map((choice) => {
    const button = foreign("button", choice, "answers");
    button.type = "button";
    button.setAttribute("aria-describedby", describedBy);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true" || (field && !field.reportValidity())) return;
      const given = field?.value ? { choice, comment: field.value } : { choice };
      confirm({
        title: "Give this answer?",
        about: prose(operation.ask.title),
        comment: given.comment && `“${prose(given.comment)}”`,
        id: plain(operation.id),
        note: "It counts at once, and cannot be undone.",
        sure: prose(choice),
        keep: "Not yet",
      }, () => send(card, operation, given));
    });
    return button;
  }));
  return [...parts, buttons];
}

export function fillQuestion(card, operation) {
  if (card.classList.contains("gone")) return; // an older answer to the list came late
  const { deadline, elapsed, state } = operation;
  if (state !== "pending") {
    end(card, operation);
    return;
  }
  const left = deadline && seconds(Math.max(0, (new Date(deadline) - Date.now()) / 1000));
  const until = deadline ? `expires in ${left}, on ${dated.format(new Date(deadline))}` : "no deadline";
  write(card.querySelector(".times"), ` · waiting for ${seconds(elapsed)} · ${until}`);
}

// It is no longer in the list: it has ended, or is on another page.
export async function lookAgain(card) {
  if (card.classList.contains("gone")) return;
  const [id, asked] = card.dataset.id.split(" ");
  const operation = await read(`${API}/operations/${encodeURIComponent(id)}`).catch(() => null);
  if (operation && operation.submitted_at === asked) fillQuestion(card, operation);
}

function end(card, operation) {
  drafts.delete(keyOf(operation));
  card.classList.add("gone");
  write(card.querySelector(".times"), ` · asked on ${dated.format(new Date(operation.submitted_at))}`);
  hold(card, true);
  const field = card.querySelector("textarea");
  if (field) field.readOnly = true;
  pairs(card.querySelector(".facts"), [["State", operation.state], ...ending(operation)]);
}

// What ended an operation, as far as there is something to say.
export function ending(operation) {
  const { result, error, by, via, ended_at: ended } = operation;
  const answer = operation.ask && typeof result?.choice === "string" ? result : null;
  return [
    ["Answer", answer && prose(answer.choice)],
    ["Comment", typeof answer?.comment === "string" && prose(answer.comment)],
    ["Result", !answer && result !== undefined && plain(JSON.stringify(result))],
    ["Error", error !== undefined && plain(JSON.stringify(error))],
    ["By", by && plain(by)],
    ["By a link of", via && plain(via)],
    ["Ended", ended && dated.format(new Date(ended))],
  ].filter(([, value]) => value);
}

function hold(card, held) {
  for (const button of card.querySelectorAll("button")) button.setAttribute("aria-disabled", String(held)); // it keeps the focus
}

async function send(card, operation, given) {
  hold(card, true);
  let sent = false;
  try {
    const path = `${API}/operations/${encodeURIComponent(operation.id)}`;
    // A page may be old, as after a night with the lid closed: its id may have become another question's.
    const present = await read(path);
    if (keyOf(present) !== keyOf(operation)) throw new Error("another operation has this id now");
    sent = true;
    const headers = { "Content-Type": "application/json" };
    const answer = await ask(`${path}/answer`, { method: "POST", headers, body: JSON.stringify(given) });
    const body = await answer.json();
    if (answer.ok) {
      end(card, body);
      say(`Answered: ${prose(given.choice)}`);
    } else {
      actionTrouble(body.detail); // if another one was first, the next look at it shows how it ended
      hold(card, false);
    }
  } catch (error) {
    actionTrouble(sent
      ? `The answer is not confirmed (${error.message}). If the question stays, answer again: it counts once.`
      : `The answer was not sent: ${error.message}.`);
    hold(card, false);
  }
}
