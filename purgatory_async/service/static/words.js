// Words for names and for numbers.

const KEYS_NAMED = 3;

export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
export const dated = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// Invisible characters can make an id look like another: the user must see which operation a button cancels.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

export function plain(name) {
  return name.replace(UNSEEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

// Text of several lines. Joiners are part of words and of emoji.
export function prose(text) {
  return text.replace(UNSEEN, (found) => (/[\n\t\u200c\u200d]/.test(found) ? found : plain(found)));
}

export function names(keys) {
  const more = keys.length - KEYS_NAMED;
  const named = keys.slice(0, KEYS_NAMED).map(plain).join(", ");
  return more > 0 ? `${named} and ${whole.format(more)} more` : named;
}

export function rate(value) {
  return value >= 100 ? whole.format(value) : fine.format(value);
}

export function number(value, noun) {
  return `${whole.format(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.9995) return `${Number((value * 1000).toPrecision(3))} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const total = Math.round(value);
  if (total < 3600) return `${Math.floor(total / 60)} m ${total % 60} s`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${Math.floor((total % 3600) / 60)} m`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

export function needed(need) {
  if (need === "any") return "a signal on any of its keys";
  if (need === "all") return "a signal on each of its keys";
  if (need.amount !== undefined) return `signals of an amount of ${whole.format(need.amount)} in all`;
  return `signals of ${whole.format(need.voters)} voters`;
}

export function missing(waitingFor) {
  if (waitingFor.any) return "any of its keys";
  if (waitingFor.all) return `all of ${names(waitingFor.all)}`;
  if (waitingFor.amount !== undefined) return `an amount of ${whole.format(waitingFor.amount)}`;
  return `${whole.format(waitingFor.voters)} more voters`;
}

export function signalled(signal) {
  const value = signal.value === undefined ? "" : ` = ${plain(JSON.stringify(signal.value))}`;
  return `${plain(signal.key)}${value}${signal.voter === undefined ? "" : ` by ${plain(signal.voter)}`}`;
}
