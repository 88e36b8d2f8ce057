// Runs of a simulation: which run and which moment the other views show, and its metrics.

import { h, replace, throttled } from "../dom.js";
import { get, post } from "../net.js";
import { listen, store } from "../store.js";
import { duration, number } from "../format.js";
import { t } from "../i18n.js";

const WIDTH = 800, HEIGHT = 240;

export function show({ main, query, setQuery, failed }) {
  let record = null, drawings = [];
  const chosen = h("select", { "aria-label": t("run.run"), onchange: () => move({ run: chosen.value }) });
  const slider = h("input", { type: "range", min: "0", step: "any", class: "grow", "aria-label": t("run.moment"), oninput: () => { label(); drag(); } });
  const time = h("output", { class: "num" }), charts = h("div", { class: "charts" }), metrics = h("div", {}), problem = h("div", { role: "alert" });
  replace(main, h("div", { class: "page" },
    h("div", { class: "bar" }, h("h1", {}, t("nav.run")), chosen, h("span", { class: "grow" }), h("a", { href: "#/cluster" }, t("run.cluster"))),
    h("div", { class: "bar", "data-control": true }, slider, time), problem, charts, h("h2", {}, t("run.metrics")), metrics));

  const span = (seconds) => duration(seconds * 1000);
  const label = () => {
    time.textContent = t("run.at", { at: span(Number(slider.value)), end: span(record.end) });
    slider.setAttribute("aria-valuetext", time.textContent);
    redraw();
  };

  async function move(moment) {
    try {
      replace(problem);
      fill(await post("run/show", moment));
      setQuery({ run: record.run, at: String(Math.round(record.at)) });
    } catch (error) { replace(problem, h("p", { class: "error" }, error.message)); }
  }
  const drag = throttled(300, () => move({ run: record.run, at: Number(slider.value) }));

  function fill(next) {
    const before = record;
    record = next;
    replace(chosen, record.runs.map((run) => h("option", { value: run.name }, run.name)));
    chosen.value = record.run;
    if (document.activeElement !== slider || before?.run !== record.run) {
      slider.max = String(record.end);
      slider.value = String(record.at);
    }
    if (before?.run !== record.run) { fillCharts(); fillMetrics(); }
    label();
  }

  function fillCharts() {
    const { seconds, ...lines } = record.timeline;
    drawings = [];
    replace(charts, Object.entries(lines).map(([name, values]) => {
      const top = name === "pending" ? Math.max(1, ...values) : Math.max(100, ...values);
      const title = name === "pending" ? t("run.pending", { count: number(Math.max(...values)) }) : t("run.allocated", { resource: name, percent: Math.round(Math.max(...values)) });
      const canvas = h("canvas", { width: WIDTH, height: HEIGHT, role: "img", "aria-label": title });
      drawings.push(() => draw(canvas, seconds.map((at, i) => [at / (record.end || 1), values[i] / top]), Number(slider.value) / (record.end || 1)));
      return h("figure", {}, h("figcaption", {}, title), canvas);
    }));
  }

  function fillMetrics() {
    const policies = [...new Set(record.runs.map((run) => run.policy))], shown = record.runs.find((run) => run.name === record.run);
    const mean = (policy, name) => {
      const values = record.runs.filter((run) => run.policy === policy && name in run.metrics).map((run) => run.metrics[name]);
      return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : undefined;
    };
    const text = (value) => (value === undefined ? "–" : number(Number(value.toPrecision(4))));
    replace(metrics, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("run.metrics") }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("run.metric")), h("th", { scope: "col", class: "num" }, record.run), policies.map((policy) => h("th", { scope: "col", class: "num" }, t("run.mean", { policy }))))),
      h("tbody", {}, Object.entries(shown.metrics).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "num" }, text(value)), policies.map((policy) => h("td", { class: "num" }, text(mean(policy, name))))))))));
  }

  async function load() {
    try {
      const current = await get("run");
      const run = query.get("run") ?? current.run, at = query.has("at") ? Number(query.get("at")) : undefined;
      fill(current);
      if (run !== current.run || (at !== undefined && at !== Math.round(current.at))) await move({ run, at });
    } catch (error) { replace(main, failed(error, load)); }
  }

  const redraw = () => { for (const each of drawings) each(); };
  addEventListener("themechange", redraw);
  const stop = listen((what) => { if (what.state && record && store.state.run !== record.run) load(); });
  load();
  return { title: t("nav.run"), update(next) { query = next; load(); }, stop() { stop(); drag.cancel(); removeEventListener("themechange", redraw); } };
}

/** Draw a line through points from 0 to 1, and a cursor. */
function draw(canvas, points, cursor) {
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  pen.clearRect(0, 0, WIDTH, HEIGHT);
  pen.fillStyle = style.getPropertyValue("--error");
  pen.fillRect(cursor * WIDTH - 1, 0, 2, HEIGHT);
  pen.strokeStyle = style.getPropertyValue("--link");
  pen.lineWidth = 4;
  pen.beginPath();
  for (const [x, y] of points) pen.lineTo(x * WIDTH, HEIGHT - 2 - y * (HEIGHT - 4));
  pen.stroke();
}
