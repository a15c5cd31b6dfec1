// A plot with values upwards and a scale along the bottom, and the marks at each of its moments.
import { bottomAxis, leftAxis, leftWidth } from "tracebraid/charts/axes.js";
import { extent, linear } from "tracebraid/charts/scales.js";
import { figure } from "tracebraid/charts/figures.js";
import { numbers } from "tracebraid/charts/columns.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/charts/axes.js").Plot} Plot */
/** @typedef {import("tracebraid/charts/scales.js").Scale} Scale */
/** @typedef {import("tracebraid/charts/figures.js").Unit} Unit */
/** @typedef {import("tracebraid/charts/legend.js").Series & { low?: string, high?: string }} Series */
/**
 * @typedef {object} Options
 * @property {string} x its column; values rise
 * @property {Unit} x_unit
 * @property {string} x_title
 * @property {Unit} unit
 * @property {string} title of the values
 * @property {Series[]} series each with its column, and those of the range around it
 * @property {boolean} [steps] a value holds until the next
 * @property {string} [x_to] column with the last value of x that a row stands for
 */
/** @typedef {{ plot: Plot, x: Scale, y: Scale }} Axes */

/** px: height of the plot, of what stands above and below. */
const [HEIGHT, LOW_HEIGHT, ABOVE, BELOW] = [260, 200, 24, 40];
/** px of the page below which the plot is lower. */
const NARROW = 560;

/**
 * Lays out a plot, and draws its axes.
 *
 * @param {import("tracebraid/charts/stage.js").Stage} stage
 * @param {Frame} frame
 * @param {Options} options
 * @param {[number, number]} domain of the values
 * @returns {Axes}
 */
export function layPlot(stage, frame, options, domain) {
  const height = stage.width < NARROW ? LOW_HEIGHT : HEIGHT;
  const [top, bottom] = [ABOVE, ABOVE + height];
  stage.setHeight(bottom + BELOW);
  const y = linear(domain, [bottom, top], {
    count: height / 52,
    widen: true,
    whole: options.unit === "count",
  });
  const plot = { left: leftWidth(y, options), top, right: stage.width - 22, bottom };
  const whole = options.x_unit === "rank" || options.x_unit === "count";
  const count = Math.max(2, (plot.right - plot.left) / 100);
  const values = [numbers(frame, options.x)];
  if (options.x_to !== undefined) values.push(numbers(frame, options.x_to));
  const x = linear(extent(values), [plot.left, plot.right], { count, whole });
  leftAxis(stage.svg, y, plot, { unit: options.unit, title: options.title });
  bottomAxis(stage.svg, x, plot, { unit: options.x_unit, title: options.x_title });
  return { plot, x, y };
}

/**
 * A mark for each row: what all series are there.
 *
 * @param {Frame} frame
 * @param {Options} options
 * @param {Axes} axes
 * @returns {import("tracebraid/charts/explore.js").Marks}
 */
export function momentMarks(frame, options, axes) {
  const xs = numbers(frame, options.x);
  const to = options.x_to === undefined ? undefined : numbers(frame, options.x_to);
  const at = (/** @type {number} */ row) => axes.x.at(to === undefined ? xs[row] : (xs[row] + to[row]) / 2);
  const { top, bottom } = axes.plot;
  return {
    count: frame.rows,
    find: (px) => nearest(frame.rows, at, px, options.steps === true),
    mark: (row) => {
      const text = figure(xs[row], options.x_unit);
      const range = to !== undefined && to[row] > xs[row]
        ? `${text} to ${figure(to[row], options.x_unit)}`
        : text;
      return {
        x: at(row) - 0.5,
        y: top,
        width: 1,
        height: bottom - top,
        title: `${options.x_title} ${range}`,
        rows: options.series.flatMap((series) => saidOf(frame, series, row, options)),
      };
    },
  };
}

/**
 * The row nearest to a px; with steps the last before it.
 *
 * @param {number} rows
 * @param {(row: number) => number} at px of a row, rising
 * @param {number} px
 * @param {boolean} steps
 */
function nearest(rows, at, px, steps) {
  let [low, high] = [0, rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) <= px) low = middle + 1;
    else high = middle;
  }
  const before = Math.max(low - 1, 0);
  if (rows === 0) return -1;
  return !steps && low < rows && at(low) - px < px - at(before) ? low : before;
}

/**
 * @param {Frame} frame
 * @param {Series} series
 * @param {number} row
 * @param {Options} options
 * @returns {[string, string][]}
 */
function saidOf(frame, series, row, options) {
  const value = numbers(frame, series.column)[row];
  /** @type {[string, string][]} */
  const rows = [[series.name, figure(value, options.unit)]];
  if (series.low !== undefined && series.high !== undefined) {
    const [low, high] = [numbers(frame, series.low)[row], numbers(frame, series.high)[row]];
    if (high > low) rows.push(["from, to", `${figure(low, options.unit)}, ${figure(high, options.unit)}`]);
  }
  return rows;
}
