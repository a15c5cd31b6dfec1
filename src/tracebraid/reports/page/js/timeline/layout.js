// Where tracks stand: a heading of each rank, below it its tracks, each with its lines; ranks and tracks collapse.

/** @typedef {import("tracebraid/timeline/model.js").Model} Model */
/** @typedef {import("tracebraid/timeline/model.js").Line} Line */
/**
 * @typedef {object} Row
 * @property {number} rank
 * @property {number} track its number; -1: the heading of a rank
 * @property {number} top px from the top of all rows
 * @property {number} height px
 * @property {Line[]} lines that are drawn
 * @property {boolean} open
 */
/** @typedef {{ rows: Row[], height: number, tops: Float64Array }} Layout `tops`: of each line of the model; NaN: hidden */
/** @typedef {{ ranks: Set<number>, tracks: Set<number> }} Collapsed */

export const LINE = 18;
export const HEADING = 22;
const GAP = 6;

/**
 * @param {Model} model
 * @param {Collapsed} collapsed
 * @returns {Layout}
 */
export function layoutOf(model, collapsed) {
  /** @type {Row[]} */
  const rows = [];
  const tops = new Float64Array(model.lines.length).fill(NaN);
  const index = new Map(model.lines.map((line, number) => [line, number]));
  let top = 0;
  let rank = NaN;
  model.tracks.forEach((track, number) => {
    if (track.rank !== rank) {
      rank = track.rank;
      rows.push({ rank, track: -1, top, height: HEADING, lines: [], open: !collapsed.ranks.has(rank) });
      top += HEADING;
    }
    if (collapsed.ranks.has(rank)) return;
    const open = !collapsed.tracks.has(number);
    const lines = open ? track.lines : track.lines.slice(0, 1);
    const depth = Math.max(...lines.map((line) => line.level), 0) + 1;
    for (const line of lines) tops[index.get(line) ?? 0] = top + line.level * LINE;
    rows.push({ rank, track: number, top, height: depth * LINE + GAP, lines, open });
    top += depth * LINE + GAP;
  });
  return { rows, height: top, tops };
}

/**
 * The row at a height; undefined: none.
 * @param {Layout} layout
 * @param {number} y px from the top of all rows
 */
export function rowAt(layout, y) {
  let from = 0;
  let to = layout.rows.length - 1;
  while (from < to) {
    const middle = (from + to + 1) >>> 1;
    if (layout.rows[middle].top <= y) from = middle;
    else to = middle - 1;
  }
  const row = layout.rows[from];
  return row !== undefined && y >= row.top && y < row.top + row.height ? row : undefined;
}

/**
 * The line at a height; undefined: none.
 * @param {Layout} layout
 * @param {number} y px from the top of all rows
 */
export function lineAt(layout, y) {
  const row = rowAt(layout, y);
  if (row === undefined) return undefined;
  const level = Math.floor((y - row.top) / LINE);
  return row.lines.find((line) => line.level === level);
}
