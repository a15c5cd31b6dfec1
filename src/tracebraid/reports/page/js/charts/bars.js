// Bars, one for each row, with the range around their values where there is one.
import { add } from "tracebraid/charts/svg.js";
import { addLegend } from "tracebraid/charts/legend.js";
import { figure } from "tracebraid/charts/figures.js";
import { extent } from "tracebraid/charts/scales.js";
import { layRows, rowAt } from "tracebraid/charts/rows.js";
import { onStage } from "tracebraid/charts/stage.js";
import { texts } from "tracebraid/charts/columns.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/charts/figures.js").Unit} Unit */
/**
 * @typedef {object} Options
 * @property {Unit} unit
 * @property {string} title of the axis
 * @property {string} [colour] a custom property without its `--`
 * @property {string} [strong] the colour of rows whose column `strong` is 1
 * @property {string} [colour_name] what the two colours mean
 * @property {string} [strong_name]
 * @property {string} [range] what `low` and `high` are
 * @property {number} [limit] a value to compare with, drawn across
 * @property {string} [limit_name]
 */

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames `bars`: `label`, `value`, and `low`, `high`, `strong`, `note` where there are
 * @param {Options} options
 */
export function draw(drawing, frames, options) {
  const bars = rowsOf(frames.bars);
  const limit = options.limit ?? 0;
  const domain = extent([bars.values, bars.low ?? [], bars.high ?? [], [limit]], 0);
  if (options.strong_name !== undefined) {
    addLegend(drawing, [
      { column: "strong", name: options.strong_name, colour: options.strong },
      { column: "value", name: options.colour_name ?? "", colour: options.colour },
    ]);
  }
  onStage(drawing, (stage) => {
    const ends = Array.from(bars.values, (value) => figure(value, options.unit));
    const rows = layRows(stage, bars.labels, domain, {
      unit: options.unit,
      title: axisTitle(bars, options),
      endTexts: ends,
    });
    const zero = rows.scale.at(0);
    for (const [row, value] of bars.values.entries()) {
      const [y, x] = [rows.top(row), rows.scale.at(Number.isFinite(value) ? value : 0)];
      const colour = bars.strong?.[row] === 1 ? options.strong : options.colour;
      const fill = `fill: var(--${colour ?? "series-1"})`;
      const rect = {
        x: Math.min(zero, x),
        y,
        width: Math.abs(x - zero),
        height: rows.bar,
        rx: 1.5,
        style: fill,
      };
      add(stage.svg, "rect", rect);
      const reach = whisker(stage.svg, rows, bars, row);
      add(
        stage.svg,
        "text",
        { class: "chart-end", x: Math.max(x, reach, zero) + 6, y: y + rows.bar - 3 },
        ends[row],
      );
    }
    if (options.limit !== undefined) line(stage.svg, rows, options.limit);
    return {
      count: bars.labels.length,
      find: (_, y) => rowAt(rows, bars.labels.length, y),
      mark: (row) => ({
        x: Math.min(zero, rows.scale.at(bars.values[row] || 0)),
        y: rows.top(row),
        width: Math.abs(rows.scale.at(bars.values[row] || 0) - zero),
        height: rows.bar,
        title: bars.labels[row],
        rows: said(bars, row, options),
      }),
    };
  });
}

/**
 * @param {ReturnType<typeof rowsOf>} bars
 * @param {Options} options
 */
function axisTitle(bars, options) {
  const ranged = bars.low !== undefined && bars.low.some((low, row) => low < (bars.high?.[row] ?? low));
  return ranged && options.range !== undefined ? `${options.title}, and ${options.range}` : options.title;
}

/** @param {Frame} frame */
function rowsOf(frame) {
  const { label, value, low, high, strong, note } = frame.columns;
  const numbers = (/** @type {any} */ column) => /** @type {Float64Array | undefined} */ (column);
  return {
    labels: texts(label),
    values: /** @type {Float64Array} */ (value),
    low: numbers(low),
    high: numbers(high),
    strong: numbers(strong),
    notes: note === undefined ? undefined : texts(note),
  };
}

/**
 * The range of a row; returns how far it reaches, in px.
 *
 * @param {Element} svg
 * @param {import("tracebraid/charts/rows.js").Rows} rows
 * @param {ReturnType<typeof rowsOf>} bars
 * @param {number} row
 */
function whisker(svg, rows, bars, row) {
  if (bars.low === undefined || bars.high === undefined || !(bars.high[row] > bars.low[row])) return 0;
  const [from, to] = [rows.scale.at(bars.low[row]), rows.scale.at(bars.high[row])];
  const middle = rows.top(row) + rows.bar / 2;
  const path = `M${from} ${middle - 4}v8m0-4H${to}m0-4v8`;
  add(svg, "path", { class: "chart-whisker-back", d: path });
  add(svg, "path", { class: "chart-whisker", d: path });
  return to;
}

/**
 * @param {Element} svg
 * @param {import("tracebraid/charts/rows.js").Rows} rows
 * @param {number} value
 */
function line(svg, rows, value) {
  const x = rows.scale.at(value);
  add(svg, "line", { class: "chart-limit", x1: x, x2: x, y1: rows.plot.top, y2: rows.plot.bottom });
}

/**
 * @param {ReturnType<typeof rowsOf>} bars
 * @param {number} row
 * @param {Options} options
 * @returns {[string, string][]}
 */
function said(bars, row, options) {
  /** @type {[string, string][]} */
  const rows = [[options.title, figure(bars.values[row], options.unit)]];
  if (bars.low !== undefined && bars.high !== undefined && Number.isFinite(bars.low[row])) {
    const range = `${figure(bars.low[row], options.unit)} to ${figure(bars.high[row], options.unit)}`;
    rows.push([options.range ?? "least to most", range]);
  }
  if (options.limit !== undefined) {
    rows.push([options.limit_name ?? "limit", figure(options.limit, options.unit)]);
  }
  if (bars.notes?.[row]) rows.push(["", bars.notes[row]]);
  return rows;
}
