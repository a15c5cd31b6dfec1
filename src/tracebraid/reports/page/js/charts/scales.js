// Scales: from values to px, with ticks at round values.

/**
 * @typedef {object} Scale
 * @property {(value: number) => number} at px of a value
 * @property {(px: number) => number} value of a px
 * @property {number[]} ticks
 */

/**
 * The step of 1, 2 or 5 times a power of ten that makes about `count` steps of a span.
 *
 * @param {number} span
 * @param {number} count
 */
function niceStep(span, count) {
  const raw = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = raw / power;
  return (factor <= 1.0001 ? 1 : factor <= 2.0001 ? 2 : factor <= 5.0001 ? 5 : 10) * power;
}

/**
 * @param {[number, number]} domain least and most value
 * @param {[number, number]} range px of these
 * @param {{ count?: number, widen?: boolean, whole?: boolean }} [options] about how many ticks; whether the domain
 *   grows to the ticks around it; whether ticks are whole numbers
 * @returns {Scale & { domain: [number, number] }}
 */
export function linear(domain, range, options = {}) {
  let [least, most] = domain;
  if (!(most > least)) most = least + (least === 0 ? 1 : Math.abs(least));
  let step = niceStep(most - least, options.count ?? 5);
  if (options.whole) step = Math.max(1, Math.round(step));
  if (options.widen) {
    least = Math.floor(least / step + 1e-9) * step;
    most = Math.ceil(most / step - 1e-9) * step;
  }
  const ticks = [];
  for (let at = Math.ceil(least / step - 1e-9); at * step <= most + step * 1e-9; at++) {
    ticks.push(Number((at * step).toPrecision(12)));
  }
  const factor = (range[1] - range[0]) / (most - least);
  return {
    domain: [least, most],
    at: (value) => range[0] + (value - least) * factor,
    value: (px) => least + (px - range[0]) / factor,
    ticks,
  };
}

/**
 * @param {[number, number]} domain both above 0
 * @param {[number, number]} range px
 * @param {number} [count] ticks at most
 * @returns {Scale & { domain: [number, number] }}
 */
export function logarithmic(domain, range, count = 8) {
  const least = Math.floor(Math.log10(domain[0]) + 1e-9);
  const most = Math.max(Math.ceil(Math.log10(domain[1]) - 1e-9), least + 1);
  const factor = (range[1] - range[0]) / (most - least);
  const every = Math.max(1, Math.ceil((most - least + 1) / count));
  const ticks = [];
  for (let power = least; power <= most; power += every) ticks.push(10 ** power);
  return {
    domain: [10 ** least, 10 ** most],
    at: (value) => range[0] + (Math.log10(value) - least) * factor,
    value: (px) => 10 ** (least + (px - range[0]) / factor),
    ticks,
  };
}

/**
 * Least and most of the finite values.
 *
 * @param {Iterable<number>[]} columns
 * @param {number} [start] a value that counts as well
 * @returns {[number, number]}
 */
export function extent(columns, start) {
  let [least, most] = start === undefined ? [Infinity, -Infinity] : [start, start];
  for (const column of columns) {
    for (const value of column) {
      if (value < least && Number.isFinite(value)) least = value;
      if (value > most && Number.isFinite(value)) most = value;
    }
  }
  return least <= most ? [least, most] : [0, 1];
}
