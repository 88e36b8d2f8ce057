// The scheduling queue: who waits, why, and for what.

import { h, replace, throttled } from "../dom.js";
import { get } from "../net.js";
import { listen } from "../store.js";
import { number, podLink, since, until } from "../format.js";
import { t } from "../i18n.js";

const STATES = ["active", "backoff", "unschedulable", "gated", "permit"];
const BADGES = { active: "ok", backoff: "warning", unschedulable: "error", gated: "", permit: "warning" };

export function show({ main, query, setQuery, meta, failed }) {
  let params = query, abort = null, record = null;
  const chips = h("div", { class: "chips", role: "group", "aria-label": t("queue.states") }), reasons = h("div", { class: "chips" });
  const list = h("div", {}, h("p", { class: "muted" }, t("loading"))), scope = h("p", { class: "muted", role: "status" });
  const input = h("input", { type: "search", placeholder: t("queue.filter"), "aria-label": t("queue.filter"), value: params.get("q") ?? "", oninput: (event) => set({ q: event.target.value }) });
  replace(main, h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", {}, t("nav.queue")), h("span", { class: "grow" }), input), h("div", { class: "bar" }, chips), h("div", { class: "bar" }, reasons), scope, list));

  function set(changes) {
    setQuery(changes);
    for (const [name, value] of Object.entries(changes)) { if (value) params.set(name, value); else params.delete(name); }
    load();
  }

  async function load() {
    abort?.abort();
    abort = new AbortController();
    try {
      const asked = new URLSearchParams({ limit: "200" });
      for (const name of ["state", "q"]) if (params.get(name)) asked.set(name, params.get(name));
      record = await get(`queue?${asked}`, abort.signal);
      fill();
    } catch (error) { if (error.name !== "AbortError") replace(list, failed(error, load)); }
  }

  function fill() {
    const chosen = params.get("state") ?? "";
    const chip = (state, text, count) => h("button", { class: "chip", "aria-pressed": String(chosen === state), onclick: () => set({ state: chosen === state ? "" : state }) }, text, h("b", {}, number(count)));
    const all = STATES.reduce((sum, state) => sum + record.counts[state], 0);
    replace(chips, chip("", t("queue.all"), all), STATES.map((state) => chip(state, t(`state.${state}`), record.counts[state])));
    replace(reasons, (record.reasons ?? []).length > 1 || params.get("q") ? record.reasons?.map(([reason, count]) => h("button", { class: "chip", onclick: () => { input.value = params.get("q") === reason ? "" : reason; set({ q: input.value }); } }, reason, h("b", {}, number(count)))) : null);
    const rows = record.pods;
    scope.textContent = record.total > rows.length ? t("queue.scope", { count: number(rows.length), total: number(record.total) }) : "";
    if (!rows.length) {
      replace(list, h("div", { class: "empty" }, all ? t("queue.noMatch", { total: number(all) }) : record.status || t("queue.empty"),
        h("div", { class: "bar" }, all ? h("button", { onclick: () => { input.value = ""; set({ q: "", state: "" }); } }, t("clear")) : meta.features.includes("sandbox") ? h("a", { href: "#/sandbox" }, t("queue.submit")) : null)));
      return;
    }
    replace(list, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("nav.queue") }, h("table", {},
      h("thead", {}, h("tr", {}, ["fact.pod", "queue.state", "queue.why", "queue.waitsFor", "queue.since", "queue.next", "queue.attempts", "queue.priority"].map((key, i) => h("th", { scope: "col", class: i > 3 ? "num" : "" }, t(key))))),
      h("tbody", {}, rows.map(row)))));
  }

  function row(pod) {
    const waits = pod.waiting;
    const what = waits.heldBy?.length ? waits.heldBy.map((hold) => `${hold.plugin}${hold.message ? `: ${hold.message}` : ""}`).join("; ")
      : waits.gatedBy ? `${waits.gatedBy}: ${waits.gate ?? ""}`
      : waits.victims?.length ? t("queue.victims", { pods: waits.victims.join(", "), node: waits.nominatedNode ?? "" })
      : (waits.events ?? []).map((event) => event.text).join("; ");
    return h("tr", {},
      h("td", {}, h("a", { class: "name", href: podLink(pod.pod) }, pod.pod), pod.owner ? h("div", { class: "muted" }, pod.owner) : null),
      h("td", {}, h("span", { class: `badge ${BADGES[pod.state] ?? ""}` }, t(`state.${pod.state}`))),
      h("td", { class: "wrap" }, pod.reason || pod.message || t("queue.notTried")), h("td", { class: "wrap muted" }, what),
      h("td", { class: "num" }, h("span", { "data-since": waits.since ?? "" }, since(waits.since))),
      h("td", { class: "num" }, waits.until ? h("span", { "data-until": waits.until }, until(waits.until)) : "–"),
      h("td", { class: "num" }, String(waits.attempts ?? 0)), h("td", { class: "num" }, String(pod.priority ?? 0)));
  }

  const timer = setInterval(() => {
    if (document.documentElement.dataset.link === "off") return;
    for (const each of list.querySelectorAll("[data-since]")) each.textContent = since(each.dataset.since);
    for (const each of list.querySelectorAll("[data-until]")) each.textContent = until(each.dataset.until);
  }, 1000);
  const reload = throttled(1000, load);
  const stop = listen((what) => { if (what.counts || what.all) reload(); });
  load();
  return {
    title: t("nav.queue"),
    update(next) { params = next; input.value = params.get("q") ?? ""; load(); },
    stop() { stop(); clearInterval(timer); reload.cancel(); abort?.abort(); },
  };
}
