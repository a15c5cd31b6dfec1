// Rows of a table as CSV (RFC 4180) and as text for a spreadsheet's clipboard.
import { isMoment } from "tracebraid/cells.js";
import { isText } from "tracebraid/table/order.js";
import { printable } from "tracebraid/printable.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/cells.js").Column} Column */

/** What a spreadsheet runs, or an apostrophe: as `model/spreadsheet.py` has it. */
const FORMULA = /^[=+\-@\t\r\n'\uFF1D\uFF0B\uFF0D\uFF20]/;

/**
 * @param {Frame} frame
 * @param {Column[]} columns
 * @param {Uint32Array} rows those that are written, in order
 * @param {bigint} startNs added to moments: they stand on the unix clock, as in `tracebraid analyze`
 */
export function csv(frame, columns, rows, startNs) {
  const quoted = (/** @type {string} */ text) =>
    /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  return lines(frame, columns, rows, (column, value) => quoted(raw(column, value, startNs)), ",", "\r\n");
}

/**
 * As `csv`, with tabs; control characters are written out, so that a text stays in its cell.
 * @param {Frame} frame
 * @param {Column[]} columns
 * @param {Uint32Array} rows
 * @param {bigint} startNs
 */
export function tsv(frame, columns, rows, startNs) {
  return lines(frame, columns, rows, (column, value) => printable(raw(column, value, startNs)), "\t", "\n");
}

/**
 * A value as it is stored, names of columns say the unit; a text never begins a formula.
 * @param {Column} column
 * @param {number | string | null} value
 * @param {bigint} startNs
 */
function raw(column, value, startNs) {
  if (value === null || Number.isNaN(value)) return "";
  if (column.type === "bool") return value ? "true" : "false";
  if (isText(column)) return FORMULA.test(String(value)) ? `'${value}` : String(value);
  if (isMoment(column.name)) return String(BigInt(Math.round(Number(value))) + startNs);
  return column.type === "int" ? String(BigInt(value)) : String(value);
}

/**
 * @param {Frame} frame
 * @param {Column[]} columns
 * @param {Uint32Array} rows
 * @param {(column: Column, value: number | string | null) => string} text
 * @param {string} between
 * @param {string} end
 */
function lines(frame, columns, rows, text, between, end) {
  const written = [columns.map((column) => column.name).join(between)];
  for (const row of rows) {
    written.push(columns.map((column) => text(column, frame.columns[column.name][row])).join(between));
  }
  return written.join(end) + end;
}
