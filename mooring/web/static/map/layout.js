// Where tiles are: pure functions of numbers.

export const SIZES = [10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144];
export const HEADER = 28;
const PAD = 16, BELOW = 14;

/** The least width of a tile: those with names are wider than high. */
const leastWidth = (size) => (size >= 64 ? Math.round(size * 1.7) : size);
const gapOf = (size) => (size >= 64 ? 8 : size >= 24 ? 4 : 2);

/** Lay out groups of so many tiles: [{top, first, count, columns}], and the height of it all. */
export function layout(counts, width, size) {
  const gap = gapOf(size), room = width - 2 * PAD + gap;
  let columns = Math.max(1, Math.floor(room / (leastWidth(size) + gap))), tile = leastWidth(size);
  if (size >= 64) {  // few tiles share the width of the row
    columns = Math.min(columns, Math.max(1, ...counts));
    tile = Math.min(3 * size, Math.floor(room / columns) - gap);
  }
  const step = tile + gap;
  const groups = [];
  let top = 0, first = 0;
  for (const count of counts) {
    groups.push({ top, first, count, columns });
    top += HEADER + Math.ceil(count / columns) * (size + gap) + BELOW;
    first += count;
  }
  return { groups, size, tile, gap, step, columns, width, height: top, total: first };
}

/** The largest size at which everything fits, or the smallest. */
export function fittingSize(counts, width, height) {
  for (let i = SIZES.length - 1; i > 0; i--) {
    if (layout(counts, width, SIZES[i]).height <= height) return SIZES[i];
  }
  return SIZES[0];
}

/** The rectangle of a tile in a group. */
export function place(plan, group, at) {
  const column = at % group.columns, row = Math.floor(at / group.columns);
  return {
    x: PAD + column * plan.step, y: group.top + HEADER + row * (plan.size + plan.gap),
    w: plan.tile, h: plan.size,
  };
}

/** The number of the tile at a point; -1 if there is none. */
export function hit(plan, x, y) {
  const group = plan.groups.findLast((each) => each.top <= y);
  if (!group || y < group.top + HEADER || x < PAD) return -1;
  const column = Math.floor((x - PAD) / plan.step);
  const row = Math.floor((y - group.top - HEADER) / (plan.size + plan.gap));
  const at = row * group.columns + column;
  return column < group.columns && at < group.count ? group.first + at : -1;
}

export const groupOf = (plan, index) => plan.groups.findLast((each) => each.first <= index && each.count > 0);
