// Values of a column as people read them: reports/answers.py `cell_text` in the browser.
import { duration, integer, moment, number, percent, quantity, size } from "tracebraid/format.js";
import { printable } from "tracebraid/printable.js";

/**
 * What table_columns.py says of a column; of a chart's columns the name is enough.
 * @typedef {object} Column
 * @property {string} name
 * @property {string} [heading]
 * @property {string} [doc]
 * @property {string} [unit] of its numbers as they are stored
 * @property {"int" | "float" | "bool" | "text" | "list"} [type]
 * @property {Record<string, string>} [codes] names of codes by their values
 */

const MOMENTS = new Set([
  "start_ns",
  "end_ns",
  "ts_ns",
  "peak_ns",
  "allocated_ns",
  "released_ns",
  "arrival_ns",
  "first_arrival_ns",
  "last_arrival_ns",
  "issued_ns",
  "at_ns",
]);
const SHARES = new Set(["mfu", "hfu", "fragmentation", "variation"]);
const IDS = [
  "_id",
  "_event",
  "rank",
  "correlation",
  "graph",
  "node",
  "gap",
  "waited_for",
  "_most",
  "collective",
  "reference",
  "sequence",
];
const FRAMES = new Set(["frame", "call_site"]);
const LISTS = new Set(["pattern", "op_stack"]);

/** @type {[string, (value: number) => string][]} */
const UNITS = [
  ["_flops_per_s", (value) => `${quantity(value)}FLOP/s`],
  ["bytes_per_s", (value) => `${quantity(value)}B/s`],
  ["byte_seconds", (value) => `${quantity(value)}B s`],
  ["bytes_per_step", size],
  ["ns_per_token", duration],
  ["tokens_per_second", number],
  ["_ns", duration],
  ["bytes", size],
  ["flops", (value) => `${quantity(value)}FLOP`],
  ["share", percent],
  ["share_of_count", percent],
];

/**
 * @param {Column} column
 * @param {number | string | null} value moments from the start of the traces
 * @param {string} [missing] what stands for null
 */
export function cellText(column, value, missing = "-") {
  if (value === null || (typeof value === "number" && !Number.isFinite(value))) return missing;
  if (typeof value === "string") {
    return column.type === "list" ? listText(value) : printable(named(column, value));
  }
  if (column.type === "bool") return value ? "yes" : "no";
  if (isMoment(column.name)) return moment(value);
  if (value === 0) return "0";
  if (SHARES.has(column.name)) return percent(value);
  for (const [end, text] of UNITS) if (column.name.endsWith(end)) return text(value);
  if (column.type === "float" || !Number.isInteger(value)) return number(value);
  return isId(column.name) ? String(value) : integer(value);
}

/** @param {string} name of a column */
export function isMoment(name) {
  return MOMENTS.has(name);
}

/** @param {string} name of a column */
export function isShare(name) {
  return SHARES.has(name) || name.endsWith("share") || name.endsWith("share_of_count");
}

/** @param {string} name of a column whose numbers count nothing */
function isId(name) {
  return IDS.some((end) => name.endsWith(end));
}

/**
 * Codes by their names, lists of names joined.
 * @param {Column} column
 * @param {string} text
 */
function named(column, text) {
  const codes = new Map(Object.entries(column.codes ?? {}));
  const parts = text.split(",");
  if (parts.some((part) => codes.has(part))) return parts.map((part) => codes.get(part) ?? part).join(", ");
  if (FRAMES.has(column.name)) return text.slice(text.lastIndexOf("/") + 1);
  if (!LISTS.has(column.name)) return text;
  const names = parsed(text);
  return names !== null && names.every((name) => typeof name === "string") ? names.join(", ") : text;
}

/** @param {string} text of a JSON list of numbers: those that follow each other are joined, `0-3, 7` */
function listText(text) {
  const values = parsed(text);
  if (values === null || !values.every((value) => typeof value === "number")) return printable(text);
  /** @type {[number, number][]} */
  const runs = [];
  for (const value of values) {
    const last = runs[runs.length - 1];
    if (last !== undefined && value === last[1] + 1) last[1] = value;
    else runs.push([value, value]);
  }
  return runs.map(([first, last]) => first === last ? String(first) : `${first}-${last}`).join(", ") ||
    "none";
}

/**
 * @param {string} text
 * @returns {any[] | null} null where it is no JSON list
 */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
