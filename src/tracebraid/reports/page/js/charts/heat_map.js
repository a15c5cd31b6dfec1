// A grid of cells, the darker (on a dark page the brighter) the more.
import { add, box, fitted, textWidth } from "tracebraid/charts/svg.js";
import { extent } from "tracebraid/charts/scales.js";
import { figure } from "tracebraid/charts/figures.js";
import { numbers } from "tracebraid/charts/columns.js";
import { onStage } from "tracebraid/charts/stage.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/**
 * @typedef {object} Options
 * @property {import("tracebraid/charts/figures.js").Unit} unit
 * @property {string[]} x_labels
 * @property {string[]} y_labels
 * @property {string} x_title
 * @property {string} y_title
 * @property {string} value_title
 * @property {boolean} [from_zero] whether colours begin at 0, not at the least value
 */
/** @typedef {{ left: number, top: number, wide: number, high: number }} Grid px */

/** px of a cell: least and most height, most width. */
const [LOW, HIGH, WIDE] = [9, 24, 90];
/** px of all rows together, as far as `LOW` allows. */
const HEIGHT = 520;
/** Colours of the ramp. */
const STOPS = 7;
/** Share of the width that row labels take at most. */
const LABEL_SHARE = 0.3;
/** px of the labels of columns and of their title. */
const [HEAD, TITLE] = [18, 18];

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames `cells`: `x`, `y` (from 0) and `value`
 * @param {Options} options
 */
export function draw(drawing, frames, options) {
  const [xs, ys] = [numbers(frames.cells, "x"), numbers(frames.cells, "y")];
  const values = numbers(frames.cells, "value");
  const [columns, rows] = [options.x_labels.length, options.y_labels.length];
  const grid = new Float64Array(columns * rows).fill(NaN);
  for (let cell = 0; cell < values.length; cell++) grid[ys[cell] * columns + xs[cell]] = values[cell];
  const [least, most] = extent([values], options.from_zero ? 0 : undefined);
  addKey(drawing, least, most, options);
  onStage(drawing, (stage) => {
    const field = laid(stage, options);
    for (const [index, value] of grid.entries()) {
      const cell = rectOf(field, index, columns);
      const inset = field.wide > 6 && field.high > 6 ? 1 : 0;
      const rect = { x: cell.x, y: cell.y, width: cell.width - inset, height: cell.height - inset };
      if (!Number.isFinite(value)) add(stage.svg, "rect", { class: "chart-no-cell", ...rect });
      else {add(stage.svg, "rect", {
          ...rect,
          style: `fill: ${heat(most > least ? (value - least) / (most - least) : 0)}`,
        });}
    }
    return {
      count: grid.length,
      find: (x, y) => {
        const [column, row] = [
          Math.floor((x - field.left) / field.wide),
          Math.floor((y - field.top) / field.high),
        ];
        return column >= 0 && column < columns && row >= 0 && row < rows ? row * columns + column : -1;
      },
      move: (index, key) => moved(index, key, columns, rows),
      mark: (index) => {
        const [row, column] = [Math.floor(index / columns), index % columns];
        return {
          ...rectOf(field, index, columns),
          title: `${options.y_title} ${options.y_labels[row]}`,
          rows: [[options.x_title, options.x_labels[column]], [
            options.value_title,
            Number.isFinite(grid[index]) ? figure(grid[index], options.unit) : "none",
          ]],
        };
      },
    };
  });
}

/**
 * Where cells are; draws the labels of rows and columns.
 *
 * @param {import("tracebraid/charts/stage.js").Stage} stage
 * @param {Options} options
 * @returns {Grid}
 */
function laid(stage, options) {
  const [columns, rows] = [options.x_labels.length, options.y_labels.length];
  const longest = Math.max(...options.y_labels.map((label) => textWidth(label.slice(0, 200))), 0);
  const labels = Math.min(longest, stage.width * LABEL_SHARE);
  const left = Math.ceil(Math.max(labels, Math.min(textWidth(options.y_title), stage.width * LABEL_SHARE))) +
    9;
  const high = Math.min(Math.max(HEIGHT / rows, LOW), HIGH);
  const field = { left, top: TITLE + HEAD, wide: Math.min((stage.width - left - 2) / columns, WIDE), high };
  stage.setHeight(field.top + rows * high + 4);
  const title = { class: "chart-axis", x: left, y: 12 };
  add(stage.svg, "text", title, fitted(options.x_title, stage.width - left));
  add(
    stage.svg,
    "text",
    { class: "chart-axis", x: left - 8, y: TITLE + 13, "text-anchor": "end" },
    fitted(options.y_title, left - 9),
  );
  const every = Math.max(1, Math.ceil(13 / high));
  for (let row = 0; row < rows; row += every) {
    const at = { x: left - 8, y: field.top + (row + 0.5) * high + 4, "text-anchor": "end" };
    add(stage.svg, "text", { class: "chart-label", ...at }, fitted(options.y_labels[row], left - 9));
  }
  let free = -Infinity;
  for (const [column, label] of options.x_labels.entries()) {
    const text = fitted(label, Math.max(field.wide - 4, 60));
    const [x, half] = [left + (column + 0.5) * field.wide, textWidth(text) / 2];
    if (x - half < free || (column > 0 && x + half > stage.width)) continue;
    free = x + half + 8;
    add(stage.svg, "text", {
      class: "chart-tick",
      x: Math.max(x, half),
      y: TITLE + 13,
      "text-anchor": "middle",
    }, text);
  }
  return field;
}

/**
 * @param {Grid} field
 * @param {number} index
 * @param {number} columns
 */
function rectOf(field, index, columns) {
  const [row, column] = [Math.floor(index / columns), index % columns];
  const [x, y] = [field.left + column * field.wide, field.top + row * field.high];
  return { x, y, width: field.wide, height: field.high };
}

/** @param {number} share of the range, 0 to 1 */
function heat(share) {
  const at = Math.round(share * (STOPS - 1) * 100) / 100;
  const stop = Math.min(Math.floor(at), STOPS - 2);
  const percent = Math.round((at - stop) * 100);
  return `color-mix(in oklab, var(--ramp-${stop + 1}) ${percent}%, var(--ramp-${stop}))`;
}

/**
 * @param {number} index
 * @param {string} key
 * @param {number} columns
 * @param {number} rows
 */
function moved(index, key, columns, rows) {
  const [row, column] = [Math.floor(index / columns), index % columns];
  const down = { ArrowUp: -1, ArrowDown: 1 }[key] ?? 0;
  const right = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0;
  const [y, x] = [row + down, column + right];
  return y >= 0 && y < rows && x >= 0 && x < columns ? y * columns + x : index;
}

/**
 * The key of the colours.
 *
 * @param {HTMLElement} drawing
 * @param {number} least
 * @param {number} most
 * @param {Options} options
 */
function addKey(drawing, least, most, options) {
  const key = box(drawing, "chart-legend");
  box(key, "chart-legend-name", options.value_title);
  box(key, "chart-legend-name", figure(least, options.unit));
  if (most > least) {
    box(key, "chart-heat");
    box(key, "chart-legend-name", figure(most, options.unit));
  }
}
