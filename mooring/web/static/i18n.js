// The words of the page in two languages. Names of plugins and messages of the scheduler stay as they are.

import { en } from "./en.js";
import { zh } from "./zh.js";

const LANGUAGES = { en, zh };
let current = localStorage.getItem("mooring.language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!(current in LANGUAGES)) current = "en";
document.documentElement.lang = current === "zh" ? "zh-CN" : "en";

export const language = () => current;

export function setLanguage(value) {
  current = value;
  localStorage.setItem("mooring.language", value);
  document.documentElement.lang = value === "zh" ? "zh-CN" : "en";
}

/** Whether the current language has a text of its own. */
export const has = (key) => key in LANGUAGES[current];

/** The text of a key, with {name} replaced by its value. */
export function t(key, values) {
  const text = LANGUAGES[current][key] ?? en[key];
  if (text === undefined) { console.error(`no text for ${key}`); return key; }
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole) : text;
}
