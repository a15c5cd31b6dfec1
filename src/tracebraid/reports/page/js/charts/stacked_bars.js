// Bars whose parts add up, one for each row.
import { add } from "tracebraid/charts/svg.js";
import { addLegend, colourOf } from "tracebraid/charts/legend.js";
import { figure } from "tracebraid/charts/figures.js";
import { layRows } from "tracebraid/charts/rows.js";
import { numbers, texts } from "tracebraid/charts/columns.js";
import { onStage } from "tracebraid/charts/stage.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {{ unit: import("tracebraid/charts/figures.js").Unit, title: string, series: import("tracebraid/charts/legend.js").Series[] }} Options */

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames `bars`: `label`, and a column for each of `options.series`
 * @param {Options} options
 */
export function draw(drawing, frames, options) {
  const labels = texts(frames.bars.columns.label);
  const series = options.series;
  const columns = series.map((item) => numbers(frames.bars, item.column));
  const ends = labels.map((_, row) => {
    let total = 0;
    return columns.map((column) => total += column[row] || 0);
  });
  const totals = ends.map((parts) => parts[parts.length - 1] ?? 0);
  addLegend(drawing, series);
  onStage(drawing, (stage) => {
    const said = totals.map((total) => figure(total, options.unit));
    const domain = /** @type {[number, number]} */ ([0, Math.max(...totals, 0)]);
    const rows = layRows(stage, labels, domain, { unit: options.unit, title: options.title, endTexts: said });
    const from = (/** @type {number} */ row, /** @type {number} */ part) =>
      rows.scale.at(part === 0 ? 0 : ends[row][part - 1]);
    for (const row of labels.keys()) {
      const y = rows.top(row);
      for (const [part, item] of series.entries()) {
        const width = rows.scale.at(ends[row][part]) - from(row, part);
        if (width <= 0) continue;
        const rect = {
          x: from(row, part),
          y,
          width,
          height: rows.bar,
          style: `fill: ${colourOf(item, part)}`,
        };
        add(stage.svg, "rect", { class: "chart-part", ...rect });
      }
      add(
        stage.svg,
        "text",
        { class: "chart-end", x: rows.scale.at(totals[row]) + 6, y: y + rows.bar - 3 },
        said[row],
      );
    }
    return {
      count: labels.length * series.length,
      find: (x, y) => found(rows, ends, x, y),
      move: (index, key) => moved(index, key, labels.length, series.length),
      mark: (index) => {
        const [row, part] = [Math.floor(index / series.length), index % series.length];
        return {
          x: from(row, part),
          y: rows.top(row),
          width: rows.scale.at(ends[row][part]) - from(row, part),
          height: rows.bar,
          title: labels[row],
          rows: saidOf(row, part, columns, totals, options),
        };
      },
    };
  });
}

/**
 * @param {import("tracebraid/charts/rows.js").Rows} rows
 * @param {number[][]} ends of the parts, by row
 * @param {number} x
 * @param {number} y
 */
function found(rows, ends, x, y) {
  const row = Math.floor((y - rows.plot.top) / rows.pitch);
  if (!(row in ends) || x < rows.plot.left) return -1;
  const part = ends[row].findIndex((end) => rows.scale.at(end) >= x);
  return part < 0 ? -1 : row * ends[row].length + part;
}

/**
 * Left and right go through the parts of a row, up and down through the rows.
 *
 * @param {number} index
 * @param {string} key
 * @param {number} rows
 * @param {number} parts
 */
function moved(index, key, rows, parts) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -parts, ArrowDown: parts }[key] ?? 0;
  const to = index + step;
  return to >= 0 && to < rows * parts ? to : index;
}

/**
 * @param {number} row
 * @param {number} active part
 * @param {Float64Array[]} columns
 * @param {number[]} totals
 * @param {Options} options
 * @returns {[string, string][]}
 */
function saidOf(row, active, columns, totals, options) {
  const line = (/** @type {number} */ part) => {
    const value = columns[part][row];
    const share = totals[row] > 0 && value > 0 ? ` (${figure(value / totals[row], "share")})` : "";
    return /** @type {[string, string]} */ ([
      `${part === active ? "▸ " : ""}${options.series[part].name}`,
      figure(value, options.unit) + share,
    ]);
  };
  return [...columns.keys()].map(line).concat([["all", figure(totals[row], options.unit)]]);
}
