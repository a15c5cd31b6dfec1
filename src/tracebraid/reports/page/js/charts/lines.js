// Lines over time, or over ranks, with the range around them where there is one.
import { add } from "tracebraid/charts/svg.js";
import { addLegend, colourOf } from "tracebraid/charts/legend.js";
import { areaPath, linePath } from "tracebraid/charts/paths.js";
import { extent } from "tracebraid/charts/scales.js";
import { layPlot, momentMarks } from "tracebraid/charts/plot.js";
import { numbers } from "tracebraid/charts/columns.js";
import { onStage } from "tracebraid/charts/stage.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames `lines`: `options.x`, and the columns of each of `options.series`
 * @param {import("tracebraid/charts/plot.js").Options} options
 */
export function draw(drawing, frames, options) {
  const frame = frames.lines;
  const names = options.series.flatMap(({ column, low, high }) => [column, low, high]).filter((name) =>
    name !== undefined
  );
  const domain = extent(names.map((name) => numbers(frame, name)), 0);
  if (options.series.length > 1) addLegend(drawing, options.series);
  onStage(drawing, (stage) => {
    const axes = layPlot(stage, frame, options, domain);
    const xs = numbers(frame, options.x);
    const steps = options.steps === true;
    for (const [index, series] of options.series.entries()) {
      const colour = colourOf(series, index);
      if (series.low !== undefined && series.high !== undefined) {
        const path = areaPath(axes, xs, numbers(frame, series.low), numbers(frame, series.high), steps);
        add(stage.svg, "path", { class: "chart-band", d: path, style: `fill: ${colour}` });
      }
      const path = linePath(axes, xs, numbers(frame, series.column), steps);
      add(stage.svg, "path", { class: "chart-curve", d: path, style: `stroke: ${colour}` });
    }
    return momentMarks(frame, options, axes);
  });
}
