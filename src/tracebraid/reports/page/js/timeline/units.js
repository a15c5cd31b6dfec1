// Times as people read them, as reports/units.py writes them.

/** @type {[string, number][]} */
const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]];

/**
 * Four digits, in the unit that leaves one to three of them before the point.
 * @param {number} ns
 */
export function duration(ns) {
  for (const [unit, factor] of UNITS) {
    const value = Math.abs(ns) / factor;
    if (value >= 0.99995) {
      const decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
      return `${fixed(ns / factor, decimals)} ${unit}`;
    }
  }
  return `${fixed(ns, 0)} ns`;
}

/** @param {number} ns */
export function moment(ns) {
  return `${ns < 0 ? "" : "+"}${fixed(ns / 1e6, 3)} ms`;
}

/** @param {number} bytes */
export function size(bytes) {
  for (
    const [unit, factor]
      of /** @type {[string, number][]} */ ([["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3]])
  ) {
    if (Math.abs(bytes) >= factor) return `${fixed(bytes / factor, 1)} ${unit}`;
  }
  return `${fixed(bytes, 0)} B`;
}

/** @param {number} value */
export function count(value) {
  return fixed(value, 0);
}

/**
 * Steps of a ruler: 1, 2 or 5 times a power of ten, so that a step has some width.
 * @param {number} least ns
 */
export function rulerStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power;
}

/**
 * @param {number} value
 * @param {number} decimals
 */
function fixed(value, decimals) {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}
