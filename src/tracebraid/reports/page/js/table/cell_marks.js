// What a table knows of its columns before it draws cells: bars behind numbers, short forms of long texts.
import { cellText, isMoment, isShare } from "tracebraid/cells.js";
import { distinct, isText } from "tracebraid/table/order.js";
import { shortForms } from "tracebraid/table/shorten.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/cells.js").Column} Column */
/**
 * @typedef {object} Marks
 * @property {boolean} isNumber
 * @property {number} full the number whose bar fills the cell; 0: no bars
 * @property {Map<string, string>} short forms of texts
 */

const MOST_CHARACTERS = 60; // of a text in a cell

/**
 * @param {Frame} frame
 * @param {Column[]} columns
 * @returns {Map<string, Marks>} by column
 */
export function marksOf(frame, columns) {
  const timed = columns.find(({ name, type }) => name.endsWith("_ns") && !isMoment(name) && type !== "text");
  return new Map(columns.map((column) => {
    const values = frame.columns[column.name];
    const isNumber = !isText(column) && column.type !== "bool";
    const hasBars = isNumber && (isShare(column.name) || column === timed);
    const full = hasBars ? fullOf(column, /** @type {Float64Array} */ (values)) : 0;
    const texts = isText(column) ? Array.from(distinct(values), (value) => cellText(column, value)) : [];
    return [column.name, { isNumber, full, short: shortForms(texts, MOST_CHARACTERS) }];
  }));
}

/**
 * @param {Column} column
 * @param {Float64Array} values
 */
function fullOf(column, values) {
  let most = 0;
  for (const value of values) {
    if (value < 0) return 0;
    if (value > most) most = value;
  }
  return isShare(column.name) ? Math.max(1, most) : most;
}
