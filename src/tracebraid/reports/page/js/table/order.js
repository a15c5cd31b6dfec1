// The rows of a table in an order, and those that match a text.
import { cellText } from "tracebraid/cells.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/data_block.js").Values} Values */
/** @typedef {import("tracebraid/cells.js").Column} Column */
/** @typedef {{ name: string, isDescending: boolean } | null} Sort null: the order of the report */

const COLLATOR = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/**
 * @param {Values} values
 * @returns {Set<number | string | null>}
 */
export function distinct(values) {
  return new Set(/** @type {Iterable<number | string | null>} */ (values));
}

/** @param {Column} column */
export function isText(column) {
  return column.type === "text" || column.type === "list";
}

/**
 * Rows in the order of a column: stable, null last in both directions.
 * @param {Frame} frame
 * @param {Column[]} columns
 * @param {Sort} sort
 * @returns {Uint32Array} row numbers
 */
export function ordered(frame, columns, sort) {
  const rows = Uint32Array.from({ length: frame.rows }, (_, row) => row);
  const column = columns.find(({ name }) => name === sort?.name);
  if (sort === null || column === undefined) return rows;
  const values = frame.columns[column.name];
  const direction = sort.isDescending ? -1 : 1;
  const compared = isText(column) ? byText(column, values) : byNumber(values);
  return rows.sort((first, second) => compared(first, second, direction) || first - second);
}

/**
 * @param {Values} values
 * @returns {(first: number, second: number, direction: number) => number}
 */
function byNumber(values) {
  return (first, second, direction) => {
    const a = Number(values[first]);
    const b = Number(values[second]);
    if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
    return direction * (a < b ? -1 : a > b ? 1 : 0);
  };
}

/**
 * Texts as they are shown; each distinct text is ranked once.
 * @param {Column} column
 * @param {Values} values
 * @returns {(first: number, second: number, direction: number) => number}
 */
function byText(column, values) {
  const shown = new Map(Array.from(distinct(values), (value) => [value, cellText(column, value)]));
  const texts = Array.from(new Set(shown.values())).sort(COLLATOR.compare);
  const ranks = new Map(texts.map((text, rank) => [text, rank]));
  const ranked = new Float64Array(values.length);
  values.forEach((value, row) => {
    ranked[row] = value === null ? NaN : ranks.get(shown.get(value) ?? "") ?? 0;
  });
  return byNumber(ranked);
}

/**
 * Finds rows by what their texts show, whatever the case.
 * @param {Frame} frame
 * @param {Column[]} columns
 * @returns {(text: string, rows: Uint32Array) => Uint32Array}
 */
export function finder(frame, columns) {
  const texts = columns.filter(isText).map((column) => {
    const values = frame.columns[column.name];
    const lower = new Map(
      Array.from(distinct(values), (value) => [value, cellText(column, value).toLowerCase()]),
    );
    return (/** @type {number} */ row) => lower.get(values[row]) ?? "";
  });
  return (text, rows) => {
    const sought = text.trim().toLowerCase();
    return sought === "" ? rows : rows.filter((row) => texts.some((of) => of(row).includes(sought)));
  };
}
