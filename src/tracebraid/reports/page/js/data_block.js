// Decodes what data_block.py packed.

/** @typedef {Float64Array | (string | null)[]} Values numbers (NaN is null) or texts */
/** @typedef {{ rows: number, columns: Record<string, Values> }} Frame */

/**
 * @param {string} text base64 of a block
 * @returns {Promise<Frame>}
 */
export async function frameOf(text) {
  try {
    return await unpacked(text);
  } catch (error) {
    throw new Error("its data is missing or damaged", { cause: error });
  }
}

/**
 * @param {string} text
 * @returns {Promise<Frame>}
 */
async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(raw.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + length)));
  const data = raw.subarray(4 + length);
  /** @type {Record<string, Values>} */
  const columns = Object.create(null);
  for (const column of header.columns) {
    columns[column.name] = columnOf(column, data.subarray(column.offset), header.rows);
  }
  return { rows: header.rows, columns };
}

/**
 * @param {any} column its header
 * @param {Uint8Array} data begins with the column's bytes
 * @param {number} rows
 * @returns {Values}
 */
function columnOf(column, data, rows) {
  if (column.type === "float") return floats(data, rows);
  const values = integers(column, data, rows);
  if (column.type !== "text") return values;
  return Array.from(values, (code) => Number.isNaN(code) ? null : column.texts[code]);
}

/**
 * @param {Uint8Array} data
 * @param {number} rows
 */
function floats(data, rows) {
  const bytes = new Uint8Array(rows * 8);
  for (let plane = 0; plane < 8; plane++) {
    for (let row = 0; row < rows; row++) bytes[row * 8 + plane] = data[plane * rows + row];
  }
  return new Float64Array(bytes.buffer);
}

/**
 * @param {any} column
 * @param {Uint8Array} data
 * @param {number} rows
 */
function integers(column, data, rows) {
  if (column.width === 8) return wideIntegers(column, data, rows);
  const values = new Float64Array(rows);
  for (let plane = column.width - 1; plane >= 0; plane--) {
    const at = plane * rows;
    for (let row = 0; row < rows; row++) values[row] = values[row] * 256 + data[at + row];
  }
  const missing = column.nulls ? 2 ** (8 * column.width) - 1 : NaN;
  for (let row = 0; row < rows; row++) {
    values[row] = values[row] === missing ? NaN : values[row] + column.least;
  }
  if (column.delta) {
    values[0] = column.first;
    for (let row = 1; row < rows; row++) values[row] += values[row - 1];
  }
  return values;
}

/**
 * Integers whose span has more digits than a double.
 * @param {any} column
 * @param {Uint8Array} data
 * @param {number} rows
 */
function wideIntegers(column, data, rows) {
  const words = new BigUint64Array(floats(data, rows).buffer);
  const missing = 2n ** 64n - 1n;
  const least = BigInt(column.least);
  return Float64Array.from(words, (word) => column.nulls && word === missing ? NaN : Number(word + least));
}
