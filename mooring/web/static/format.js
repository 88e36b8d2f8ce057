// Numbers, quantities and times as people read them.

import { language } from "./i18n.js";
import { now } from "./store.js";

export const number = (value) => value.toLocaleString(language() === "zh" ? "zh-CN" : "en-US");
export const percent = (part, whole) => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
const plain = (value) => String(Number(value.toFixed(value < 10 ? 2 : 1)));

/** An amount of a resource: cpu comes in thousandths, memory in bytes. */
export function amount(resource, value) {
  if (resource === "cpu") return plain(value / 1000);
  if (resource === "memory" || resource.includes("storage") || resource.startsWith("hugepages-")) {
    let unit = 0;
    while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit++; }
    return plain(value) + UNITS[unit];
  }
  return number(value);
}

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(seconds % 60).padStart(2, "0")}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h${String(minutes % 60).padStart(2, "0")}m` : `${Math.floor(hours / 24)}d`;
}

export const clock = (text) => (text ? new Date(text).toLocaleTimeString(language() === "zh" ? "zh-CN" : "en-GB") : "");
export const since = (text) => (text ? duration(now() - Date.parse(text)) : "");
export const until = (text) => (text ? duration(Date.parse(text) - now()) : "");

/** A long name without its middle. */
export const short = (text, most) =>
  text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(text.length - Math.floor(most / 2))}`;

export const podLink = (key) => `#/pods/${key.split("/").map(encodeURIComponent).join("/")}`;
export const nodeLink = (name) => `#/cluster?node=${encodeURIComponent(name)}`;
