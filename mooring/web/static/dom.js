// Elements from functions. Text reaches the page only as text nodes.

/** Make an element: h("a", {href, class, onclick, style: {width}}, ...children). */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
    if (name === "data-control") element.inert = isOffline();
  }
  add(element, children);
  return element;
}

const isOffline = () => document.documentElement.classList.contains("off");

/** Elements marked data-control change the cluster: without a connection, neither mouse nor keyboard reach them. */
export function setOffline(off) {
  document.documentElement.classList.toggle("off", off);
  for (const each of document.querySelectorAll("[data-control]")) each.inert = off;
}

export const narrow = matchMedia("(max-width: 720px)");

/** A table in a scrolled box: `columns` is [{title, num, class, cell(item)}]. On a phone each row is a card. */
export function table(label, columns, items, rowProps = () => ({})) {
  const kind = (column) => `${column.num ? "num " : ""}${column.class ?? ""}`;
  return h("div", { class: "scroll rows", tabindex: "0", role: "region", "aria-label": label }, h("table", { role: "table", "aria-label": label },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((column) => h("th", { scope: "col", role: "columnheader", class: kind(column) }, column.title)))),
    h("tbody", { role: "rowgroup" }, items.map((item) => h("tr", { role: "row", ...rowProps(item) }, columns.map((column) =>
      h("td", { role: "cell", class: kind(column), "data-label": column.title }, column.cell(item))))))));
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== undefined && child !== null && child !== false) element.append(String(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Call a function at most once per period, and once more at the end of it. */
export function throttled(period, run) {
  let timer = 0, again = false, last = -Infinity;
  const call = () => {
    const now = performance.now();
    if (timer) { again = true; return; }
    if (now - last >= period) { last = now; run(); } else {
      timer = setTimeout(() => { timer = 0; last = performance.now(); run(); if (again) { again = false; } }, period - (now - last));
    }
  };
  call.cancel = () => { clearTimeout(timer); timer = 0; };
  return call;
}

const announcer = () => document.getElementById("announce");
let spoken = 0;

/** Say something to screen readers, at most once per second. */
export const announce = (text) => {
  clearTimeout(spoken);
  spoken = setTimeout(() => { announcer().textContent = text; }, 250);
};
