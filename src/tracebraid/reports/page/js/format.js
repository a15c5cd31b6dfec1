// Numbers as people read them: reports/names.py in the browser, equal to the character.
import { exponential, fixed, general, grouped, roundEven } from "tracebraid/digits.js";

const MANY_DIGITS = 1e15;

/** @param {number} ns with four digits, in the unit that leaves one to three of them before the point */
export function duration(ns) {
  for (const [unit, factor] of /** @type {[string, number][]} */ ([["s", 1e9], ["ms", 1e6], ["µs", 1e3]])) {
    const value = Math.abs(ns) / factor;
    if (value >= 0.99995) {
      const decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
      return `${fixed(ns / factor, decimals)} ${unit}`;
    }
  }
  return `${fixed(ns, 0)} ns`;
}

/** @param {number} ns from the start of something: ms to the microsecond */
export function moment(ns) {
  const text = fixed(ns / 1e6, 3);
  return `${text.startsWith("-") ? "" : "+"}${text} ms`;
}

/** @param {number} value without a unit: three digits at least, and no exponent up to 15 digits */
export function number(value) {
  const size = Math.abs(value);
  if (size >= MANY_DIGITS) return general(value, 3);
  if (size >= 100 || Number.isInteger(value)) return fixed(value, 0);
  return size >= 0.001 ? general(value, 3) : exponential(value, 1);
}

/** @param {number} value an integer */
export function integer(value) {
  return `${value < 0 ? "-" : ""}${grouped(String(BigInt(Math.abs(value))))}`;
}

/** @param {number} share as percent to the nearest tenth; 100 % means all, and 0 % none */
export function percent(share) {
  const rounded = roundEven(Math.abs(share) * 1000);
  const tenths = BigInt(Math.abs(share) < 1 ? Math.min(rounded, 999) : rounded);
  if (share > 0 && tenths === 0n) return "<0.1 %";
  const sign = share < 0 && tenths !== 0n ? "-" : "";
  return `${sign}${grouped(String(tenths / 10n))}.${tenths % 10n} %`;
}

/** @param {number} bytes in B, KB, MB, GB or TB (powers of ten) */
export function size(bytes) {
  const units = /** @type {[string, number][]} */ ([["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]);
  for (const [unit, factor] of units) {
    if (Math.abs(bytes) >= factor) return `${fixed(bytes / factor, 1)} ${unit}`;
  }
  return `${fixed(bytes, 0).replaceAll(",", "")} B`;
}

/** @param {number} value with three digits and the prefix of its unit (powers of ten): `1.25 G` */
export function quantity(value) {
  const prefixes = /** @type {[string, number][]} */ ([
    ["P", 1e15],
    ["T", 1e12],
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ]);
  for (const [prefix, factor] of prefixes) {
    if (Math.abs(value) < factor) continue;
    const digits = Math.abs(value) < 1e18 ? general(value / factor, 3) : exponential(value / factor, 3);
    return `${digits} ${prefix}`;
  }
  return `${general(value, 3)} `;
}
