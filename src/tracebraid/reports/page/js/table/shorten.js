// Long names, cut where they are common: what tells a name from its neighbours stays.

const MARK = "…";
const BEFORE = 6; // characters that stay before the first that differs
const END = 0.4; // of a name that differs early: its end, where kernels have their sizes and types

/**
 * @param {Iterable<string>} texts all texts of a column, as they are shown
 * @param {number} most characters that are shown
 * @returns {Map<string, string>} of each that is longer: its short form
 */
export function shortForms(texts, most) {
  const names = Array.from(new Set(texts)).sort();
  const forms = new Map();
  for (let at = 0; at < names.length; at++) {
    if (names[at].length <= most) continue;
    const common = Math.max(commonLength(names[at], names[at - 1]), commonLength(names[at], names[at + 1]));
    forms.set(names[at], shortened(names[at], common, most));
  }
  return forms;
}

/**
 * @param {string} name
 * @param {number} common characters that it begins with as a neighbour does
 * @param {number} most
 */
function shortened(name, common, most) {
  const end = Math.floor(most * END);
  const start = most - MARK.length - end;
  if (common < start - BEFORE || common >= name.length - end) return joined(name, start, name.length - end);
  const first = Math.floor(most / 4);
  const from = common - BEFORE;
  const to = from + most - first - 2 * MARK.length;
  return to >= name.length
    ? joined(name, first, name.length - (most - first - MARK.length))
    : `${joined(name.slice(0, to), first, from)}${MARK}`;
}

/**
 * The name without what stands between two of its characters; no surrogate pair is cut.
 * @param {string} name
 * @param {number} end of what stays before
 * @param {number} begin of what stays behind
 */
function joined(name, end, begin) {
  const isLow = (/** @type {number} */ at) => (name.charCodeAt(at) & 0xfc00) === 0xdc00;
  return `${name.slice(0, isLow(end) ? end - 1 : end)}${MARK}${name.slice(isLow(begin) ? begin + 1 : begin)}`;
}

/**
 * @param {string} name
 * @param {string | undefined} other
 */
function commonLength(name, other = "") {
  const most = Math.min(name.length, other.length);
  let length = 0;
  while (length < most && name.charCodeAt(length) === other.charCodeAt(length)) length++;
  return length;
}
