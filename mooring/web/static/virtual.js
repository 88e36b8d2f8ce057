// A table of which only the visible rows are in the document.

import { h, narrow } from "./dom.js";

const LINE = 32, CARD = 104, AROUND = 12;  // pixels; on a phone each row is a card

/** Make a table: `columns` is [{title, key, num, cell(item), sort(item)}]. `show(items)` sets the rows. */
export function virtualTable({ columns, label, caption, sortBy, onsort, rowClass }) {
  const body = h("tbody");
  const heads = columns.map((column) => {
    const title = column.sort
      ? h("button", { onclick: () => onsort?.(column.key) }, column.title)
      : column.title;
    return h("th", { scope: "col", class: `${column.num ? "num " : ""}${column.class ?? ""}` }, title);
  });
  const table = h("table", { role: "table", "aria-label": label }, caption && h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, heads)), body);
  const box = h("div", { class: "scroll virtual", tabindex: "0", role: "region", "aria-label": label }, table);
  let items = [];

  function paint() {
    const ROW = narrow.matches ? CARD : LINE;
    const height = box.clientHeight || 600;
    const from = Math.max(0, Math.floor(box.scrollTop / ROW) - AROUND);
    const to = Math.min(items.length, from + Math.ceil(height / ROW) + 2 * AROUND);
    const rows = items.slice(from, to).map((item) =>
      h("tr", { role: "row", class: rowClass?.(item), style: { height: `${ROW}px` } }, columns.map((column) =>
        h("td", { role: "cell", "data-label": column.title, class: `${column.num ? "num " : ""}${column.class ?? ""}` }, column.cell(item)))));
    body.replaceChildren(spacer(from * ROW), ...rows, spacer((items.length - to) * ROW));
  }

  const spacer = (height) => h("tr", { "aria-hidden": "true", class: "space", hidden: !height, style: { height: `${height}px` } },
    h("td", { colspan: columns.length, style: { padding: "0", border: "0" } }));

  narrow.addEventListener("change", paint);
  box.addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
  return {
    element: box,
    show(list, sort) {
      items = list;
      table.setAttribute("aria-rowcount", list.length + 1);
      columns.forEach((column, i) => {
        if (column.sort) heads[i].setAttribute("aria-sort", sort?.key === column.key ? (sort.down ? "descending" : "ascending") : "none");
      });
      paint();
    },
  };
}
