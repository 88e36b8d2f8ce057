// Tiles on a canvas: utilisation, pods, and the marks of nodes in a special state.

import { CORDONED, FAILED, NOT_READY, TAINTED, usage } from "../store.js";
import { HEADER, place } from "./layout.js";
import { amount, percent, short } from "../format.js";
import { t } from "../i18n.js";

const SMALL = 17;  // pixels; below, a tile has no content
export const CLASSES = 6;
export const classOf = (part) => Math.max(0, Math.min(CLASSES - 1, Math.floor(part * CLASSES)));

/** The colours of the theme, read once for each frame. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    bg: read("--bg"), raised: read("--raised"), text: read("--text"), muted: read("--muted"), outline: read("--outline"), error: read("--error"),
    accent: read("--accent"), markIn: read("--mark-in"), markOut: read("--mark-out"), other: read("--line"),
    use: [0, 1, 2, 3, 4, 5].map((i) => read(`--u${i}`)), category: [0, 1, 2, 3, 4, 5].map((i) => read(`--c${i}`)),
  };
}

/** Draw the part of the map that is visible. */
export function draw(context, view) {
  const { plan, groups, top, height, colors } = view;
  context.fillStyle = colors.bg;
  context.fillRect(0, 0, plan.width, height);
  plan.groups.forEach((group, i) => {
    const rows = Math.ceil(group.count / group.columns);
    const end = group.top + HEADER + rows * (plan.size + plan.gap);
    if (end < top || group.top > top + height) return;
    drawHeader(context, view, groups[i], group.top - top);
    const pitch = plan.size + plan.gap;
    const firstRow = Math.max(0, Math.floor((top - group.top - HEADER) / pitch));
    const lastRow = Math.min(rows, Math.ceil((top + height - group.top - HEADER) / pitch));
    const from = firstRow * group.columns, to = Math.min(group.count, lastRow * group.columns);
    const boxOf = (at) => { const box = place(plan, group, at); box.y -= top; return box; };
    if (plan.size < SMALL) drawSmall(context, view, groups[i].nodes, group.first, from, to, boxOf);
    else for (let at = from; at < to; at++) drawTile(context, view, groups[i].nodes[at], boxOf(at), group.first + at);
  });
}

/** Tiles without content: all of one colour in one path, then the few that have marks. */
function drawSmall(context, view, nodes, first, from, to, boxOf) {
  const { colors, fill, colour, dimmed } = view;
  const paths = new Map(), marked = [];
  for (let at = from; at < to; at++) {
    const node = nodes[at], { x, y, w, h } = boxOf(at);
    const [used, total] = usage(node, fill);
    const color = node.pods.length && colour !== "utilisation" ? dominant(view, node) : used ? colors.use[classOf(total > 0 ? used / total : 0)] : colors.raised;
    const key = dimmed && !dimmed(node) ? colors.raised : color;
    if (!paths.has(key)) paths.set(key, new Path2D());
    paths.get(key).rect(x, y, w, h);
    if (node.flags || !used || first + at === view.focus || node.name === view.selected) marked.push(at);
  }
  for (const [color, path] of paths) { context.fillStyle = color; context.fill(path); }
  for (const at of marked) drawFrame(context, view, nodes[at], boxOf(at), first + at, !usage(nodes[at], fill)[0]);
}

function drawFrame(context, { colors, focus, selected }, node, box, index, outlined) {
  const { x, y, w, h } = box;
  if (outlined) {
    context.strokeStyle = h >= 64 ? colors.other : colors.outline;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  }
  drawMarks(context, colors, node.flags, box);
  context.globalAlpha = 1;
  if (index === focus || node.name === selected) {
    context.strokeStyle = colors.accent;
    context.lineWidth = 3;
    context.strokeRect(x - 1.5, y - 1.5, w + 3, h + 3);
  }
}

function drawHeader(context, { colors, fill, plan }, group, y) {
  let used = 0, total = 0, down = 0;
  for (const node of group.nodes) {
    const [part, whole] = usage(node, fill);
    used += part; total += whole;
    if (node.flags & NOT_READY) down++;
  }
  context.textBaseline = "middle";
  context.fillStyle = colors.text;
  context.font = "600 13px system-ui, sans-serif";
  const name = short(group.name, Math.max(8, Math.floor(plan.width / 14)));
  context.fillText(name, 16, y + HEADER / 2);
  const start = 16 + context.measureText(name).width + 12;
  context.fillStyle = colors.muted;
  context.font = "12px system-ui, sans-serif";
  let text = t("map.group", { nodes: group.nodes.length, percent: percent(used, total), resource: fill });
  if (down) text += ` · ${t("map.notReady", { count: down })}`;
  context.fillText(text, start, y + HEADER / 2);
}

