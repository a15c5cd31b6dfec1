// Axes and their lines across the plot.
import { add, fitted, textWidth } from "tracebraid/charts/svg.js";
import { decadeText, tickTexts } from "tracebraid/charts/figures.js";

/** @typedef {import("tracebraid/charts/scales.js").Scale} Scale */
/** @typedef {import("tracebraid/charts/figures.js").Unit} Unit */
/** @typedef {{ left: number, top: number, right: number, bottom: number }} Plot px */

/** px between the plot and a tick's text. */
const GAP = 6;

/**
 * @param {Element} svg
 * @param {Scale} scale
 * @param {Plot} plot
 * @param {{ unit: Unit, title?: string, log?: boolean, across?: boolean }} axis across: lines through the plot
 */
export function bottomAxis(svg, scale, plot, axis) {
  const texts = axis.log
    ? scale.ticks.map((tick) => decadeText(tick, axis.unit))
    : tickTexts(scale.ticks, axis.unit);
  let free = -Infinity;
  for (const [index, tick] of scale.ticks.entries()) {
    const x = scale.at(tick);
    if (axis.across) add(svg, "line", { class: "chart-grid", x1: x, x2: x, y1: plot.top, y2: plot.bottom });
    const half = textWidth(texts[index]) / 2;
    const middle = Math.min(Math.max(x, half), plot.right + GAP + 20 - half);
    if (middle - half < free) continue;
    free = middle + half + GAP;
    add(
      svg,
      "text",
      { class: "chart-tick", x: middle, y: plot.bottom + 16, "text-anchor": "middle" },
      texts[index],
    );
  }
  if (axis.title !== undefined) {
    const text = fitted(axis.title, plot.right - plot.left);
    add(svg, "text", { class: "chart-axis", x: plot.right, y: plot.bottom + 33, "text-anchor": "end" }, text);
  }
}

/**
 * @param {Element} svg
 * @param {Scale} scale
 * @param {Plot} plot
 * @param {{ unit: Unit, title?: string, log?: boolean }} axis
 */
export function leftAxis(svg, scale, plot, axis) {
  const texts = leftTexts(scale, axis);
  for (const [index, tick] of scale.ticks.entries()) {
    const y = scale.at(tick);
    add(svg, "line", { class: "chart-grid", x1: plot.left, x2: plot.right, y1: y, y2: y });
    add(
      svg,
      "text",
      { class: "chart-tick", x: plot.left - GAP, y: y + 4, "text-anchor": "end" },
      texts[index],
    );
  }
  if (axis.title !== undefined) {
    add(svg, "text", { class: "chart-axis", x: 0, y: plot.top - 12 }, fitted(axis.title, plot.right));
  }
}

/**
 * @param {Scale} scale
 * @param {{ unit: Unit, log?: boolean }} axis
 */
function leftTexts(scale, axis) {
  return axis.log
    ? scale.ticks.map((tick) => decadeText(tick, axis.unit))
    : tickTexts(scale.ticks, axis.unit);
}

/**
 * px that the texts of a left axis take.
 *
 * @param {Scale} scale
 * @param {{ unit: Unit, log?: boolean }} axis
 */
export function leftWidth(scale, axis) {
  return Math.ceil(Math.max(...leftTexts(scale, axis).map(textWidth), 0)) + GAP + 2;
}
