// The node map: a canvas as large as what is visible, inside a scrolled box as high as all of it.

import { h, announce } from "../dom.js";
import { NOT_READY, CORDONED, TAINTED, store, usage } from "../store.js";
import { amount, percent } from "../format.js";
import { t } from "../i18n.js";
import { draw, palette } from "./draw.js";
import { fittingSize, groupOf, hit, layout, place, SIZES } from "./layout.js";

/** Make a map. `options()` has fill, colour, colorOf, keyOf, dimmed, selected and size; `open(name)` is called
 * for the node that was chosen. */
export function nodeMap({ options, open, zoomed }) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const space = h("div", { "aria-hidden": "true" });
  const box = h("div", { class: "map", tabindex: "0", role: "application" }, canvas, space);
  const tip = h("div", { class: "tip", hidden: true });
  box.append(tip);
  const context = canvas.getContext("2d", { alpha: false });
  let groups = [], plan = null, focus = -1, frame = 0, nodes = [];

  function arrange(list) {
    groups = list;
    nodes = groups.flatMap((group) => group.nodes);
    resize();
  }

  function resize() {
    const width = box.clientWidth, height = box.clientHeight;
    if (!width || !height) return;
    const counts = groups.map((group) => group.nodes.length);
    plan = layout(counts, width, options().size || fittingSize(counts, width, height));
    space.style.setProperty("height", `${Math.max(0, plan.height - height)}px`);
    const ratio = devicePixelRatio;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.setProperty("width", `${width}px`);
      canvas.style.setProperty("height", `${height}px`);
    }
    redraw();
  }

  function redraw() {
    if (!frame) frame = requestAnimationFrame(paint);
  }

  function paint() {
    frame = 0;
    if (!plan || !box.isConnected) return;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    const began = performance.now();
    draw(context, {
      ...options(), plan, groups, top: box.scrollTop, height: box.clientHeight, colors: palette(),
      resources: store.resources, focus: document.activeElement === box ? focus : -1,
    });
    performance.measure("mooring.draw", { start: began, end: performance.now() });
    box.dataset.tile = plan.size;
  }

  /** Take over the newest version of the nodes, which stay where they are. */
  function refresh() {
    for (const group of groups) group.nodes = group.nodes.map((node) => store.nodes.get(node.name) ?? node);
    nodes = groups.flatMap((group) => group.nodes);
    redraw();
  }

  const at = (event) => {
    const frameBox = canvas.getBoundingClientRect();
    return plan ? hit(plan, event.clientX - frameBox.left, event.clientY - frameBox.top + box.scrollTop) : -1;
  };

  box.addEventListener("click", (event) => { const index = at(event); if (index >= 0) { focus = index; open(nodes[index].name); } });
  box.addEventListener("pointermove", (event) => {
    const index = at(event);
    canvas.style.setProperty("cursor", index >= 0 ? "pointer" : "default");
    if (index < 0) { tip.hidden = true; return; }
    showTip(nodes[index], event.clientX, event.clientY);
  });
  box.addEventListener("pointerleave", () => { tip.hidden = true; });
  box.addEventListener("scroll", redraw, { passive: true });
  box.addEventListener("focus", () => { if (focus < 0 && nodes.length) focus = 0; if (nodes[focus]) announce(describe(nodes[focus])); redraw(); });
  box.addEventListener("blur", () => { tip.hidden = true; redraw(); });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !plan) return;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: plan.columns, ArrowUp: -plan.columns, Home: -1e9, End: 1e9 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      move(Math.max(0, Math.min(nodes.length - 1, focus + step)));
    } else if (event.key === "Enter" && nodes[focus]) open(nodes[focus].name);
    else if (event.key === "Escape") tip.hidden = true;
    else if (event.key === "+" || event.key === "=") zoom(1);
    else if (event.key === "-") zoom(-1);
    else return;
    event.stopPropagation();
  });

  function move(index) {
    if (!nodes[index]) return;
    focus = index;
    const group = groupOf(plan, index), rect = place(plan, group, index - group.first);
    if (rect.y - 30 < box.scrollTop) box.scrollTop = rect.y - 30;
    if (rect.y + rect.h + 8 > box.scrollTop + box.clientHeight) box.scrollTop = rect.y + rect.h + 8 - box.clientHeight;
    const frameBox = canvas.getBoundingClientRect();
    showTip(nodes[index], frameBox.left + rect.x + plan.tile, frameBox.top + rect.y + rect.h - box.scrollTop);
    announce(describe(nodes[index]));
    redraw();
  }

  function zoom(step) {
    if (!plan) return;
    const next = SIZES[Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(plan.size) + step))];
    zoomed(next);
    resize();
  }

  function showTip(node, x, y) {
    const { fill } = options();
    const [used, total] = usage(node, fill);
    tip.replaceChildren(
      h("b", {}, node.name), states(node).join(", "), h("br"),
      `${fill} ${amount(fill, used)} / ${amount(fill, total)} (${percent(used, total)})`, h("br"),
      t("map.pods", { pods: node.pods.length, allowed: node.allowed }),
    );
    tip.hidden = false;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.setProperty("left", `${Math.min(x + 14, innerWidth - width - 8)}px`);
    tip.style.setProperty("top", `${Math.min(y + 14, innerHeight - height - 8)}px`);
  }

  const observer = new ResizeObserver(resize);
  observer.observe(box);
  return {
    element: box, arrange, refresh, redraw, resize, zoom,
    stop() { observer.disconnect(); cancelAnimationFrame(frame); },
    nodeAt: (index) => nodes[index]?.name,
  };
}

export function states(node) {
  const found = [t(node.flags & NOT_READY ? "node.notReady" : "node.ready")];
  if (node.flags & CORDONED) found.push(t("node.cordoned"));
  if (node.flags & TAINTED) found.push(t("node.tainted"));
  return found;
}

function describe(node) {
  const parts = ["cpu", "memory"].map((name) => `${name} ${percent(...usage(node, name))}`);
  return `${node.name}, ${[...states(node), ...parts].join(", ")}, ${t("map.pods", { pods: node.pods.length, allowed: node.allowed })}`;
}
