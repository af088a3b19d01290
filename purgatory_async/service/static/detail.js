// One operation, in place of the list.

import { endButtons } from "./ending.js";
import { listAgain } from "./operations.js";
import { at, pairs, write } from "./page.js";
import { DETAIL, ending, fillQuestion, newQuestion } from "./question.js";
import { API, ask, PERIOD_MS } from "./service.js";
import { dated, missing, needed, plain, seconds, signalled } from "./words.js";

const detail = { id: null, state: null, from: null };

function showDetail() {
  const id = location.hash.startsWith(DETAIL) ? decoded(location.hash.slice(DETAIL.length)) : null;
  const alone = at("figures").hidden;
  if (alone && at("by-id").hidden) return;
  write(at("back"), alone ? "Close" : "Back to the list");
  if (id === detail.id && detail.state !== "unknown") return; // another token may know it
  const left = detail.id;
  Object.assign(detail, { id, state: null });
  at("detail").hidden = id === null;
  at("list").hidden = at("pager").hidden = id !== null;
  at("facts").replaceChildren();
  at("detail-ends").replaceChildren();
  at("detail-question").replaceChildren();
  if (id === null) {
    if (!alone) listAgain();
    const row = [...at("operations").children].find((each) => each.dataset.id === left);
    (row?.querySelector("a") ?? at(alone ? "asked-id" : "operations-title")).focus();
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
    // app.js reports that the service does not answer.
  }
  if (detail.id === id && (detail.state === null || detail.state === "pending")) setTimeout(look, PERIOD_MS, id);
}

function drawDetail(operation) {
  const { deadline } = operation;
  pairs(at("facts"), [
    ["Keys", operation.keys.map(plain).join(", ")],
    ["State", operation.state],
    ["Needs", needed(operation.need)],
    ["Waiting for", operation.state === "pending" && operation.ask ? "an answer" : operation.waiting_for ? missing(operation.waiting_for) : "nothing more"],
    ["Signals", operation.signals.length ? operation.signals.map(signalled).join("\n") : "none so far"],
    ["Age", seconds(operation.elapsed)],
    ["Deadline", deadline ? `${dated.format(new Date(deadline))}${operation.state === "pending" ? `, in ${seconds(Math.max(0, (new Date(deadline) - Date.now()) / 1000))}` : ""}` : "none"],
    ["Owner", operation.owner ?? "none"],
    ...(operation.data === undefined ? [] : [["Data", plain(JSON.stringify(operation.data))]]),
    ...ending(operation),
  ]);
  if (operation.ask) {
    const [card] = at("detail-question").children;
    if (card) fillQuestion(card, operation);
    else at("detail-question").append(newQuestion(operation, "div"));
  }
  if (detail.state === operation.state) return;
  detail.state = operation.state;
  at("detail-ends").replaceChildren(...(operation.state === "pending" ? endButtons(operation, "detail-title") : []));
}

at("back").addEventListener("click", () => { location.hash = ""; });
addEventListener("hashchange", showDetail);

export { showDetail as open };
