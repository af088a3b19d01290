// Ending an operation: ask, wait for an undo, send.

import { confirm } from "./confirm.js";
import { at, element } from "./page.js";
import { actionTrouble, API, ask } from "./service.js";
import { names, plain } from "./words.js";

const UNDO_MS = 5000;

const underWay = new Map(); // id: the timer after which its end is sent

// A question is not completed but answered.
export function endButtons(operation, describedBy) {
  const asks = operation.ask !== undefined || operation.title !== undefined;
  return (asks ? ["Cancel"] : ["Complete", "Cancel"]).map((verb) => {
    const button = element("button", verb === "Cancel" ? "danger" : "answers", verb);
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
  const { id, keys } = operation;
  confirm({
    title: `${verb} this operation?`,
    about: names(keys),
    id: plain(id),
    label: verb === "Complete" ? "Result, as JSON (optional)" : undefined,
    note: "It is sent after 5 s, and can be undone until then.",
    sure: verb,
    keep: "Keep it",
    danger: verb === "Cancel",
  }, (value, byKeyboard) => endLater(verb, id, value, button, byKeyboard));
}

function endLater(verb, id, value, button, byKeyboard) {
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
    send(verb, id, value);
  }, UNDO_MS));
  at("undo").append(line);
  if (byKeyboard) undo.focus(); // 5 s are too few to find it with Tab
}

// A value as it was written: a number may have more digits than a script keeps.
function body(value) {
  return value && { headers: { "Content-Type": "application/json" }, body: `{"result":${value}}` };
}

async function send(verb, id, value) {
  const path = `${API}/operations/${encodeURIComponent(id)}`;
  try {
    const answer = verb === "Cancel"
      ? await ask(path, { method: "DELETE" })
      : await ask(`${path}/complete`, { method: "POST", ...body(value) });
    if (!answer.ok) actionTrouble((await answer.json()).detail);
  } catch (error) {
    actionTrouble(`The operation could not be ended: ${error.message}.`);
  }
}

// A page that is left, also one that the browser may bring back, ends nothing.
addEventListener("pagehide", () => {
  for (const timer of underWay.values()) clearTimeout(timer);
  underWay.clear();
  at("undo").replaceChildren();
});
