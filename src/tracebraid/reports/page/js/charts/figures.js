// Figures with their units, as reports/units.py writes them, and as the marks of an axis.

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
 * Thousands with commas.
 *
 * @param {number} value
 * @param {number} decimals
 */
function grouped(value, decimals) {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/**
 * A figure for people.
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
  if (unit === "bytes_per_s" || unit === "flops_per_s") return rate(value, unit);
  if (Number.isInteger(value) || Math.abs(value) >= 100) return grouped(value, 0);
  return value.toPrecision(3).replace(/\.?0+$/, "");
}

/** @param {number} ns */
function duration(ns) {
  for (const [name, factor] of STEPS.ns.slice(0, 3)) {
    const value = Math.abs(ns) / factor;
    if (value < 0.99995) continue;
    return `${grouped(ns / factor, value < 9.9995 ? 3 : value < 99.995 ? 2 : 1)} ${name}`;
  }
  return `${grouped(ns, 0)} ns`;
}

/** @param {number} share */
function percent(share) {
  const tenths = Math.round(Math.abs(share) * 1000);
  const shown = Math.abs(share) < 1 ? Math.min(tenths, 999) : tenths;
  if (share > 0 && shown === 0) return "<0.1 %";
  return `${share < 0 && shown ? "-" : ""}${grouped(shown / 10, 1)} %`;
}

/** @param {number} bytes */
function size(bytes) {
  for (const [name, factor] of STEPS.bytes.slice(0, 4)) {
    if (Math.abs(bytes) >= factor) return `${grouped(bytes / factor, 1)} ${name}`;
  }
  return `${grouped(bytes, 0)} B`;
}

/**
 * @param {number} value
 * @param {"bytes_per_s" | "flops_per_s"} unit
 */
function rate(value, unit) {
  const [name, factor] = stepOf(value, unit);
  const digits = (value / factor).toPrecision(3);
  return `${digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits} ${name}`;
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
  return ticks.map((tick) => `${grouped(tick / factor, decimals)}${name === "" ? "" : ` ${name}`}`);
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
