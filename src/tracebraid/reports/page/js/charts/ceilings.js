// The roofline: what a device reaches at best, by its memory's bandwidth and by its FLOP/s.
import { add, textWidth } from "tracebraid/charts/svg.js";
import { figure } from "tracebraid/charts/figures.js";
import { numbers, texts } from "tracebraid/charts/columns.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */

/**
 * Where slopes meet flats: what the axes have to hold.
 *
 * @param {Frame | undefined} ceilings
 */
export function reachOf(ceilings) {
  if (ceilings === undefined) return { x: [], y: [] };
  const peaks = Array.from(numbers(ceilings, "flops_per_s"));
  const bandwidths = numbers(ceilings, "bytes_per_s");
  return { x: peaks.map((peak, row) => (2 * peak) / bandwidths[row]), y: peaks };
}

/**
 * @param {Element} svg
 * @param {import("tracebraid/charts/plot.js").Axes} axes
 * @param {Frame | undefined} ceilings
 * @param {import("tracebraid/charts/figures.js").Unit} unit
 */
export function drawCeilings(svg, axes, ceilings, unit) {
  if (ceilings === undefined) return;
  const { plot, x, y } = axes;
  const names = texts(ceilings.columns.name);
  const bandwidths = numbers(ceilings, "bytes_per_s");
  let lowest = -Infinity;
  for (const [row, peak] of numbers(ceilings, "flops_per_s").entries()) {
    const bandwidth = bandwidths[row];
    const start = Math.max(x.value(plot.left), y.value(plot.bottom) / bandwidth);
    const ridge = Math.min(peak / bandwidth, x.value(plot.right));
    const path = `M${x.at(start)} ${y.at(start * bandwidth)}L${x.at(ridge)} ${
      y.at(ridge * bandwidth)
    }H${plot.right}`;
    add(svg, "path", { class: "chart-ceiling", d: path });
    const text = `${names[row]}: ${figure(peak, unit)}`;
    const at = y.at(peak) - 5;
    if (at - lowest < 14 || x.at(ridge) + textWidth(text) > plot.right) continue;
    lowest = at;
    add(svg, "text", { class: "chart-name", x: plot.right, y: at, "text-anchor": "end" }, text);
  }
}
