// Controls of the sandbox: nodes, workloads, and the scheduler itself.

import { h, replace, throttled } from "../dom.js";
import { get, post } from "../net.js";
import { listen, store } from "../store.js";
import { t } from "../i18n.js";

const SPEEDS = [1, 2, 5, 10, 60];

export function show({ main, failed }) {
  const message = h("div", { class: "detail", role: "status" }, t("sandbox.hint")), scheduler = h("div", { class: "row" }), time = h("div", { class: "row" }), workloads = h("div", {}), examples = h("div", { class: "row" });
  const text = h("textarea", { "aria-label": t("sandbox.manifest"), spellcheck: "false", placeholder: t("whatIf.placeholder") });
  const count = h("input", { type: "number", min: "1", max: "1000", value: "1", "aria-label": t("whatIf.count") });
  const name = h("input", { type: "text", list: "sandbox-nodes", placeholder: t("fact.node"), "aria-label": t("fact.node") });
  const known = h("datalist", { id: "sandbox-nodes" }, [...store.nodes.keys()].slice(0, 500).map((each) => h("option", { value: each })));

  async function act(action, body = {}) {
    try { replace(message, h("pre", {}, (await post(`sandbox/${action}`, body)).message)); load(); } catch (error) { replace(message, h("pre", { class: "error" }, error.message)); }
  }

  const button = (action, label, body) => h("button", { onclick: () => act(action, body?.()) }, label);

  function fillScheduler() {
    const paused = Boolean(store.state.paused);
    replace(scheduler, h("span", { class: `badge ${paused ? "warning" : "ok"}` }, t(paused ? "sandbox.paused" : "sandbox.runs")),
      paused ? button("resume", t("sandbox.resume")) : button("pause", t("sandbox.pause")), button("step", t("sandbox.step")), h("span", { class: "muted" }, t("sandbox.pauseHint")));
  }

  function fillTime() {
    const speed = store.state.speed ?? 1;
    replace(time, SPEEDS.map((each) => h("button", { class: "chip", "aria-pressed": String(each === speed), onclick: () => act("speed", { speed: each }) }, `${each}×`)), h("span", { class: "muted" }, t("sandbox.timeHint")));
  }

  async function load() {
    try {
      const record = await get("sandbox");
      if (!workloads.contains(document.activeElement)) {
        replace(workloads, record.workloads.length ? record.workloads.map((each) => {
          const replicas = h("input", { type: "number", min: "0", value: each.replicas ?? 1, "aria-label": t("sandbox.replicas", { name: each.name }) });
          return h("div", { class: "row" }, h("span", { class: "name grow" }, `${each.namespace}/${each.name}`), h("span", { class: "muted" }, each.resource), replicas,
            button("scale", t("sandbox.scale"), () => ({ resource: each.resource, namespace: each.namespace, name: each.name, replicas: Number(replicas.value) })));
        }) : h("p", { class: "muted" }, t("sandbox.noWorkloads")));
      }
      if (!examples.childElementCount) {
        replace(examples, Object.entries(record.examples).map(([id, manifest]) => [button("submit", t("sandbox.apply", { name: id }), () => ({ example: id })), h("button", { class: "plain", onclick: () => { text.value = manifest; text.focus(); } }, t("sandbox.edit"))]));
      }
    } catch (error) { replace(workloads, failed(error, load)); }
  }

  replace(main, h("div", { class: "page" }, h("div", { class: "bar" }, h("h1", {}, t("nav.sandbox")), h("span", { class: "muted" }, t("sandbox.text"))), message,
    h("div", { class: "split2", "data-control": true },
      h("div", {},
        h("fieldset", {}, h("legend", {}, t("sandbox.scheduler")), scheduler),
        h("fieldset", {}, h("legend", {}, t("sandbox.time")), time),
        h("fieldset", {}, h("legend", {}, t("sandbox.nodes")), h("div", { class: "row" }, count, button("add", t("sandbox.add"), () => ({ count: Number(count.value) }))),
          h("div", { class: "row" }, name, known, ["fail", "recover", "cordon", "uncordon"].map((action) => button(action, t(`node.${action}`), () => ({ node: name.value })))),
          h("p", { class: "muted" }, t("sandbox.nodeHint"), " ", h("a", { href: "#/cluster" }, t("nav.cluster")))),
        h("fieldset", {}, h("legend", {}, t("sandbox.workloads")), workloads)),
      h("fieldset", {}, h("legend", {}, t("sandbox.submit")), examples, h("div", { class: "row" }, text), h("div", { class: "row" }, button("submit", t("sandbox.applyManifest"), () => ({ manifest: text.value })))))));
  fillScheduler();
  fillTime();
  const reload = throttled(2000, load);
  const stop = listen((what) => { if (what.state) { fillScheduler(); fillTime(); } if (what.counts) reload(); });
  load();
  return {
    title: t("nav.sandbox"),
    update() {},
    key(event) { if (event.key === "." && document.documentElement.dataset.link !== "off") { act("step"); return true; } return false; },
    stop() { stop(); reload.cancel(); },
  };
}
