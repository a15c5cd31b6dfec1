// Figures with their units, as reports/names.py writes them, and as the marks of an axis.

import { fixed } from "tracebraid/digits.js";
import { duration, number, percent, quantity, size } from "tracebraid/format.js";

/** @typedef {"ns" | "bytes" | "bytes_per_s" | "flops_per_s" | "flops_per_byte" | "share" | "count" | "rank"} Unit */

/** @type {[string, number][]} */
const DECIMAL = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];
/** Units by falling size: name and factor. @type {Record<string, [string, number][]>} */
const STEPS = {
  ns: [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]],
  bytes: [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3], ["B", 1]],
  bytes_per_s: DECIMAL.map(([prefix, factor]) => [`${prefix}B/s`, factor]),
  flops_per_s: DECIMAL.map(([prefix, factor]) => [`${prefix}FLOP/s`, factor]),
  flops_per_byte: [["", 1]],
  share: [["%", 0.01]],
  count: [["", 1]],
  rank: [["", 1]],
};

/**
 * A figure for people, to the digit as in the tables.
 *
 * @param {number} value
 * @param {Unit} unit
 */
export function figure(value, unit) {
  if (!Number.isFinite(value)) return "-";
  if (value === 0) return "0";
  if (unit === "ns") return duration(value);
  if (unit === "share") return percent(value);
  if (unit === "bytes") return size(value);
  if (unit === "bytes_per_s") return `${quantity(value)}B/s`;
  if (unit === "flops_per_s") return `${quantity(value)}FLOP/s`;
  return unit === "rank" ? String(value) : number(value);
}

/**
 * @param {number} most
 * @param {Unit} unit
 * @returns {[string, number]}
 */
function stepOf(most, unit) {
  const steps = STEPS[unit] ?? STEPS.count;
  return steps.find(([, factor]) => Math.abs(most) >= factor * 0.9999) ?? steps[steps.length - 1];
}

/**
 * Texts of an axis' ticks, all in the unit that fits the greatest.
 *
 * @param {number[]} ticks
 * @param {Unit} unit
 * @returns {string[]}
 */
export function tickTexts(ticks, unit) {
  const most = Math.max(...ticks.map(Math.abs), 0);
  const [name, factor] = stepOf(most, unit);
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) / factor : 1;
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(step) - 1e-9), 0), 6);
  return ticks.map((tick) =>
    tick === 0 ? "0" : `${fixed(tick / factor, decimals)}${name === "" ? "" : ` ${name}`}`
  );
}

/**
 * Text of a tick of a logarithmic axis, in its own unit.
 *
 * @param {number} tick
 * @param {Unit} unit
 */
export function decadeText(tick, unit) {
  const [name, factor] = stepOf(tick, unit);
  const value = Number((tick / factor).toPrecision(6));
  const text = value < 0.001 || value >= 1e6 ? value.toExponential() : String(value);
  return name === "" ? text : `${text} ${name}`;
}
