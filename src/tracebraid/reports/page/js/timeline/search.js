// Finds slices by name.

/** @typedef {import("tracebraid/timeline/model.js").Model} Model */
/** @typedef {{ text: string, found: number[], before: Uint32Array | null }} Search `found` by start; `before`: found slices before each, null: no search */

/** @type {Search} */
export const NO_SEARCH = { text: "", found: [], before: null };

/**
 * The slices whose name contains a text, upper or lower case.
 * @param {Model} model
 * @param {string} text
 * @returns {Search}
 */
export function searched(model, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return NO_SEARCH;
  /** @type {Map<string, boolean>} */
  const known = new Map();
  const before = new Uint32Array(model.names.length + 1);
  /** @type {number[]} */
  const found = [];
  model.names.forEach((name, slice) => {
    before[slice + 1] = before[slice];
    if (name === null) return;
    let fits = known.get(name);
    if (fits === undefined) {
      fits = name.toLowerCase().includes(wanted);
      known.set(name, fits);
    }
    if (!fits) return;
    before[slice + 1]++;
    found.push(slice);
  });
  found.sort((a, b) => model.start[a] - model.start[b] || a - b);
  return { text, found, before };
}

/**
 * The next found slice from a slice on, or the one before it; around the end. -1: none was found.
 * @param {Model} model
 * @param {Search} search
 * @param {number} slice -1: none
 * @param {1 | -1} step
 */
export function nextFound(model, search, slice, step) {
  const { found } = search;
  if (found.length === 0) return -1;
  const at = slice < 0 ? -1 : found.indexOf(slice);
  if (at >= 0) return found[(at + step + found.length) % found.length];
  if (slice < 0) return found[step > 0 ? 0 : found.length - 1];
  const next = found.findIndex((row) => model.start[row] >= model.start[slice]);
  const from = next < 0 ? found.length : next;
  return found[(step > 0 ? from : from - 1 + found.length) % found.length];
}
