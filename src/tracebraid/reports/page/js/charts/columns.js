// Columns of a frame as what a chart needs.

/** @typedef {import("tracebraid/data_block.js").Values} Values */

/**
 * @param {Values} values
 * @returns {string[]}
 */
export function texts(values) {
  return Array.from(/** @type {Iterable<unknown>} */ (values), (value) => String(value ?? "-"));
}

/**
 * @param {import("tracebraid/data_block.js").Frame} frame
 * @param {string} name
 * @returns {Float64Array}
 */
export function numbers(frame, name) {
  return /** @type {Float64Array} */ (frame.columns[name]);
}
