// Curves that points are compared with: ceilings of a device, fits.
import { add, fitted, textWidth } from "tracebraid/charts/svg.js";
import { colourOf } from "tracebraid/charts/legend.js";
import { numbers, texts } from "tracebraid/charts/columns.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */

/** px between the lines of names. */
const LINE = 15;

/**
 * Each name's rows are a curve; the name stands at its end, a curve of a series has its colour and is dashed.
 *
 * @param {Element} svg
 * @param {import("tracebraid/charts/plot.js").Axes} axes
 * @param {Frame} curves `name`, `x`, `y`, `series`
 * @param {{ column: string, colour?: string }[]} series
 */
export function drawCurves(svg, axes, curves, series) {
  const [names, kinds] = [texts(curves.columns.name), texts(curves.columns.series)];
  const [xs, ys] = [numbers(curves, "x"), numbers(curves, "y")];
  let lowest = -Infinity;
  for (let first = 0, next = 0; first < curves.rows; first = next) {
    let path = "";
    for (
      next = first;
      next < curves.rows && names[next] === names[first] && kinds[next] === kinds[first];
      next++
    ) {
      path += `${next === first ? "M" : "L"}${axes.x.at(xs[next])} ${axes.y.at(ys[next])}`;
    }
    const index = series.findIndex((item) => item.column === kinds[first]);
    /** @type {Record<string, string>} */
    const fit = index < 0
      ? {}
      : { style: `stroke: ${colourOf(series[index], index)}`, "stroke-dasharray": "5 4" };
    add(svg, "path", { class: "chart-ceiling", d: path, ...fit });
    const text = fitted(names[first], axes.plot.right - axes.plot.left);
    const y = axes.y.at(ys[next - 1]) - 5;
    if (names[first] === "" || y - lowest < LINE) continue;
    lowest = y;
    const x = Math.max(axes.plot.right, axes.plot.left + textWidth(text));
    add(svg, "text", { class: "chart-name", x, y, "text-anchor": "end" }, text);
  }
}
