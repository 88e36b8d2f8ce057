// One pod: the answer in a sentence, what would help, and the evidence.

import { h, narrow, replace, throttled } from "../dom.js";
import { get } from "../net.js";
import { listen, store } from "../store.js";
import { clock, nodeLink, number, podLink, since, until } from "../format.js";
import { t } from "../i18n.js";
import { advice, awaited, groupLine, headline } from "../sentences.js";
import { victims } from "./decisions.js";

const BADGES = { scheduled: "ok", pending: "error", gated: "warning", waiting: "warning", binding: "ok", finished: "", gone: "", terminating: "warning" };
const COLLAPSE_ABOVE = 200;
const MOST_ROWS = 300;
const NEW_NODES = ["newNode", "largerNode"];

export function show({ main, parts, query, setQuery, meta, failed }) {
  let preempts = [], preempted = [];
  const [namespace, name] = parts, key = `${namespace}/${name}`;
  const path = `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name ?? "")}`;
  let params = query, abort = new AbortController(), explanation = null, table = null;
  const head = h("div", {}, h("h1", { class: "name" }, key), h("p", { class: "muted", role: "status" }, t("loading"))), evidence = h("section", {}), more = h("div", {});
  replace(main, h("div", { class: "page" }, head, evidence, more));

  async function load() {
    abort.abort();
    abort = new AbortController();
    const { signal } = abort;
    try {
      explanation = await get(path, signal);
      fillHead();
      fillMore();
      loadPreemptions(signal);
      if (["finished", "gone"].includes(explanation.state)) { replace(evidence); return; }
      try { table = await get(`${path}/table`, signal); fillTable(); } catch (error) { if (error.name !== "AbortError") replace(evidence, failed(error, load)); }
    } catch (error) { if (error.name !== "AbortError") { replace(head, failed(error, load)); replace(evidence); replace(more); } }
  }

  /** Who was evicted for this pod, and for whom it was evicted, among the recent decisions. */
  async function loadPreemptions(signal) {
    try {
      const [by, of] = await Promise.all([get(`decisions?pod=${encodeURIComponent(key)}&limit=50`, signal), get(`decisions?victim=${encodeURIComponent(key)}&limit=5`, signal)]);
      preempts = by.decisions.filter((row) => row.pod === key && row.victims?.length);
      preempted = of.decisions;
      if (preempts.length || preempted.length) fillMore();
    } catch { /* the page is complete without them */ }
  }

  // ---- the answer

  function fillHead() {
    const { now, waiting } = explanation;
    replace(head,
      h("div", { class: "bar" }, h("a", { href: "#/queue" }, `← ${t("nav.queue")}`)),
      h("div", { class: "bar" }, h("h1", { class: "name" }, key), h("span", { class: `badge ${BADGES[explanation.state] ?? ""}` }, t(`state.${explanation.state}`)),
        h("span", { class: "muted" }, [
          waiting?.queue && t(`state.${waiting.queue}`), waiting?.attempts && t("pod.attempts", { count: waiting.attempts }),
          waiting?.since && [t("pod.waiting"), " ", h("span", { "data-since": waiting.since }, since(waiting.since))],
          waiting?.until && [t("pod.next"), " ", h("span", { "data-until": waiting.until }, until(waiting.until))],
        ].filter(Boolean).flatMap((each, i) => (i ? [" · ", each] : [each])))),
      h("p", { class: "lead", id: "answer", title: explanation.summary }, headline(explanation)),
      explanation.group && h("p", { class: "muted" }, h("a", { class: "name", href: `#/queue?open=${encodeURIComponent(explanation.group.group)}` }, t("queue.group")), ": ", groupLine(explanation.group)),
      explanation.node && h("p", {}, t("pod.on"), " ", h("a", { class: "name", href: nodeLink(explanation.node) }, explanation.node)),
      now?.changes?.length ? h("section", { "aria-label": t("pod.changes") }, h("h2", {}, t("pod.changes")), h("div", { class: "cards" }, now.changes.map(card))) : null,
      !now?.changes?.length && now?.closest?.length ? h("section", {}, h("h2", {}, t("pod.closest")), h("ul", {}, now.closest.map((each) => h("li", {}, `${(each.examples ?? []).join(", ")} (${number(each.nodes)}): `, each.refusedBy.map((by) => `${by.plugin}: ${by.reasons.join("; ")}`).join(", "))))) : null,
      now?.refused?.length ? h("section", {}, h("h2", {}, t("pod.refused")), blockers(now)) : null);
  }

  function card(change) {
    return h("div", { class: "card" }, h("div", { title: change.text }, advice(change)),
      NEW_NODES.includes(change.kind) ? null : h("div", { class: "muted" }, t("pod.opens", { count: number(change.nodes) }), change.examples?.length ? `: ${change.examples.join(", ")}` : ""),
      change.command ? h("code", {}, change.command) : null,
      h("div", { class: "bar" },
        change.command ? h("button", { onclick: (event) => copy(change.command, event.target) }, t("copy")) : null,
        meta.features.includes("what-if") ? h("button", { onclick: () => tryIt(change) }, t("pod.try")) : null));
  }

  function tryIt(change) {
    const draft = { note: advice(change), load: "" };
    if (change.kind === "newNode") draft.addNodes = [{ like: change.examples?.[0] ?? table?.nodes?.[0] ?? "", count: 1 }];
    else draft.load = new URLSearchParams({ kind: change.kind, field: change.field ?? "" }).toString();
    sessionStorage.setItem("mooring.draft", JSON.stringify(draft));
    location.hash = `#/what-if?pod=${encodeURIComponent(key)}`;
  }

  function blockers(now) {
    const most = Math.max(...now.refused.map((each) => each.nodes));
    return h("div", { class: "bars" }, now.refused.map((each) => {
      const text = `${each.plugin || t("pod.others")}: ${each.reasons.join("; ")}`;
      return [h("span", { class: "label" }, text), h("div", { class: "track", role: "img", "aria-label": `${each.nodes}` }, h("i", { style: { width: `${(100 * each.nodes) / most}%` } })),
        h("button", { class: "chip", onclick: () => { choose({ by: params.get("by") === each.plugin ? "" : each.plugin }); }, "aria-pressed": String(params.get("by") === each.plugin) }, t("pod.nodes", { count: number(each.nodes) }))];
    }));
  }

  // ---- the table

  function choose(changes) {
    setQuery(changes);
    for (const [id, value] of Object.entries(changes)) { if (value) params.set(id, value); else params.delete(id); }
    fillTable();
    if (explanation) fillHead();
  }

  function rowsOf() {
    const { filters, total, nodes } = table;
    let rows = nodes.map((node, i) => ({ node, i, total: total[i] ?? null, rejects: filters.filter((column) => column.codes[i]).length, count: 1 }));
    const by = params.get("by");
    if (by) { const column = filters.find((each) => each.plugin === by); if (column) rows = rows.filter((row) => column.codes[row.i]); }
    const sort = params.get("sort") ?? "total", down = (params.get("dir") ?? "down") === "down" ? -1 : 1;
    const score = table.scores.find((each) => each.plugin === sort);
    const value = sort === "node" ? (row) => row.node : score ? (row) => score.weighted[row.i] ?? -1 : (row) => row.total ?? -1 - row.rejects;
    rows.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (sort === "node" ? -down : down) || (a.node < b.node ? -1 : 1); });
    const collapsed = params.get("rows") ? params.get("rows") === "alike" : rows.length > COLLAPSE_ABOVE;
    if (!collapsed) return { rows, collapsed };
    const groups = new Map();
    for (const row of rows) {
      const id = `${filters.map((column) => (column.codes[row.i] ? column.reasons[column.codes[row.i] - 1] : "")).join("|")}|${row.total}`;
      const group = groups.get(id);
      if (group && row.node !== table.chosen) group.count++; else groups.set(row.node === table.chosen ? row.node : id, row);
    }
    return { rows: [...groups.values()], collapsed };
  }

  function fillTable() {
    if (!table) return;
    if (table.error) { replace(evidence, h("p", { class: "error", role: "alert" }, table.error)); return; }
    if (!table.nodes.length) { replace(evidence, h("div", { class: "empty" }, t("pod.noNodes"))); return; }
    const all = params.get("columns") === "all";
    const filters = table.filters.filter((column) => all || column.codes.some(Boolean)), scores = table.scores.filter((column) => all || column.weighted.some((each) => each));
    const { rows, collapsed } = rowsOf();
    const detail = h("div", { class: "detail", "aria-live": "polite" }, t("pod.detail"));
    const sortable = (id, text, num, extra = "") => h("th", { scope: "col", class: `${num ? "num" : ""} ${extra}`, "aria-sort": (params.get("sort") ?? "total") === id ? ((params.get("dir") ?? "down") === "down" ? "descending" : "ascending") : "none" },
      h("button", { onclick: () => choose({ sort: id, dir: (params.get("sort") ?? "total") === id && (params.get("dir") ?? "down") === "down" ? "up" : "down" }) }, text));
    const body = h("tbody", {}, rows.slice(0, MOST_ROWS).map((row) => h("tr", { class: row.node === table.chosen ? "chosen" : "" },
      h("td", {}, h("a", { class: "name", href: nodeLink(row.node) }, row.node), row.node === table.chosen ? h("span", { class: "badge ok" }, t("pod.here")) : null, row.count > 1 ? h("span", { class: "muted" }, ` ${t("pod.alike", { count: number(row.count - 1) })}`) : null),
      h("td", { class: "num" }, row.total === null ? "–" : number(row.total)),
      filters.map((column, i) => { const code = column.codes[row.i]; return cell(row, column.plugin, code ? "✗" : "✓", code ? "no" : "yes", code ? column.reasons[code - 1] : t("pod.passes"), i === 0 ? "split" : ""); }),
      scores.map((column, i) => { const value = column.weighted[row.i]; return cell(row, column.plugin, value === null ? "–" : number(value), "", value === null ? t("pod.noScore") : t("pod.score", { raw: number(column.raw[row.i]), weight: column.weight, weighted: number(value) }), i === 0 ? "split" : ""); }))));

    function cell(row, plugin, sign, kind, text, extra) {
      const id = `${row.node},${plugin}`;
      const pick = (event) => { body.querySelector("[aria-selected=true]")?.removeAttribute("aria-selected"); event.currentTarget.setAttribute("aria-selected", "true"); replace(detail, h("b", { class: "name" }, `${row.node} × ${plugin}`), `: ${text}`); setQuery({ cell: id }); params.set("cell", id); };
      const element = h("td", { class: `${kind} ${extra}`, tabindex: "-1", title: text, onclick: pick, onfocus: pick, role: "gridcell" }, sign);
      if (params.get("cell") === id) { element.setAttribute("aria-selected", "true"); replace(detail, h("b", { class: "name" }, `${row.node} × ${plugin}`), `: ${text}`); }
      return element;
    }

    const verdicts = (row) => filters.filter((column) => column.codes[row.i]).map((column) => h("div", {}, h("span", { class: "error" }, "✗ "), h("b", {}, column.plugin), `: ${column.reasons[column.codes[row.i] - 1]}`));
    const points = (row) => scores.filter((column) => column.weighted[row.i]).map((column) => `${column.plugin} ${number(column.weighted[row.i])}`).join(" · ");
    const chosenCell = (params.get("cell") ?? "").split(",")[0];
    const card = (row) => h("div", { class: `card${row.node === chosenCell ? " selected" : ""}`, role: "listitem" },
      h("div", {}, h("a", { class: "name", href: nodeLink(row.node) }, row.node), " ", row.node === table.chosen ? h("span", { class: "badge ok" }, t("pod.here")) : null, row.count > 1 ? h("span", { class: "muted" }, ` ${t("pod.alike", { count: number(row.count - 1) })}`) : null),
      row.total === null ? verdicts(row) : h("div", {}, h("span", { class: "ok" }, "✓ "), `${t("pod.total")} ${number(row.total)}`, h("div", { class: "muted" }, points(row))));
    const grid = h("table", { class: "matrix", role: "grid", "aria-label": t("pod.table") },
      h("thead", {}, h("tr", {}, sortable("node", t("fact.node")), sortable("total", t("pod.total"), true),
        filters.map((column, i) => h("th", { scope: "col", class: i === 0 ? "split" : "" }, column.plugin)), scores.map((column, i) => sortable(column.plugin, `${column.plugin} ×${column.weight}`, true, i === 0 ? "split" : "")))), body);
    const first = body.querySelector("td[tabindex]");
    (body.querySelector("td[aria-selected=true]") ?? first)?.setAttribute("tabindex", "0");
    grid.addEventListener("keydown", (event) => {
      const here = event.target.closest("td");
      if (!here || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
      const cells = [...here.parentElement.children], at = cells.indexOf(here), line = [...body.children], row = line.indexOf(here.parentElement);
      const next = event.key === "ArrowLeft" ? cells[at - 1] : event.key === "ArrowRight" ? cells[at + 1] : line[row + (event.key === "ArrowDown" ? 1 : -1)]?.children[at];
      if (next?.hasAttribute("tabindex")) { here.setAttribute("tabindex", "-1"); next.setAttribute("tabindex", "0"); next.focus(); }
      event.preventDefault();
    });
    replace(evidence, h("h2", {}, t("pod.table")),
      h("div", { class: "bar" }, h("span", { class: "muted" }, t("pod.basis", { time: clock(table.asOf), count: number(table.nodes.length) })), h("span", { class: "grow" }),
        params.get("by") ? h("button", { class: "chip", onclick: () => choose({ by: "" }) }, `${params.get("by")} ✕`) : null,
        h("button", { "aria-pressed": String(collapsed), onclick: () => choose({ rows: collapsed ? "all" : "alike" }) }, t("pod.group")),
        h("button", { "aria-pressed": String(all), onclick: () => choose({ columns: all ? "" : "all" }) }, t("pod.allColumns")), h("button", { onclick: load }, t("pod.again"))),
      narrow.matches ? h("div", { class: "cards", role: "list", "aria-label": t("pod.table") }, rows.slice(0, MOST_ROWS).map(card)) : h("div", { class: "scroll", tabindex: "-1" }, grid), rows.length > MOST_ROWS ? h("p", { class: "muted" }, t("queue.scope", { count: number(MOST_ROWS), total: number(rows.length) })) : null, narrow.matches ? null : detail);
  }

  // ---- the rest

  function fillMore() {
    const { attempts = [], waiting, now } = explanation;
    const items = [];
    let last = 0;
    for (const attempt of attempts) {
      const at = Date.parse(attempt.first), decision = attempt.decision;
      if (last && at - last > 60_000) items.push(h("li", { class: "gap" }, `⋯ ${Math.round((at - last) / 60_000)} min ⋯`));
      last = Date.parse(attempt.last);
      items.push(h("li", { class: decision.node ? "fine" : "" }, h("b", {}, decision.node ? `✓ ${decision.node}` : `✗ ${t(`result.${decision.result}`)}`), attempt.count > 1 ? ` ×${attempt.count}` : "", " ",
        h("span", { class: "muted" }, clock(attempt.first), attempt.count > 1 ? `–${clock(attempt.last)}` : ""), h("div", {}, decision.node ? t("pod.fit", { feasible: decision.feasibleNodes ?? 0, nodes: decision.nodes ?? 0 }) : decision.message),
        decision.postFilter?.victims?.length ? h("div", { class: "warning" }, t("decisions.evicts"), " ", victims(decision.postFilter)) : null));
    }
    const preemption = now?.preemption;
    replace(more,
      h("section", {}, h("h2", {}, t("pod.history")), items.length ? h("ol", { class: "line" }, items) : h("p", { class: "muted" }, t(meta.mode === "file" ? "decisions.file" : meta.mode === "run" ? "decisions.run" : "pod.noHistory"))),
      preempted.length ? h("section", {}, h("h2", {}, t("pod.preempted")), h("ul", {}, preempted.map((row) => h("li", {}, clock(row.at), " ", h("a", { class: "name", href: podLink(row.pod) }, row.pod), ` (${t("decisions.priority", { priority: row.priority ?? 0 })})`)))) : null,
      preempts.length ? h("section", {}, h("h2", {}, t("pod.evicted")), h("ul", {}, preempts.map((row) => h("li", {}, clock(row.at), " ", victims(row))))) : null,
      preemption ? h("section", {}, h("h2", {}, t("pod.preemption")), h("p", {}, preemption.helps ? t("pod.preempts", { node: preemption.node }) : preemption.message), (preemption.victims ?? []).length ? h("ul", {}, preemption.victims.map((each) => h("li", {}, h("a", { class: "name", href: podLink(each) }, each)))) : null) : null,
      waiting?.victims?.length ? h("section", {}, h("h2", {}, t("pod.victims", { node: waiting.nominatedNode ?? "" })), h("ul", {}, waiting.victims.map((each) => h("li", {}, h("a", { class: "name", href: podLink(each) }, each))))) : null,
      waiting?.events?.length ? h("section", {}, h("h2", {}, t("pod.waitsFor")), h("ul", {}, waiting.events.map((each) => h("li", {}, awaited(each), h("span", { class: "muted" }, ` · ${each.plugins.join(", ")}`))))) : null,
      waiting?.heldBy?.length ? h("section", {}, h("h2", {}, t("pod.held")), h("ul", {}, waiting.heldBy.map((each) => h("li", {}, `${each.plugin}${each.message ? `: ${each.message}` : ""}`)))) : null,
      explanation.condition ? h("section", {}, h("h2", {}, t("pod.condition")), h("p", { class: "wrap" }, explanation.condition)) : null);
  }

  async function copy(text, button) {
    const before = button.textContent;
    try { await navigator.clipboard.writeText(text); button.textContent = t("copied"); } catch { button.textContent = t("copyFailed"); }
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  const timer = setInterval(() => {
    if (document.documentElement.dataset.link === "off") return;
    for (const each of head.querySelectorAll("[data-since]")) each.textContent = since(each.dataset.since);
    if (store.state.paused) return;
    for (const each of head.querySelectorAll("[data-until]")) each.textContent = until(each.dataset.until);
  }, 1000);
  const refreshHead = throttled(2000, async () => {
    try {
      const before = explanation, after = await get(path, abort.signal);
      if (JSON.stringify({ ...before, asOf: "" }) === JSON.stringify({ ...after, asOf: "" })) return;
      explanation = after;
      fillHead();
      fillMore();
      if (before.state !== after.state) load(); else loadPreemptions(abort.signal);
    } catch { /* the next change tries again */ }
  });
  const stop = listen((what) => { if (explanation && (what.decisions || what.counts) && !["finished", "gone"].includes(explanation.state)) refreshHead(); });
  narrow.addEventListener("change", fillTable);
  load();
  return {
    title: key,
    update(next) { params = next; fillTable(); },
    stop() { stop(); narrow.removeEventListener("change", fillTable); clearInterval(timer); refreshHead.cancel(); abort.abort(); },
  };
}
