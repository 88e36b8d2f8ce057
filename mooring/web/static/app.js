// Starts the page: header, router, connection.

import { announce, h, replace, setOffline } from "./dom.js";
import { get, follow, takeToken } from "./net.js";
import { delta, listen, now, snapshot, store } from "./store.js";
import { duration, nodeLink, number, podLink } from "./format.js";
import { language, setLanguage, t } from "./i18n.js";
import * as cluster from "./views/cluster.js";

const main = document.getElementById("main"), banner = document.getElementById("banner"), top = document.getElementById("top");

/** Views: later ones are added here, and nowhere else. `load` returns a module with show(context). */
const VIEWS = [
  { path: "cluster", title: "nav.cluster", load: async () => cluster },
  { path: "queue", title: "nav.queue", load: () => import("./views/queue.js"), badge: () => pending() },
  { path: "decisions", title: "nav.decisions", load: () => import("./views/decisions.js") },
  { path: "what-if", title: "nav.whatIf", load: () => import("./views/whatif.js"), feature: "what-if" },
  { path: "run", title: "nav.run", load: () => import("./views/run.js"), feature: "run" },
  { path: "sandbox", title: "nav.sandbox", load: () => import("./views/sandbox.js"), feature: "sandbox" },
  { path: "pods", load: () => import("./views/pod.js"), parent: "queue" },
];

const meta = { features: [], mode: "" };
let connection = null, link = "wait", denied = null, current = null, shown = 0, lastWord = Date.now();

const pending = () => {
  const counts = store.counts;
  return counts ? counts.active + counts.backoff + counts.unschedulable + counts.gated + counts.permit : 0;
};

// ---- the address

/** The address as path parts and query. */
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query ?? "") };
}

/** Change the query of the address; without `push`, in place. */
function setQuery(changes, push = false) {
  const { parts, query } = route();
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const path = (parts.length ? parts : ["cluster"]).map(encodeURIComponent).join("/");
  const hash = `#/${path}${query.size ? `?${query}` : ""}`;
  if (hash === location.hash) return;
  if (push) { location.hash = hash; return; }
  history.replaceState(null, "", hash);
}

async function navigate() {
  if (denied) return;
  const { parts, query } = route();
  const view = VIEWS.find((each) => each.path === (parts[0] ?? "cluster"));
  markCurrent(view);
  const same = current && current.view === view && current.path === parts.join("/") && current.update;
  if (same) { current.update(query); return; }
  const turn = ++shown;
  current?.stop?.();
  current = null;
  if (!view || (view.feature && meta.features.length && !meta.features.includes(view.feature))) {
    replace(main, h("div", { class: "empty" }, h("h1", {}, t("notFound.title")), h("p", {}, h("a", { href: "#/cluster" }, t("nav.cluster")))));
    return;
  }
  const slow = setTimeout(() => replace(main, h("div", { class: "empty", role: "status" }, t("loading"))), 150);
  try {
    const module = await view.load();
    if (turn !== shown) return;
    clearTimeout(slow);
    const started = module.show({ main, parts: parts.slice(1), query, setQuery, meta, failed: (error, retry) => failure(error, retry) });
    current = { view, path: parts.join("/"), ...started };
    document.title = `${started?.title ?? t(view.title ?? "nav.cluster")} · Mooring`;
    main.scrollTop = 0;
    announce(document.title);
  } catch (error) {
    clearTimeout(slow);
    if (turn === shown) replace(main, failure(error, navigate));
  }
}

/** An error with what to do about it. */
function failure(error, retry) {
  const expired = error.status === 410;
  return h("div", { class: "empty", role: "alert" },
    h("h1", {}, t(error.status === 404 || expired ? "notFound.title" : "failed.title")),
    h("p", { class: "wrap" }, error.message),
    error.path && h("p", { class: "muted" }, `${error.path} · ${error.status ?? ""}`),
    h("div", { class: "bar" }, !expired && retry && h("button", { onclick: retry }, t("retry")), h("a", { href: "#/cluster" }, t("nav.cluster"))));
}

// ---- the header

const badge = h("span", { class: "count", hidden: true });
const liveText = h("span", { class: "live", "data-state": "wait" });
const controls = h("span", { class: "bar", style: { margin: "0" } });

