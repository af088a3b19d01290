// What the page asks of the service, and how it shows that it has no answer.

import { at } from "./page.js";

export const API = "../v1";
export const PERIOD_MS = 1000; // between two questions
const ANSWER_MS = 5000; // a stuck service or an unplugged cable raises no error

let token = "";
let keepTroubleUntil = 0;

export function signIn(given) {
  token = given;
}

export const hasToken = () => token !== "";

export async function ask(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const patience = options.signal ?? AbortSignal.timeout(ANSWER_MS);
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(path, { ...options, headers, signal: patience, cache: "no-store", credentials: "omit" });
}

export async function read(path) {
  const answer = await ask(path);
  if (!answer.ok) throw new Error(`the service answered ${answer.status}`);
  return answer.json();
}

// Do something again and again, and now when called: a search of very many operations must not be repeated at once.
export function repeated(work) {
  let timer = null;
  return async function again() {
    clearTimeout(timer);
    const began = performance.now();
    await work();
    if (at("figures").hidden) return;
    clearTimeout(timer);
    timer = setTimeout(again, Math.max(PERIOD_MS, 10 * (performance.now() - began)));
  };
}

export function trouble(text) {
  if (at("trouble").textContent !== text) at("trouble").textContent = text;
  at("trouble").hidden = false;
}

export function actionTrouble(text) {
  keepTroubleUntil = Date.now() + 10 * PERIOD_MS; // the next poll must not hide it
  trouble(text);
}

export function calm() {
  if (Date.now() > keepTroubleUntil) at("trouble").hidden = true;
}
