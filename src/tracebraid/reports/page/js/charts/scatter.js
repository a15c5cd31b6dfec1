// Points on two logarithmic axes, with curves to compare them with where there are some.
import { add, fitted, textWidth } from "tracebraid/charts/svg.js";
import { addLegend, colourOf } from "tracebraid/charts/legend.js";
import { bottomAxis, leftAxis, leftWidth } from "tracebraid/charts/axes.js";
import { drawCurves } from "tracebraid/charts/curves.js";
import { extent, logarithmic } from "tracebraid/charts/scales.js";
import { figure } from "tracebraid/charts/figures.js";
import { numbers, texts } from "tracebraid/charts/columns.js";
import { onStage } from "tracebraid/charts/stage.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/charts/figures.js").Unit} Unit */
/**
 * @typedef {object} Options
 * @property {Unit} x_unit
 * @property {string} x_title
 * @property {Unit} unit
 * @property {string} title
 * @property {Unit} size_unit
 * @property {string} size_title what the area of a point stands for
 * @property {{ column: string, name: string, colour?: string }[]} series their `column` is a value of `series`
 */

/** px: height of the plot, what stands above and below, least and most radius. */
const [HEIGHT, LOW_HEIGHT, ABOVE, BELOW, LEAST, MOST] = [380, 280, 24, 40, 3, 17];
const NARROW = 560;
/** Points that have their name beside them, if there is room; px of a name. */
const [NAMED, NAME] = [8, 130];

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames `points`: `x`, `y`, `size`, `series`, `label`, `note`, the largest first; and
 *   `curves`: `name`, `x`, `y` and the `series` of which it has the colour
 * @param {Options} options
 */
export function draw(drawing, frames, options) {
  const points = {
    x: numbers(frames.points, "x"),
    y: numbers(frames.points, "y"),
    size: numbers(frames.points, "size"),
    series: texts(frames.points.columns.series),
    label: texts(frames.points.columns.label),
    note: texts(frames.points.columns.note),
  };
  const most = Math.max(...points.size, 1);
  const radius = (/** @type {number} */ point) =>
    LEAST + (MOST - LEAST) * Math.sqrt((points.size[point] || 0) / most);
  const order = [...points.x.keys()].sort((a, b) => points.x[a] - points.x[b] || points.y[a] - points.y[b]);
  const shown = options.series.filter((series) => points.series.includes(series.column));
  addLegend(drawing, shown);
  onStage(drawing, (stage) => {
    const axes = laid(stage, points, frames.curves, options);
    drawCurves(stage.svg, axes, frames.curves, options.series);
    for (const point of points.x.keys()) {
      const index = options.series.findIndex((series) => series.column === points.series[point]);
      const style = `fill: ${colourOf(options.series[Math.max(index, 0)] ?? {}, Math.max(index, 0))}`;
      const at = { cx: axes.x.at(points.x[point]), cy: axes.y.at(points.y[point]) };
      add(stage.svg, "circle", { class: "chart-point", ...at, r: radius(point), style });
    }
    nameLargest(stage.svg, axes, points, radius);
    const mark = (/** @type {number} */ index) => {
      const point = order[index];
      const r = radius(point);
      return {
        x: axes.x.at(points.x[point]) - r,
        y: axes.y.at(points.y[point]) - r,
        width: 2 * r,
        height: 2 * r,
        title: points.label[point],
        rows: said(points, point, options),
      };
    };
    return { count: order.length, mark, find: (x, y) => under(order.length, mark, x, y) };
  });
}

/**
 * @param {import("tracebraid/charts/stage.js").Stage} stage
 * @param {{ x: Float64Array, y: Float64Array }} points
 * @param {Frame} curves
 * @param {Options} options
 */
function laid(stage, points, curves, options) {
  const height = stage.width < NARROW ? LOW_HEIGHT : HEIGHT;
  const [top, bottom] = [ABOVE, ABOVE + height];
  stage.setHeight(bottom + BELOW);
  const y = logarithmic(extent([points.y, numbers(curves, "y")]), [bottom, top], 9);
  const axis = { unit: options.unit, log: true, title: options.title };
  const plot = { left: leftWidth(y, axis), top, right: stage.width - 22, bottom };
  const count = Math.max(3, (plot.right - plot.left) / 60);
  const x = logarithmic(extent([points.x, numbers(curves, "x")]), [plot.left, plot.right], count);
  leftAxis(stage.svg, y, plot, axis);
  bottomAxis(stage.svg, x, plot, { unit: options.x_unit, log: true, title: options.x_title, across: true });
  return { plot, x, y };
}

/**
 * The names of the largest, where they cross no other name.
 *
 * @param {Element} svg
 * @param {import("tracebraid/charts/plot.js").Axes} axes
 * @param {{ x: Float64Array, y: Float64Array, label: string[] }} points
 * @param {(point: number) => number} radius
 */
function nameLargest(svg, axes, points, radius) {
  /** @type {{ x: number, y: number, width: number }[]} */
  const taken = [];
  for (let point = 0; point < Math.min(NAMED, points.label.length); point++) {
    const text = fitted(points.label[point], NAME);
    const width = textWidth(text);
    const [px, y] = [axes.x.at(points.x[point]), axes.y.at(points.y[point]) + 4];
    const right = px + radius(point) + 4;
    const x = right + width < axes.plot.right ? right : px - radius(point) - 4 - width;
    const crosses = taken.some((t) => Math.abs(t.y - y) < 14 && x < t.x + t.width + 4 && t.x < x + width + 4);
    if (crosses || x < axes.plot.left) continue;
    taken.push({ x, y, width });
    add(svg, "text", { class: "chart-name", x, y }, text);
  }
}

/**
 * The smallest mark at a point: it lies on top.
 *
 * @param {number} count
 * @param {(index: number) => import("tracebraid/charts/explore.js").Mark} mark
 * @param {number} x
 * @param {number} y
 */
function under(count, mark, x, y) {
  let [found, least] = [-1, Infinity];
  for (let index = 0; index < count; index++) {
    const at = mark(index);
    const inside = x >= at.x - 2 && x <= at.x + at.width + 2 && y >= at.y - 2 && y <= at.y + at.height + 2;
    if (inside && at.width < least) [found, least] = [index, at.width];
  }
  return found;
}

/**
 * @param {{ x: Float64Array, y: Float64Array, size: Float64Array, note: string[] }} points
 * @param {number} point
 * @param {Options} options
 * @returns {[string, string][]}
 */
function said(points, point, options) {
  return [
    [options.x_title, figure(points.x[point], options.x_unit)],
    [options.title, figure(points.y[point], options.unit)],
    [options.size_title, figure(points.size[point], options.size_unit)],
    ["", points.note[point]],
  ];
}
