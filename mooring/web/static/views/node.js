// One node in a panel: what is on it, what is free, and what happened there.

import { h, replace, throttled } from "../dom.js";
import { get, post } from "../net.js";
import { listen, store } from "../store.js";
import { amount, clock, percent, podLink } from "../format.js";
import { t } from "../i18n.js";

const FAILED = "mooring/failed";

export function nodePanel(name, { meta, close }) {
  const body = h("div", {}, h("p", { class: "muted" }, t("loading")));
  const element = h("aside", { class: "panel", "aria-label": name },
    h("div", { class: "head" }, h("h1", { class: "name grow" }, name), h("button", { class: "plain", onclick: close, "aria-label": t("close") }, "✕")), body);
  const message = h("p", { role: "status", class: "muted" });
  let abort = null;

  async function load() {
    abort?.abort();
    abort = new AbortController();
    try {
      fill(await get(`nodes/${encodeURIComponent(name)}`, abort.signal));
    } catch (error) {
      if (error.name !== "AbortError") replace(body, h("p", { class: "error", role: "alert" }, error.message), h("button", { onclick: load }, t("retry")));
    }
  }

  const act = (action) => async () => {
    try { message.textContent = (await post(`sandbox/${action}`, { node: name })).message; load(); } catch (error) { message.textContent = error.message; }
  };

  function fill(node) {
    const resources = Object.keys(node.allocatable).filter((key) => node.allocatable[key] || node.requested[key]);
    const pods = [...(node.pods ?? [])].sort((a, b) => (b.requests?.cpu ?? 0) - (a.requests?.cpu ?? 0));
    const failed = node.annotations?.[FAILED] === "true";
    replace(body,
      h("p", {}, h("span", { class: `badge ${node.ready ? "ok" : "error"}` }, t(node.ready ? "node.ready" : "node.notReady")), " ",
        failed && h("span", { class: "badge error" }, t("node.failed")), " ", node.cordoned && h("span", { class: "badge warning" }, t("node.cordoned"))),
      resources.map((key) => meter(key, node.requested[key], node.allocatable[key])), meter("pods", pods.length, node.podsAllowed ?? 0),
      meta.features.includes("sandbox") && [
        h("div", { class: "bar", "data-control": true },
          failed ? h("button", { onclick: act("recover") }, t("node.recover")) : h("button", { onclick: act("fail") }, t("node.fail")),
          node.cordoned ? h("button", { onclick: act("uncordon") }, t("node.uncordon")) : h("button", { onclick: act("cordon") }, t("node.cordon")),
          h("button", { onclick: act("remove") }, t("node.remove"))), message],
      (node.taints ?? []).length ? [h("h2", {}, t("node.taints")), node.taints.map((each) => h("div", { class: "name" }, each))] : null,
      (node.nominated ?? []).length ? [h("h2", {}, t("node.nominated")), node.nominated.map((key) => h("div", {}, h("a", { class: "name", href: podLink(key) }, key)))] : null,
      h("h2", {}, t("node.pods", { count: pods.length })),
      pods.length ? h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("fact.pod")), h("th", { class: "num", scope: "col" }, "cpu"), h("th", { class: "num", scope: "col" }, "memory"))),
        h("tbody", {}, pods.map((pod) => h("tr", {}, h("td", {}, h("a", { class: "name", href: podLink(pod.pod) }, pod.pod), pod.phase === "Terminating" ? h("span", { class: "badge warning" }, pod.phase) : null),
          h("td", { class: "num" }, amount("cpu", pod.requests?.cpu ?? 0)), h("td", { class: "num" }, amount("memory", pod.requests?.memory ?? 0)))))) : h("p", { class: "muted" }, t("node.noPods")),
      h("h2", {}, t("node.history")),
      (node.history ?? []).length ? h("ul", { class: "line" }, node.history.slice(0, 20).map((row) => h("li", { class: row.node ? "fine" : "" }, h("span", { class: "muted" }, clock(row.at)), " ", h("a", { class: "name", href: podLink(row.pod) }, row.pod)))) : h("p", { class: "muted" }, t("node.noHistory")),
      h("details", {}, h("summary", {}, t("node.labels")), Object.entries(node.labels ?? {}).map(([key, value]) => h("div", { class: "name" }, `${key}=${value}`))),
      h("details", {}, h("summary", {}, t("node.conditions")), (node.conditions ?? []).map((each) => h("div", { class: "wrap" }, each))));
  }

  const reload = throttled(1000, load);
  const stop = listen((what) => { if (what.all || what.names?.includes(name) || (what.nodes && !store.nodes.has(name))) reload(); });
  load();
  return { name, element, stop() { stop(); reload.cancel(); abort?.abort(); } };
}

export function meter(name, used = 0, total = 0) {
  const part = total > 0 ? Math.min(1, used / total) : 0;
  return h("div", { class: "meter" },
    h("div", {}, h("span", {}, name), h("span", {}, h("span", { class: "muted" }, `${amount(name, used)} / ${amount(name, total)}`), ` ${percent(used, total)}`)),
    h("div", { class: `track${part > 0.83 ? " full" : ""}`, role: "img", "aria-label": `${name} ${percent(used, total)}` }, h("i", { style: { width: `${part * 100}%` } })));
}
