// Steps of the ruler, and what stands at them.

/**
 * 1, 2 or 5 times a power of ten.
 * @param {number} least ns
 */
export function rulerStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power;
}

/**
 * A moment with as many digits as tell it from the next one.
 * @param {number} ns
 * @param {number} step ns between two moments
 */
export function tickText(ns, step) {
  if (ns === 0) return "0";
  const units = /** @type {[string, number][]} */ ([["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]]);
  const [unit, factor] = units.find(([, size]) => Math.abs(ns) >= size) ?? units[3];
  const decimals = Math.max(Math.ceil(Math.log10(factor / step) - 1e-9), 0);
  return `${(ns / factor).toFixed(decimals)} ${unit}`;
}
