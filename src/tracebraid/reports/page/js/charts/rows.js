// Horizontal bars in rows: their labels beside them, or above them where the page is narrow.
import { add, fitted, textWidth } from "tracebraid/charts/svg.js";
import { bottomAxis } from "tracebraid/charts/axes.js";
import { linear } from "tracebraid/charts/scales.js";

/** @typedef {import("tracebraid/charts/axes.js").Plot} Plot */
/** @typedef {import("tracebraid/charts/figures.js").Unit} Unit */
/** @typedef {import("tracebraid/charts/scales.js").Scale} Scale */
/** @typedef {{ plot: Plot, scale: Scale, top: (row: number) => number, bar: number, pitch: number }} Rows px */

/** px: height of a bar, of a row, of the line of a label above it. */
const [BAR, PITCH, LABEL] = [15, 23, 16];
/** Share of the width that labels beside the bars take at most. */
const LABEL_SHARE = 0.36;
/** px below which longer labels stand above. */
const NARROW = 560;
/** px of the axis, and of its title. */
const [AXIS, TITLE] = [22, 18];

/**
 * Lays out rows, and draws their labels and axis.
 *
 * @param {import("tracebraid/charts/stage.js").Stage} stage
 * @param {string[]} labels
 * @param {[number, number]} domain
 * @param {{ unit: Unit, title?: string, endTexts?: string[] }} axis endTexts: figures behind the bars
 * @returns {Rows}
 */
export function layRows(stage, labels, domain, axis) {
  const longest = Math.max(...labels.map((label) => textWidth(label.slice(0, 200))), 0);
  const above = stage.width < NARROW && longest > stage.width * 0.2;
  const left = above || longest === 0 ? 1 : Math.ceil(Math.min(longest, stage.width * LABEL_SHARE)) + 9;
  const ends = axis.endTexts === undefined ? 0 : Math.max(...axis.endTexts.map(textWidth), 0) + 8;
  const pitch = above ? PITCH + LABEL : PITCH;
  const bottom = 4 + labels.length * pitch;
  const plot = { left, top: 2, right: stage.width - Math.max(ends, 20), bottom };
  stage.setHeight(bottom + AXIS + (axis.title === undefined ? 0 : TITLE));
  const scale = linear(domain, [plot.left, plot.right], { count: Math.max(2, (plot.right - left) / 110) });
  bottomAxis(stage.svg, scale, plot, { unit: axis.unit, title: axis.title, across: true });
  const top = (/** @type {number} */ row) => 4 + row * pitch + (above ? LABEL : (PITCH - BAR) / 2 - 2);
  for (const [row, label] of labels.entries()) {
    const anchor = above
      ? { x: left, y: top(row) - 4, "text-anchor": "start" }
      : { x: left - 8, y: top(row) + BAR - 3, "text-anchor": "end" };
    add(stage.svg, "text", { class: "chart-label", ...anchor }, fitted(label, above ? plot.right : left - 9));
  }
  return { plot, scale, top, bar: BAR, pitch };
}

/**
 * The row at a height; -1: none.
 *
 * @param {Rows} rows
 * @param {number} count
 * @param {number} y px
 */
export function rowAt(rows, count, y) {
  const row = Math.floor((y - rows.plot.top) / rows.pitch);
  return row >= 0 && row < count ? row : -1;
}
