// Every decision as it is made, with filters, and one decision by its number.

import { h, replace, table, throttled } from "../dom.js";
import { get } from "../net.js";
import { listen } from "../store.js";
import { clock, nodeLink, number, podLink } from "../format.js";
import { t } from "../i18n.js";

const FILTERS = ["pod", "node", "plugin", "result"];
const BADGES = { scheduled: "ok", unschedulable: "warning", error: "error" };

export function show(context) {
  return context.parts.length ? one(context) : stream(context);
}

function stream({ main, query, setQuery, meta, failed }) {
  let params = query, paused = false, abort = null, missed = 0;
  const list = h("div", {}, h("p", { class: "muted" }, t("loading"))), note = h("span", { class: "muted", role: "status" });
  const pause = h("button", { "aria-pressed": "false", onclick: toggle }, t("decisions.pause"));
  const inputs = FILTERS.map((name) => name === "result"
    ? h("select", { "aria-label": t("decisions.result"), onchange: (event) => set({ result: event.target.value }) }, ["", "scheduled", "unschedulable", "error"].map((value) => h("option", { value, selected: value === (params.get("result") ?? "") }, value ? t(`result.${value}`) : t("decisions.anyResult"))))
    : h("input", { type: "search", placeholder: t(`decisions.${name}`), "aria-label": t(`decisions.${name}`), value: params.get(name) ?? "", oninput: (event) => set({ [name]: event.target.value }) }));
  replace(main, h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", {}, t("nav.decisions")), h("span", { class: "grow" }), inputs, pause), note, list));

  function set(changes) {
    setQuery(changes);
    for (const [name, value] of Object.entries(changes)) { if (value) params.set(name, value); else params.delete(name); }
    load();
  }

  function toggle() {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    missed = 0;
    if (!paused) load();
    note.textContent = paused ? t("decisions.paused") : "";
  }

  async function load() {
    if (paused) return;
    abort?.abort();
    abort = new AbortController();
    try {
      const asked = new URLSearchParams({ limit: "200" });
      for (const name of FILTERS) if (params.get(name)) asked.set(name, params.get(name));
      fill(await get(`decisions?${asked}`, abort.signal));
    } catch (error) { if (error.name !== "AbortError") replace(list, failed(error, load)); }
  }

  function fill(record) {
    const filtered = FILTERS.some((name) => params.get(name));
    if (!record.decisions.length) {
      replace(list, h("div", { class: "empty" }, t(filtered ? "decisions.noMatch" : meta.mode === "file" ? "decisions.file" : meta.mode === "run" ? "decisions.run" : "decisions.empty")));
      return;
    }
    note.textContent = t("decisions.kept", { count: number(record.decisions.length), kept: number(record.kept) });
    replace(list, table(t("nav.decisions"), [
      { title: t("decisions.time"), class: "nowrap", cell: (row) => h("a", { href: `#/decisions/${meta.epoch}-${row.seq}`, title: t("decisions.permalink") }, clock(row.at)) },
      { title: t("fact.pod"), cell: (row) => h("a", { class: "name", href: podLink(row.pod) }, row.pod) },
      { title: t("decisions.result"), cell: (row) => h("span", { class: `badge ${BADGES[row.result] ?? ""}` }, t(`result.${row.result}`)) },
      { title: t("fact.node"), cell: (row) => (row.node ? h("a", { class: "name", href: nodeLink(row.node) }, row.node) : "–") },
      { title: t("queue.why"), class: "wrap", cell: (row) => [row.summary, row.victims?.length ? h("div", { class: "warning" }, t("decisions.evicts"), " ", victims(row)) : null] },
    ], record.decisions));
  }

  const reload = throttled(500, load);
  const stop = listen((what) => {
    if (!what.decisions) return;
    if (paused) { missed++; return; }
    reload();
  });
  load();
  return {
    title: t("nav.decisions"),
    update(next) { params = next; load(); },
    key(event) { if (event.key === "p") { toggle(); return true; } return false; },
    stop() { stop(); reload.cancel(); abort?.abort(); },
  };
}

/** The pods that a decision evicts, with their priorities. */
export const victims = (row) => row.victims.map((key, i) => [h("a", { class: "name", href: podLink(key) }, key), row.victimPriorities ? ` (${t("decisions.priority", { priority: row.victimPriorities[i] })}) ` : " "]);

function one({ main, parts, failed }) {
  const page = h("div", { class: "page" }, t("loading"));
  replace(main, page);
  async function load() {
    try {
      const { row, decision } = await get(`decisions/${encodeURIComponent(parts[0])}`);
      const ranking = decision.ranking ?? [], refused = decision.refused ?? [];
      replace(page, h("div", { class: "bar" }, h("a", { href: "#/decisions" }, `← ${t("nav.decisions")}`)),
        h("div", { class: "bar" }, h("h1", { class: "name" }, row.pod), h("span", { class: `badge ${BADGES[row.result] ?? ""}` }, t(`result.${row.result}`)), h("span", { class: "muted" }, clock(row.at), " · ", t("pod.attempt", { number: row.attempts ?? 1 }))),
        h("p", { class: "lead" }, row.summary),
        h("p", {}, h("a", { href: podLink(row.pod) }, t("decisions.openPod"))),
        ranking.length ? h("section", {}, h("h2", {}, t("pod.ranking")), table(t("pod.ranking"), [
          { title: t("fact.node"), cell: (each) => h("a", { class: "name", href: nodeLink(each.node) }, each.node) },
          { title: t("pod.total"), num: true, cell: (each) => number(each.total) },
          ...decision.scoredBy.map((name, i) => ({ title: name, num: true, cell: (each) => number(each.scores[i]) })),
        ], ranking)) : null,
        refused.length ? h("section", {}, h("h2", {}, t("pod.refused")), h("ul", {}, refused.map((each) => h("li", {}, `${each.plugin || t("pod.others")}: ${each.reasons.join("; ")} (${number(each.nodes)})`)))) : null,
        row.victims?.length ? h("section", {}, h("h2", {}, t("decisions.evicts")), h("p", {}, victims(row))) : null);
    } catch (error) { replace(page, failed(error, load)); }
  }
  load();
  return { title: t("nav.decisions") };
}
