// What if: change something in a copy of the cluster, and compare where pods go with now.

import { h, replace, table } from "../dom.js";
import { get, post } from "../net.js";
import { store } from "../store.js";
import { nodeLink, number, podLink } from "../format.js";
import { t } from "../i18n.js";

const DRAFT = "mooring.draft", LARGEST = 3 << 20;
const BADGES = { new: "ok", scheduled: "ok", moved: "warning", pending: "error", evicted: "error", same: "" };
const EMPTY = () => ({ manifest: "", weights: [], args: [], taints: [], addNodes: [], removeNodes: [], reschedule: false, note: "" });

export function show({ main, query, setQuery, meta }) {
  let draft = { ...EMPTY(), ...read() }, plugins = [], adders = [], stopped = false;
  const save = () => sessionStorage.setItem(DRAFT, JSON.stringify(draft));
  const names = h("datalist", { id: "nodes" }), form = h("div", {}), result = h("div", { "aria-live": "polite" });
  const run = h("button", { class: "primary", "data-control": true, onclick: evaluate }, t("whatIf.run"));
  replace(main, h("div", { class: "page" },
    h("div", { class: "bar" }, h("h1", {}, t("nav.whatIf")), h("span", { class: "muted" }, t("whatIf.nothing")), h("span", { class: "grow" }), h("button", { onclick: reset }, t("whatIf.reset")), run),
    h("div", { class: "split2" }, h("div", {}, form, names), h("div", {}, h("h2", {}, t("whatIf.result")), result))));
  replace(names, [...store.nodes.keys()].slice(0, 500).map((name) => h("option", { value: name })));
  replace(result, h("div", { class: "empty" }, t("whatIf.start")));

  function read() {
    try { return JSON.parse(sessionStorage.getItem(DRAFT) ?? "{}"); } catch { return {}; }
  }

  function reset() {
    draft = EMPTY();
    setQuery({ pod: "" });
    save();
    fill();
    replace(result, h("div", { class: "empty" }, t("whatIf.start")));
  }

  // ---- the form

  function fill() {
    const text = h("textarea", { spellcheck: "false", id: "manifest", "aria-label": t("whatIf.manifest"), placeholder: t("whatIf.placeholder"), value: draft.manifest, oninput: (event) => { draft.manifest = event.target.value; save(); } });
    adders = [];
    const items = [
      rows("addNodes", t("whatIf.addNodes"), () => ({ like: [...store.nodes.keys()][0] ?? "", count: 1 }), (item) => [node(item, "like", t("whatIf.like")), count(item, "count", t("whatIf.count"))]),
      rows("removeNodes", t("whatIf.removeNodes"), () => ({ name: "" }), (item) => [node(item, "name", t("fact.node"))]),
      rows("taints", t("whatIf.taints"), () => ({ node: "", taint: "", remove: false }), (item) => [node(item, "node", t("fact.node")), field(item, "taint", "key=value:NoSchedule"), check(item, "remove", t("whatIf.removeTaint"))]),
      rows("weights", t("whatIf.weights"), () => ({ plugin: plugins.find((each) => each.weight)?.name ?? "", weight: 10 }), (item) => [plugin(item, true), count(item, "weight", t("whatIf.weight"))]),
      rows("args", t("whatIf.args"), () => ({ plugin: "NodeResourcesFit", json: '{"scoringStrategy": {"type": "MostAllocated"}}' }), (item) => [plugin(item, false), field(item, "json", "{…}", t("whatIf.json"))]),
    ];
    replace(form,
      draft.note ? h("p", { class: "detail" }, t("whatIf.note", { text: draft.note })) : null,
      h("fieldset", {}, h("legend", {}, t("whatIf.changes")), items, h("div", { class: "row" }, adders),
        h("div", { class: "row" }, h("label", { class: "field" }, h("input", { type: "checkbox", checked: draft.reschedule, onchange: (event) => { draft.reschedule = event.target.checked; save(); } }), h("span", {}, t("whatIf.reschedule"))))),
      h("fieldset", {}, h("legend", {}, t("whatIf.manifest")), text));
  }

  function rows(name, title, make, fields) {
    adders.push(h("button", { onclick: () => { draft[name].push(make()); save(); fill(); } }, `+ ${title}`));
    return draft[name].map((item, i) => h("div", { class: "row" }, h("span", { class: "muted" }, title), fields(item),
      h("button", { class: "plain", "aria-label": t("whatIf.drop", { what: title }), onclick: () => { draft[name].splice(i, 1); save(); fill(); } }, "✕")));
  }

  const field = (item, name, placeholder, label = placeholder) => h("input", { type: "text", placeholder, "aria-label": label, value: item[name], oninput: (event) => { item[name] = event.target.value; save(); } });
  const node = (item, name, label) => h("input", { type: "text", list: "nodes", placeholder: label, "aria-label": label, value: item[name], oninput: (event) => { item[name] = event.target.value; save(); } });
  const count = (item, name, label) => h("input", { type: "number", min: "1", "aria-label": label, value: item[name], oninput: (event) => { item[name] = Number(event.target.value); save(); } });
  const check = (item, name, label) => h("label", { class: "field" }, h("input", { type: "checkbox", checked: item[name], onchange: (event) => { item[name] = event.target.checked; save(); } }), h("span", {}, label));
  const plugin = (item, scoring) => h("select", { "aria-label": t("whatIf.plugin"), onchange: (event) => { item.plugin = event.target.value; save(); } },
    plugins.filter((each) => !scoring || each.weight).map((each) => h("option", { value: each.name, selected: each.name === item.plugin }, scoring ? `${each.name} (${each.weight})` : each.name)));

  // ---- the answer

  function changes() {
    return {
      manifest: draft.manifest, reschedule: draft.reschedule, addNodes: draft.addNodes, taints: draft.taints,
      removeNodes: draft.removeNodes.map((each) => each.name), weights: Object.fromEntries(draft.weights.map((each) => [each.plugin, each.weight])),
      args: Object.fromEntries(draft.args.map((each) => [each.plugin, parse(each)])),
    };
  }

  function parse({ plugin: name, json }) {
    try { return JSON.parse(json); } catch (error) { throw new Error(`${t("whatIf.args")}: ${name}: ${error.message}`); }
  }

  async function evaluate() {
    run.disabled = true;
    try {
      if (new Blob([draft.manifest]).size > LARGEST) throw new Error(t("whatIf.tooLarge"));
      replace(result, h("div", { class: "empty", role: "status" }, t("whatIf.running")));
      const answer = await post("what-if", changes());
      if (!stopped) fillResult(answer);
    } catch (error) {
      if (!stopped) replace(result, h("div", { class: "detail error", role: "alert" }, h("b", {}, t("whatIf.failed")), h("pre", {}, error.message)));
    } finally { run.disabled = false; }
  }

  function fillResult(answer) {
    const about = query.get("pod"), kinds = ["scheduled", "new", "moved", "pending", "evicted", "same"];
    const pods = [...answer.pods].sort((a, b) => (b.pod === about) - (a.pod === about));
    const shown = pods.filter((each) => (each.result ?? "same") !== "same" || each.pod === about);
    replace(result,
      h("p", {}, t("whatIf.summary", { changes: answer.changes, seconds: answer.seconds, nodes: number(answer.nodes) })),
      h("div", { class: "chips bar" }, kinds.filter((kind) => answer.counts[kind]).map((kind) => h("span", { class: `badge ${BADGES[kind]}` }, `${t(`whatIf.${kind}`)} ${number(answer.counts[kind])}`))),
      (answer.warnings ?? []).map((text) => h("p", { class: "warning" }, text)),
      shown.length ? table(t("whatIf.result"), [
        { title: t("fact.pod"), cell: (each) => h("a", { class: "name", href: podLink(each.pod) }, each.pod) },
        { title: t("whatIf.now"), cell: (each) => where(each.now, each.result === "new" ? "–" : t("state.pending")) },
        { title: t("whatIf.then"), cell: (each) => where(each.then, each.result === "evicted" ? t("whatIf.evicted") : t("state.pending")) },
        { title: t("whatIf.change"), cell: (each) => h("span", { class: `badge ${BADGES[each.result ?? "same"]}` }, t(`whatIf.${each.result ?? "same"}`)) },
        { title: t("queue.why"), class: "wrap", cell: (each) => each.why ?? "" },
      ], shown) : h("div", { class: "empty" }, t("whatIf.allSame")));
  }

  const where = (name, otherwise) => (name ? (store.nodes.has(name) ? h("a", { class: "name", href: nodeLink(name) }, name) : h("span", { class: "name" }, name)) : h("span", { class: "muted" }, otherwise));

  async function prepare() {  // the form is made once: making it again would take the focus from who types in it
    try {
      const config = await get("config"), found = new Map();
      for (const profile of config.profiles) for (const point of ["multiPoint", "score"]) for (const each of profile.plugins?.[point]?.enabled ?? []) found.set(each.name, each.weight || found.get(each.name) || 0);
      plugins = [...found].map(([name, weight]) => ({ name, weight })).sort((a, b) => (a.name < b.name ? -1 : 1));
      const about = query.get("pod");
      if (about && draft.load) {
        draft.manifest = (await get(`pods/${about.split("/").map(encodeURIComponent).join("/")}/manifest?${draft.load}`)).manifest;
        draft.load = "";
        save();
      }
    } catch (error) { if (!stopped) replace(result, h("div", { class: "detail error", role: "alert" }, error.message)); }
    if (!stopped) fill();
  }

  prepare();
  post("what-if/prepare", {}).catch(() => {});  // the server copies the cluster meanwhile
  return { title: t("nav.whatIf"), update() {}, stop() { stopped = true; } };
}