function header() {
  const links = VIEWS.filter((view) => view.title && (!view.feature || meta.features.includes(view.feature))).map((view) =>
    h("a", { href: `#/${view.path}`, "data-path": view.path }, t(view.title), view.badge && badge));
  const search = searchBox();
  replace(top,
    h("a", { class: "brand", href: "#/cluster", "aria-label": "Mooring" }, h("img", { src: "icon.svg", alt: "" }), h("span", {}, "Mooring")),
    h("nav", { "aria-label": t("nav.label") }, links), h("span", { class: "grow" }), controls, search, liveText,
    h("button", { class: "plain", onclick: toggleTheme, "aria-label": t("theme"), title: t("theme") }, "◐"),
    h("button", { class: "plain", lang: language() === "zh" ? "en" : "zh-CN", onclick: () => { setLanguage(language() === "zh" ? "en" : "zh"); header(); restart(); } }, language() === "zh" ? "EN" : "中文"),
    h("button", { class: "plain optional", onclick: help, "aria-label": t("help"), title: t("help") }, "?"));
  document.querySelector(".skip").textContent = t("skip");
  markCurrent(VIEWS.find((each) => each.path === (route().parts[0] ?? "cluster")));
  showState();
}

function markCurrent(view) {
  for (const each of top.querySelectorAll("nav a")) {
    if (view && each.dataset.path === (view.title ? view.path : view.parent)) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
}

function restart() {
  const before = current;
  current = null;
  before?.stop?.();
  navigate();
}

function showState() {
  const count = pending();
  badge.textContent = number(count);
  badge.hidden = !count;
  badge.setAttribute("aria-label", t("nav.pending", { count }));
  liveText.dataset.state = link;
  liveText.textContent = link === "on" ? t("live") : link === "wait" ? t("connecting") : t("age", { age: duration(Date.now() - lastWord) });
  document.documentElement.dataset.link = link;
  const paused = store.state.paused && meta.features.includes("sandbox");
  const speed = store.state.speed ?? 1;
  replace(controls, speed !== 1 && h("span", { class: "badge warning" }, t("sandbox.speedBadge", { speed })), paused && h("span", { class: "badge warning" }, t("sandbox.paused")));
}

function showBanner() {
  banner.dataset.kind = "";
  if (link === "off") {
    replace(banner, t("disconnected", { age: duration(Date.now() - lastWord) }), h("button", { onclick: () => connection.retry() }, t("retry")));
  } else if (store.state.status && (meta.mode === "scheduler" || meta.mode === "run")) {
    banner.dataset.kind = "note";
    replace(banner, meta.mode === "run" && language() === "zh" ? t("run.banner", { run: store.state.run, at: duration(1000 * (store.state.at ?? 0)) }) : store.state.status);
  } else replace(banner);
}

function searchBox() {
  const list = h("ul", { class: "results", hidden: true });
  let abort = null, timer = 0;
  const input = h("input", {
    type: "search", placeholder: t("search"), "aria-label": t("search"), id: "search",
    oninput: () => { clearTimeout(timer); timer = setTimeout(find, 120); },
    onkeydown: (event) => {
      if (event.key === "Escape") { close(); input.blur(); }
      if (event.key === "ArrowDown" || event.key === "Enter") { list.querySelector("a")?.focus(); if (event.key === "Enter") list.querySelector("a")?.click(); event.preventDefault(); }
    },
  });
  const close = () => { list.hidden = true; };
  async function find() {
    abort?.abort();
    abort = new AbortController();
    const text = input.value.trim();
    if (!text) { close(); return; }
    try {
      const found = await get(`pods?q=${encodeURIComponent(text)}`, abort.signal);
      const rows = [
        ...(found.nodes ?? []).slice(0, 6).map((name) => h("li", {}, h("a", { href: nodeLink(name), onclick: close }, h("span", { class: "name" }, name), h("span", { class: "muted" }, t("kind.node"))))),
        ...found.pods.map((pod) => h("li", {}, h("a", { href: podLink(pod.pod), onclick: close }, h("span", { class: "name" }, pod.pod), h("span", { class: "muted" }, pod.node ?? t("state.pending"))))),
      ];
      replace(list, rows.length ? rows : h("li", { class: "empty" }, t("search.none")));
      list.hidden = false;
    } catch (error) { if (error.name !== "AbortError") close(); }
  }
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(links.length - 1, at + 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : input).focus();
    else if (event.key === "Escape") { close(); input.focus(); } else return;
    event.preventDefault();
  });
  const box = h("span", { class: "search", role: "search" }, input, list);
  box.addEventListener("focusout", (event) => { if (!box.contains(event.relatedTarget)) setTimeout(close, 150); });
  return box;
}