function drawTile(context, view, node, box, index) {
  const { colors, fill, colour, dimmed } = view;
  const { x, y, w, h } = box;
  const [used, total] = usage(node, fill);
  const part = total > 0 ? used / total : 0;
  context.globalAlpha = dimmed && !dimmed(node) ? 0.25 : 1;
  context.fillStyle = h >= 64 ? colors.raised : colors.use[0];
  context.fillRect(x, y, w, h);
  const label = h >= 64 ? 34 : 0;
  if (colour === "utilisation" || h < 24) drawLevel(context, colors, part, x, y + label, w, h - label);
  else drawPods(context, view, node, total, x, y + label, w, h - label);
  if (h >= 64) drawText(context, view, node, box, used, total);
  drawFrame(context, view, node, box, index, true);
}

function drawLevel(context, colors, part, x, y, w, h) {
  const level = part > 0 ? Math.max(2, Math.round(Math.min(1, part) * h)) : 0;
  context.fillStyle = colors.use[Math.max(1, classOf(part))];
  context.fillRect(x, y + h - level, w, level);
  if (part > 1) hatch(context, colors.markIn, x, y, w, h);
}

function drawPods(context, view, node, total, x, y, w, h) {
  let bottom = y + h;
  const at = view.fill === "pods" ? -1 : view.resources.indexOf(view.fill);
  const pods = [...node.pods].sort((a, b) => (view.keyOf(a) < view.keyOf(b) ? -1 : 1));
  const least = Math.min(2, h / 4 / pods.length);  // pods that request nothing are seen, too, but fill no tile
  for (const pod of pods) {
    const size = at < 0 ? 1 : pod.amounts?.[at] ?? 0;
    const height = Math.max(least, total > 0 ? (size / total) * h : 0);
    context.fillStyle = view.colorOf(pod);
    context.fillRect(x, bottom - height, w, height > 2 ? height - 1 : height);
    bottom -= height;
    if (bottom <= y) break;
  }
}

function dominant(view, node) {
  const sums = new Map();
  for (const pod of node.pods) {
    const color = view.colorOf(pod);
    sums.set(color, (sums.get(color) ?? 0) + 1);
  }
  return [...sums].reduce((best, each) => (each[1] > best[1] ? each : best))[0];
}

function drawText(context, view, node, { x, y, w }, used, total) {
  const { colors, fill } = view;
  context.textBaseline = "alphabetic";
  context.fillStyle = colors.text;
  context.font = "600 12px system-ui, sans-serif";
  context.fillText(short(node.name, Math.floor((w - 12) / 7.2)), x + 7, y + 15);
  context.fillStyle = colors.muted;
  context.font = "11px system-ui, sans-serif";
  const free = t("map.free", { amount: amount(fill, Math.max(0, total - used)), resource: fill });
  context.fillText(short(`${free} · ${node.pods.length}`, Math.floor((w - 12) / 5.8)), x + 7, y + 29);
}

function hatch(context, color, x, y, w, h) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  for (let i = -h; i < w; i += 5) { context.moveTo(x + i, y + h); context.lineTo(x + i + h, y); }
  context.stroke();
  context.restore();
}

/** Marks have two tones, so that they are seen on the lightest and on the darkest tile. */
function drawMarks(context, colors, flags, { x, y, w, h }) {
  if (!flags) return;
  const small = Math.min(w, h);
  const inset = Math.max(2, small * 0.15);
  const paths = [];
  const right = x + w, size = Math.min(small, 26);
  const left = h >= 64 ? right - size : x, bottom = h >= 64 ? y + size : y + h;
  if (flags & (NOT_READY | FAILED)) {
    paths.push([left + inset, y + inset, right - inset, bottom - inset], [right - inset, y + inset, left + inset, bottom - inset]);
  } else if (flags & CORDONED) paths.push([left + inset, bottom - inset, right - inset, y + inset]);
  if (flags & NOT_READY) {
    context.strokeStyle = colors.error;
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, w - 2, h - 2);
  }
  for (const [color, width] of [[colors.markOut, 3], [flags & NOT_READY ? colors.error : colors.markIn, 1.4]]) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    for (const [ax, ay, bx, by] of paths) { context.moveTo(ax, ay); context.lineTo(bx, by); }
    context.stroke();
  }
  if (flags & TAINTED) {
    const radius = Math.max(1.6, Math.min(4, small * 0.14));
    context.beginPath();
    context.arc(x + w - radius - 1.5, y + h - radius - 1.5, radius + 1, 0, 7);
    context.fillStyle = colors.markIn;
    context.fill();
    context.beginPath();
    context.arc(x + w - radius - 1.5, y + h - radius - 1.5, radius, 0, 7);
    context.fillStyle = colors.markOut;
    context.fill();
  }
}
