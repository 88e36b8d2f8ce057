// The cluster: all nodes on a map or in a table, and one of them in a panel.

import { h, replace, throttled } from "../dom.js";
import { CORDONED, NOT_READY, TAINTED, listen, store, usage } from "../store.js";
import { amount, nodeLink, number, percent } from "../format.js";
import { t } from "../i18n.js";
import { nodeMap, states } from "../map/map.js";
import { palette } from "../map/draw.js";
import { virtualTable } from "../virtual.js";
import { nodePanel } from "./node.js";

const ZONE = "topology.kubernetes.io/zone";
const COLORS = ["utilisation", "namespace", "owner", "priority"];
const STATES = { "not-ready": NOT_READY, cordoned: CORDONED, tainted: TAINTED };
const ALL = "-";
const MANY = 300;  // nodes, from which on the pods of each cannot be told apart

export function show({ main, query, setQuery, meta }) {
  let params = query, membership = -1, panel = null, colors = palette();
  const value = (name, fallback) => params.get(name) ?? fallback;
  const colour = () => value("color", store.nodes.size > MANY ? "utilisation" : "owner");
  const change = (changes, push) => {
    setQuery(changes, push);
    if (!push) for (const [name, v] of Object.entries(changes)) { if (v) params.set(name, v); else params.delete(name); }
  };

  // ---- what is coloured how

  let slots = new Map();
  const keyOf = (pod) => {
    const by = colour();
    return by === "owner" ? `${pod.namespace}/${pod.owner ?? ""}` : by === "priority" ? String(pod.priority ?? 0) : pod.namespace;
  };
  const colorOf = (pod) => slots.get(keyOf(pod)) ?? colors.other;

  /** Give the most frequent keys a colour; a key keeps its colour while the page is open. */
  function assign() {
    const by = colour();
    if (by === "utilisation") { slots = new Map(); return; }
    const counts = new Map();
    for (const node of store.nodes.values()) for (const pod of node.pods) counts.set(keyOf(pod), (counts.get(keyOf(pod)) ?? 0) + 1);
    const keys = [...counts].sort((a, b) => b[1] - a[1]).map((each) => each[0]);
    if (by === "priority") {
      const ordered = keys.map(Number).sort((a, b) => a - b);
      slots = new Map(ordered.map((key, i) => [String(key), colors.use[Math.min(5, 1 + Math.round((4 * i) / Math.max(1, ordered.length - 1)))]]));
      return;
    }
    const kept = new Map([...slots].filter(([key]) => counts.has(key)));
    const free = colors.category.slice(0, 5).filter((color) => ![...kept.values()].includes(color));
    for (const key of keys) { if (!free.length) break; if (!kept.has(key)) kept.set(key, free.shift()); }
    slots = kept;
  }

  // ---- groups and filters

  function matches(node) {
    const state = STATES[value("state", "")], text = value("q", "");
    return (!state || node.flags & state) && (!text || node.name.includes(text) || Object.values(node.labels).some((each) => each.includes(text)));
  }

  function groups() {
    const by = value("group", store.labelKeys.has(ZONE) ? ZONE : ALL);
    const found = new Map();
    for (const node of store.nodes.values()) {
      if (!matches(node)) continue;
      const key = by === ALL ? t("map.all") : node.labels[by] ?? t("map.none");
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(node);
    }
    const order = new Intl.Collator("en", { numeric: true }).compare;
    return [...found].sort((a, b) => order(a[0], b[0])).map(([name, nodes]) => ({ name, nodes: nodes.sort((a, b) => order(a.name, b.name)) }));
  }

  const map = nodeMap({
    options: () => ({
      fill: value("fill", "cpu"), colour: colour(), size: Number(value("tile", 0)), colorOf, keyOf,
      selected: value("node", ""), dimmed: value("only", "") ? (node) => node.pods.some((pod) => keyOf(pod) === value("only", "")) : null,
    }),
    open: (name) => change({ node: name }, true),
    zoomed: (size) => change({ tile: String(size) }),
  });
  map.element.setAttribute("aria-label", t("map.label"));

  // ---- the head

  const facts = h("div", { class: "facts" }), form = h("div", { class: "bar" }), legend = h("div", { class: "legend" });
  const view = h("div", {}), scope = h("span", { class: "muted", role: "status" });

  function field(label, name, options, fallback) {
    const select = h("select", { "aria-label": label, onchange: (event) => { change({ [name]: event.target.value }); rebuild(); } },
      options.map(([id, text]) => h("option", { value: id, selected: id === value(name, fallback) }, text)));
    return h("label", { class: "field" }, label, select);
  }

  function buildForm() {
    const labels = [...store.labelKeys].sort((a, b) => (b === ZONE) - (a === ZONE) || (a < b ? -1 : 1));
    const zone = store.labelKeys.has(ZONE) ? ZONE : ALL;
    const asTable = value("as", "map") === "table";
    replace(form,
      field(t("cluster.group"), "group", [...labels.map((key) => [key, key === ZONE ? t("cluster.zone") : key]), [ALL, t("cluster.noGroup")]], zone),
      field(t("cluster.fill"), "fill", [...store.resources, "pods"].map((name) => [name, name]), "cpu"),
      field(t("cluster.color"), "color", COLORS.map((name) => [name, t(`color.${name}`)]), colour()),
      field(t("cluster.state"), "state", [["", t("cluster.anyState")], ...Object.keys(STATES).map((name) => [name, t(`state.${name}`)])], ""),
      h("input", { type: "search", class: "optional", placeholder: t("cluster.filter"), "aria-label": t("cluster.filter"), value: value("q", ""), oninput: (event) => { change({ q: event.target.value }); arrange(); } }),
      h("span", { class: "grow" }), scope,
      !asTable && h("span", { class: "nowrap" }, h("button", { class: "plain", onclick: () => map.zoom(-1), "aria-label": t("cluster.smaller") }, "−"),
        h("button", { class: "plain", onclick: () => { change({ tile: "" }); map.resize(); } }, t("cluster.fit")),
        h("button", { class: "plain", onclick: () => map.zoom(1), "aria-label": t("cluster.larger") }, "+")),
      h("button", { "aria-pressed": String(asTable), onclick: toggle }, t("cluster.table")));
  }

  const toggle = () => { change({ as: value("as", "map") === "table" ? "" : "table" }); rebuild(); };

  function showFacts() {
    const total = new Map();
    let pods = 0, down = 0, cordoned = 0;
    for (const node of store.nodes.values()) {
      pods += node.pods.length;
      if (node.flags & NOT_READY) down++;
      if (node.flags & CORDONED) cordoned++;
      for (const name of ["cpu", "memory"]) {
        const [used, all] = usage(node, name), sum = total.get(name) ?? [0, 0];
        total.set(name, [sum[0] + used, sum[1] + all]);
      }
    }
    const counts = store.counts ?? {};
    const waiting = (counts.active ?? 0) + (counts.backoff ?? 0) + (counts.unschedulable ?? 0) + (counts.gated ?? 0) + (counts.permit ?? 0);
    const fact = (number, text, kind) => h("span", { class: kind }, h("b", {}, number), h("span", { class: kind ? "" : "muted" }, text));
    replace(facts,
      fact(number(store.nodes.size), t("fact.nodes")), fact(number(pods), t("fact.pods")),
      fact(percent(...(total.get("cpu") ?? [0, 0])), t("fact.cpu")), fact(percent(...(total.get("memory") ?? [0, 0])), t("fact.memory")),
      h("a", { href: "#/queue", class: waiting ? "warning" : "" }, h("b", {}, number(waiting)), h("span", {}, t("fact.pending"))),
      down ? fact(number(down), t("fact.notReady"), "error") : null, cordoned ? fact(number(cordoned), t("fact.cordoned")) : null);
  }

  function showLegend() {
    const by = colour();
    const marks = [["✕", "state.not-ready"], ["╱", "state.cordoned"], ["●", "state.tainted"]].map(([sign, text]) => h("span", {}, h("b", { "aria-hidden": "true" }, sign), t(text)));
    const keys = by === "utilisation"
      ? [h("span", {}, t("legend.use", { resource: value("fill", "cpu") }), " 0 %", h("span", { class: "ramp", "aria-hidden": "true" }, [0, 1, 2, 3, 4, 5].map(() => h("i"))), "100 %")]
      : [...slots].map(([key, color]) => h("button", { class: "chip", "aria-pressed": String(value("only", "") === key), onclick: () => { change({ only: value("only", "") === key ? "" : key }); showLegend(); map.redraw(); } },
        h("i", { class: "swatch", style: { background: color } }), ` ${key || t("legend.none")}`))
        .concat(h("span", {}, h("i", { class: "swatch", style: { background: colors.other } }), t("legend.other")));
    replace(legend, keys, marks);
  }

  // ---- map or table

  let table = null, sort = { key: "name", down: false };

  function makeTable() {
    const column = (key, title, cell, order, num = true) => ({ key, title, cell, sort: order, num });
    const share = (name) => (node) => { const [used, all] = usage(node, name); return all ? used / all : 0; };
    const columns = [
      column("name", t("fact.node"), (node) => h("a", { class: "name", href: `${nodeLink(node.name)}&as=table` }, node.name), (node) => node.name, false),
      column("state", t("cluster.state"), (node) => states(node).join(", "), (node) => node.flags, false),
      ...["cpu", "memory", ...(["cpu", "memory", "pods"].includes(value("fill", "cpu")) ? [] : [value("fill", "cpu")])].flatMap((name) => [
        column(name, `${name} %`, (node) => percent(...usage(node, name)), share(name)),
        column(`${name}-free`, t("table.free", { resource: name }), (node) => { const [used, all] = usage(node, name); return amount(name, Math.max(0, all - used)); }, (node) => usage(node, name)[1] - usage(node, name)[0]),
      ]),
      column("pods", t("fact.pods"), (node) => `${node.pods.length} / ${node.allowed}`, (node) => node.pods.length),
    ];
    table = virtualTable({ columns, label: t("map.table"), onsort: (key) => { sort = { key, down: sort.key === key ? !sort.down : key !== "name" }; fillTable(); } });
    table.columns = columns;
    table.element.style.setProperty("max-height", "none");
    table.element.style.setProperty("margin", "0 16px");
    return table.element;
  }

  function fillTable() {
    const order = table.columns.find((each) => each.key === sort.key).sort;
    const nodes = groups().flatMap((group) => group.nodes).map((node) => [order(node), node]);
    nodes.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (sort.down ? -1 : 1));
    table.show(nodes.map((each) => each[1]), sort);
  }

  function arrange() {
    const list = groups(), count = list.reduce((sum, group) => sum + group.nodes.length, 0);
    scope.textContent = count === store.nodes.size ? "" : t("cluster.scope", { count: number(count), total: number(store.nodes.size) });
    if (table) fillTable(); else map.arrange(list);
    const nothing = store.loaded && !count;
    empty.hidden = !nothing;
    if (nothing) {
      replace(empty, t(store.nodes.size ? "cluster.noMatch" : meta.mode === "sandbox" ? "cluster.emptySandbox" : "cluster.empty"),
        h("div", { class: "bar" }, store.nodes.size ? h("button", { onclick: () => { change({ q: "", state: "" }); rebuild(); } }, t("clear")) : null));
    }
    membership = store.membership;
  }

  const empty = h("div", { class: "empty", hidden: true });
  const root = h("div", { class: "cluster" });

  function rebuild() {
    colors = palette();
    slots = new Map();
    const asTable = value("as", "map") === "table";
    table = null;
    replace(view, asTable ? makeTable() : map.element, empty);
    view.setAttribute("class", asTable ? "" : "mapbox");
    view.style.setProperty("overflow", "hidden");
    view.style.setProperty("display", "grid");
    buildForm();
    assign();
    showFacts();
    showLegend();
    arrange();
    showPanel();
  }

  function showPanel() {
    const name = value("node", "");
    if (panel?.name === name) return;
    panel?.stop();
    panel = null;
    root.classList.toggle("with-panel", Boolean(name));
    root.querySelector(".panel")?.remove();
    if (name) {
      panel = nodePanel(name, { meta, close: () => change({ node: "" }, true) });
      root.append(panel.element);
    }
    map.redraw();
  }

  replace(root, h("div", { class: "head" }, h("h1", { class: "hidden" }, t("nav.cluster")), facts, form), view, legend);
  replace(main, root);
  rebuild();

  const refresh = throttled(140, () => {
    showFacts();
    const before = [...slots.keys()].join("\n");
    assign();
    if (before !== [...slots.keys()].join("\n")) showLegend();
    if (membership !== store.membership) { buildForm(); arrange(); } else if (table) fillTable(); else map.refresh();
  });
  const stop = listen((what) => {
    if (what.all) rebuild();
    else if (what.nodes) refresh();
    else if (what.counts) showFacts();
  });
  const themed = () => { colors = palette(); slots = new Map(); assign(); showLegend(); map.redraw(); };
  addEventListener("themechange", themed);
  return {
    title: t("nav.cluster"),
    update(next) { const before = String(params); params = next; if (before !== String(next)) { if (before.replace(/&?node=[^&]*/, "") === String(next).replace(/&?node=[^&]*/, "")) { showPanel(); } else rebuild(); } },
    key(event) { if (event.key === "t") { toggle(); return true; } if (event.key === "Escape" && value("node", "")) { change({ node: "" }, true); return true; } return false; },
    stop() { stop(); refresh.cancel(); map.stop(); panel?.stop(); removeEventListener("themechange", themed); },
  };
}