// ---- theme, help, keys

function setTheme(value) {
  document.documentElement.dataset.theme = value;
  dispatchEvent(new Event("themechange"));
}

function toggleTheme() {
  const value = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("mooring.theme", value);
  setTheme(value);
}

const preferred = matchMedia("(prefers-color-scheme: dark)");
setTheme(localStorage.getItem("mooring.theme") ?? (preferred.matches ? "dark" : "light"));
preferred.addEventListener("change", () => { if (!localStorage.getItem("mooring.theme")) setTheme(preferred.matches ? "dark" : "light"); });

const KEYS = [["/", "key.search"], ["g c", "nav.cluster"], ["g q", "nav.queue"], ["g d", "nav.decisions"], ["g w", "nav.whatIf"], ["t", "key.table"], ["+ −", "key.zoom"], ["← ↑ → ↓", "key.move"], ["Enter", "key.open"], ["Esc", "key.close"], ["p", "key.pause"], ["?", "help"]];

function help() {
  const off = localStorage.getItem("mooring.keys") === "off";
  const dialog = h("dialog", { "aria-label": t("help") },
    h("h1", {}, t("help")), h("p", { class: "muted" }, t("help.text")),
    h("dl", {}, KEYS.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, t(text))])),
    h("p", {}, h("label", { class: "field" }, h("input", { type: "checkbox", checked: !off, onchange: (event) => localStorage.setItem("mooring.keys", event.target.checked ? "on" : "off") }), h("span", {}, t("key.enabled")))),
    h("div", { class: "bar" }, h("button", { onclick: () => dialog.close() }, t("close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

let going = false;
addEventListener("keydown", (event) => {
  const inside = event.target.closest?.("input, textarea, select, dialog");
  if (inside || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem("mooring.keys") === "off") return;
  const path = { c: "cluster", q: "queue", d: "decisions", w: "what-if", s: "sandbox" }[event.key];
  if (going && path) location.hash = `#/${path}`;
  else if (event.key === "/") { document.getElementById("search").focus(); event.preventDefault(); }
  else if (event.key === "?") help();
  else if (!current?.key?.(event)) { going = event.key === "g"; return; }
  going = false;
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

// ---- start

function deny(error) {
  denied = error;
  current?.stop?.();
  replace(banner);
  replace(main, h("div", { class: "empty", role: "alert" },
    h("h1", {}, t(error.status === 403 ? "forbidden.title" : "expired.title")),
    h("p", {}, t(error.status === 403 ? "forbidden.text" : "expired.text")), h("p", { class: "muted" }, error.message)));
}

let refreshing = false;
async function refreshMeta() {
  if (refreshing) return;
  refreshing = true;
  try { Object.assign(meta, await get("meta")); header(); } catch { /* the next event tries again */ } finally { refreshing = false; }
}

async function start() {
  takeToken();
  header();
  try {
    Object.assign(meta, await get("meta"));
  } catch (error) {
    if (error.status === 401 || error.status === 403) { deny(error); return; }
  }
  header();
  connection = follow((event, body, id) => {
    lastWord = Date.now();
    if (!id.startsWith(`${meta.epoch}.`)) refreshMeta();  // another process answers at this address
    (event === "snapshot" ? snapshot : delta)(body);
    document.documentElement.dataset.cursor = id;
  }, (state, error) => {
    if (state === "denied") { link = "off"; setOffline(true); deny(error); return; }
    if (state === "on") lastWord = Date.now();
    const changed = state !== link;
    link = state;
    setOffline(state === "off");
    if (changed) { showState(); showBanner(); dispatchEvent(new Event("linkchange")); }
  });
  listen((what) => { if (what.counts || what.state) { showState(); showBanner(); } });
  setInterval(() => { if (link === "off") { showState(); showBanner(); } }, 1000);
  addEventListener("hashchange", navigate);
  navigate();
}

start();
