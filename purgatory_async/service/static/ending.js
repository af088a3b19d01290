// Ending an operation: ask, wait for an undo, send.

import { at, element, write } from "./page.js";
import { actionTrouble, API, ask } from "./service.js";
import { names, plain } from "./words.js";

const UNDO_MS = 5000;

const underWay = new Map(); // id: the timer after which its end is sent
let asking = null;

export function endButtons(operation, describedBy) {
  return ["Complete", "Cancel"].map((verb) => {
    const button = element("button", verb === "Cancel" ? "danger" : "", verb);
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
  asking = { verb, id: operation.id, button };
  write(at("confirm-title"), `${verb} this operation?`);
  write(at("confirm-keys"), names(operation.keys));
  write(at("confirm-id"), plain(operation.id));
  write(at("sure"), verb);
  at("sure").className = verb === "Cancel" ? "danger" : "";
  at("confirm").showModal();
}

function endLater({ verb, id, button }, byKeyboard) {
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
    send(verb, id);
  }, UNDO_MS));
  at("undo").append(line);
  if (byKeyboard) undo.focus(); // 5 s are too few to find it with Tab
}

async function send(verb, id) {
  const path = `${API}/operations/${encodeURIComponent(id)}`;
  try {
    const answer = verb === "Cancel"
      ? await ask(path, { method: "DELETE" })
      : await ask(`${path}/complete`, { method: "POST" });
    if (!answer.ok) actionTrouble((await answer.json()).detail);
  } catch (error) {
    actionTrouble(`The operation could not be ended: ${error.message}.`);
  }
}

at("keep").addEventListener("click", () => at("confirm").close());
at("sure").addEventListener("click", (event) => {
  at("confirm").close();
  endLater(asking, event.detail === 0);
});
// A page that is left, also one that the browser may bring back, ends nothing.
addEventListener("pagehide", () => {
  for (const timer of underWay.values()) clearTimeout(timer);
  underWay.clear();
  at("undo").replaceChildren();
});
