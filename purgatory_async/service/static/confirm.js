// The dialog that asks before something ends.

import { at, write } from "./page.js";

let then = null; // what to do if it is confirmed, once

// `does` gets the value, as text (empty for none), and whether the keyboard confirmed it. A value is asked for if it has
// a `label`.
export function confirm({ title, about, id, comment, label, note, sure, keep, danger }, does) {
  then = does;
  write(at("confirm-title"), title);
  write(at("confirm-keys"), about);
  write(at("confirm-id"), id);
  write(at("confirm-comment"), comment ?? "");
  write(at("confirm-note"), note);
  at("confirm-field").hidden = label === undefined;
  write(at("confirm-label"), label ?? "");
  at("confirm-value").value = "";
  at("confirm-wrong").hidden = true;
  write(at("keep"), keep);
  write(at("sure"), sure);
  at("sure").className = danger ? "danger" : "";
  at("confirm").showModal();
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

at("keep").addEventListener("click", () => at("confirm").close());
at("sure").addEventListener("click", (event) => {
  const value = at("confirm-value").value.trim();
  at("confirm-wrong").hidden = !value || isJson(value);
  if (!at("confirm-wrong").hidden) {
    at("confirm-value").focus();
    return;
  }
  const does = then;
  then = null; // a second press of a double click does nothing
  at("confirm").close();
  does?.(value, event.detail === 0);
});
