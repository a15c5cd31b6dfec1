// Areas on top of each other over time, which add up.
import { add } from "tracebraid/charts/svg.js";
import { addLegend, colourOf } from "tracebraid/charts/legend.js";
import { areaPath, linePath } from "tracebraid/charts/paths.js";
import { extent } from "tracebraid/charts/scales.js";
import { layPlot, momentMarks } from "tracebraid/charts/plot.js";
import { numbers } from "tracebraid/charts/columns.js";
import { onStage } from "tracebraid/charts/stage.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/charts/plot.js").Options & { lines?: import("tracebraid/charts/legend.js").Series[] }} Options */

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames `areas`: `options.x`, and the columns of `options.series` and `options.lines`
 * @param {Options} options lines: drawn above the areas, not stacked
 */
export function draw(drawing, frames, options) {
  const frame = frames.areas;
  const xs = numbers(frame, options.x);
  const lines = options.lines ?? [];
  const tops = stacked(frame, options);
  const domain = extent([...tops.slice(-1), ...lines.map((line) => numbers(frame, line.column))], 0);
  const steps = options.steps === true;
  addLegend(drawing, [...options.series, ...lines]);
  onStage(drawing, (stage) => {
    const axes = layPlot(stage, frame, options, domain);
    for (const [index, series] of options.series.entries()) {
      const path = areaPath(
        axes,
        xs,
        index === 0 ? new Float64Array(frame.rows) : tops[index - 1],
        tops[index],
        steps,
      );
      add(stage.svg, "path", { class: "chart-area", d: path, style: `fill: ${colourOf(series, index)}` });
    }
    for (const [index, line] of lines.entries()) {
      const path = linePath(axes, xs, numbers(frame, line.column), steps);
      const style = `stroke: ${colourOf(line, options.series.length + index)}`;
      add(stage.svg, "path", { class: "chart-curve", d: path, style });
    }
    return momentMarks(frame, { ...options, series: [...options.series, ...lines] }, axes);
  });
}

/**
 * The upper edge of each area.
 *
 * @param {Frame} frame
 * @param {Options} options
 */
function stacked(frame, options) {
  const sum = new Float64Array(frame.rows);
  return options.series.map(({ column }) => {
    for (const [row, value] of numbers(frame, column).entries()) sum[row] += value || 0;
    return sum.slice();
  });
}
