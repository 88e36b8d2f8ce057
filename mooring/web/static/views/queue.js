// The scheduling queue: pods and groups that wait, why, and for what.

import { h, replace, table, throttled } from "../dom.js";
import { get } from "../net.js";
import { listen, store } from "../store.js";
import { number, podLink, since, until } from "../format.js";
import { t } from "../i18n.js";
import { awaited, groupLine } from "../sentences.js";

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
    replace(list, table(t("nav.queue"), COLUMNS(), entries(rows), ({ group, member }) => ({ class: group ? "group" : member ? "member" : "" })));
  }

  /** Pods, and before its members each group; members are shown once the group is opened. */
  function entries(rows) {
    const groups = new Map((record.groups ?? []).map((group) => [group.group, group])), seen = new Set();
    return rows.flatMap((pod) => {
      const group = groups.get(pod.group);
      if (!group) return [{ pod }];
      const first = !seen.has(group.group), open = opened().includes(group.group);
      seen.add(group.group);
      return [...(first ? [{ group, pod, open }] : []), ...(open ? [{ pod, member: true }] : [])];
    });
  }

  /** What an attempt of a group would come to now, once it is opened. */
  function explained(group) {
    const place = h("div", { class: "muted" });
    get(`podgroups/${group.group.split("/").map(encodeURIComponent).join("/")}`, abort?.signal).then((record) => replace(place, groupLine(record))).catch(() => {});
    return place;
  }

  const opened = () => params.getAll("open").flatMap((each) => each.split(","));
  const toggle = (name) => set({ open: (opened().includes(name) ? opened().filter((each) => each !== name) : [...opened(), name]).filter(Boolean).join(",") });

  const COLUMNS = () => [
    { title: t("fact.pod"), cell: ({ pod, group, open }) => (group
      ? [h("button", { class: "plain fold", "aria-expanded": String(open), onclick: () => toggle(group.group) }, open ? "▾ " : "▸ ", h("span", { class: "name" }, group.group)), h("div", { class: "muted" }, t("queue.group"))]
      : [h("a", { class: "name", href: podLink(pod.pod) }, pod.pod), pod.owner ? h("div", { class: "muted" }, pod.owner) : null]) },
    { title: t("queue.state"), cell: ({ pod }) => h("span", { class: `badge ${BADGES[pod.state] ?? ""}` }, t(`state.${pod.state}`)) },
    { title: t("queue.why"), class: "wrap", cell: ({ pod, group, open }) => [[group?.message, pod.reason || pod.message || t("queue.notTried")].filter(Boolean).join(": "), open ? explained(group) : null] },
    { title: t("queue.waitsFor"), class: "wrap muted", cell: ({ pod, group }) => (group ? needs(group) : waitsFor(pod.waiting)) },
    { title: t("queue.since"), num: true, cell: ({ pod }) => h("span", { "data-since": pod.waiting.since ?? "" }, since(pod.waiting.since)) },
    { title: t("queue.next"), num: true, cell: ({ pod }) => (pod.waiting.until ? h("span", { "data-until": pod.waiting.until }, until(pod.waiting.until)) : "–") },
    { title: t("queue.attempts"), num: true, cell: ({ pod }) => String(pod.waiting.attempts ?? 0) },
    { title: t("queue.priority"), num: true, cell: ({ pod, group }) => String((group ?? pod).priority ?? 0) },
  ];

  /** How many pods a group needs, has, and where they are. */
  function needs(group) {
    const values = { group: group.group, members: number(group.members ?? 0), scheduled: number(group.scheduled ?? 0), pending: number(group.pending ?? 0), least: number(group.minCount ?? 0) };
    return [
      group.missing ? t("queue.groupMissing", values) : !group.minCount ? "" : (group.members ?? 0) < group.minCount ? t("queue.groupFew", values) : t("queue.groupRoom", values),
      group.topology ? t("queue.groupTopology", { key: group.topology }) : "", t("queue.groupMembers", values),
    ].filter(Boolean).join(" ");
  }

  function waitsFor(waits) {
    return waits.heldBy?.length ? waits.heldBy.map((hold) => `${hold.plugin}${hold.message ? `: ${hold.message}` : ""}`).join("; ")
      : waits.gatedBy ? `${waits.gatedBy}: ${waits.gate ?? ""}`
      : waits.victims?.length ? t("queue.victims", { pods: waits.victims.join(", "), node: waits.nominatedNode ?? "" })
      : (waits.events ?? []).map(awaited).join("; ");
  }

  const timer = setInterval(() => {
    if (document.documentElement.dataset.link === "off") return;
    for (const each of list.querySelectorAll("[data-since]")) each.textContent = since(each.dataset.since);
    if (store.state.paused) return;  // the next attempt is made when the scheduler goes on
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
