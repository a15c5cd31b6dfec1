// The timeline's data: slices on lines, each line sorted by start and without overlaps, and what joins slices.
import { printable } from "tracebraid/printable.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {{ track: number, level: number, from: number, to: number }} Line slices `from` up to `to` lie on it */
/**
 * @typedef {object} Track
 * @property {number} rank
 * @property {string} label
 * @property {string} process
 * @property {boolean} isDevice
 * @property {number} slices
 * @property {number} events
 * @property {Line[]} lines by level
 */
/** @typedef {{ before: Float64Array, after: Float64Array, kinds: (string | null)[], slack: Float64Array }} Links */
/** @typedef {{ slice: Float64Array, track: Float64Array, start: Float64Array, duration: Float64Array }} PathColumns */
/**
 * @typedef {object} Model
 * @property {Frame} slices
 * @property {Float64Array} start
 * @property {Float64Array} duration
 * @property {(string | null)[]} names
 * @property {(string | null)[]} kinds
 * @property {(string | null)[]} families
 * @property {Line[]} lines in the order of slices
 * @property {Track[]} tracks
 * @property {Links} links
 * @property {PathColumns & { kinds: (string | null)[], names: (string | null)[] }} path
 * @property {Map<number, number[]>} members slices of each collective
 * @property {[number, number]} extent first start and last end of what is shown
 */

/**
 * @param {Frame} frame
 * @param {string} name
 */
export function numbers(frame, name) {
  return /** @type {Float64Array} */ (frame.columns[name]);
}

/**
 * @param {Frame} frame
 * @param {string} name
 */
export function texts(frame, name) {
  return /** @type {(string | null)[]} */ (frame.columns[name]);
}

/**
 * @param {Record<string, Frame>} frames slices, tracks, ranks, links, path
 * @returns {Model}
 */
export function modelOf(frames) {
  const { slices, links, path, ranks } = frames;
  const lines = linesOf(slices);
  const starts = numbers(ranks, "start_ns");
  const ends = numbers(ranks, "end_ns");
  const from = starts.reduce((least, value) => Math.min(least, value), Infinity);
  return {
    slices,
    start: numbers(slices, "start_ns"),
    duration: numbers(slices, "duration_ns"),
    names: shown(texts(slices, "name")),
    kinds: texts(slices, "kind"),
    families: texts(slices, "family"),
    lines,
    tracks: tracksOf(frames.tracks, lines),
    links: {
      before: numbers(links, "before"),
      after: numbers(links, "after"),
      kinds: texts(links, "kind"),
      slack: numbers(links, "slack_ns"),
    },
    path: {
      slice: numbers(path, "slice"),
      track: numbers(path, "track"),
      start: numbers(path, "start_ns"),
      duration: numbers(path, "duration_ns"),
      kinds: texts(path, "kind"),
      names: texts(path, "name"),
    },
    members: groups(numbers(slices, "collective")),
    extent: [from, ends.reduce((most, value) => Math.max(most, value), from + 1)],
  };
}

/**
 * Names as the page shows them; each that repeats is made once.
 * @param {(string | null)[]} names
 */
function shown(names) {
  /** @type {Map<string, string>} */
  const known = new Map();
  return names.map((name) => {
    if (name === null) return null;
    let text = known.get(name);
    if (text === undefined) known.set(name, text = printable(name));
    return text;
  });
}

/**
 * Lines of slices: where the track or level changes, the next one begins.
 * @param {Frame} slices
 * @returns {Line[]}
 */
function linesOf(slices) {
  const track = numbers(slices, "track");
  const level = numbers(slices, "level");
  /** @type {Line[]} */
  const lines = [];
  for (let row = 0; row < slices.rows; row++) {
    if (row === 0 || track[row] !== track[row - 1] || level[row] !== level[row - 1]) {
      lines.push({ track: track[row], level: level[row], from: row, to: row });
    }
    lines[lines.length - 1].to = row + 1;
  }
  return lines;
}

/**
 * @param {Frame} frame
 * @param {Line[]} lines
 * @returns {Track[]}
 */
function tracksOf(frame, lines) {
  /** @type {Track[]} */
  const tracks = [];
  for (let row = 0; row < frame.rows; row++) {
    tracks.push({
      rank: numbers(frame, "rank")[row],
      label: printable(texts(frame, "label")[row] ?? ""),
      process: printable(texts(frame, "process")[row] ?? ""),
      isDevice: numbers(frame, "is_device")[row] === 1,
      slices: numbers(frame, "slices")[row],
      events: numbers(frame, "events")[row],
      lines: [],
    });
  }
  for (const line of lines) tracks[line.track].lines.push(line);
  return tracks;
}

/**
 * The rows of each value that is there.
 * @param {Float64Array} values
 * @returns {Map<number, number[]>}
 */
export function groups(values) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (let row = 0; row < values.length; row++) {
    if (Number.isNaN(values[row])) continue;
    const rows = found.get(values[row]);
    if (rows === undefined) found.set(values[row], [row]);
    else rows.push(row);
  }
  return found;
}

/**
 * The first index in `[from, to)` whose value is at least `wanted`; `to` where there is none.
 * @param {Float64Array} values ascending between `from` and `to`
 * @param {number} wanted
 * @param {number} from
 * @param {number} to
 */
export function lowerBound(values, wanted, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] < wanted) from = middle + 1;
    else to = middle;
  }
  return from;
}

/**
 * The first slice of a line that ends after a moment.
 * @param {Model} model
 * @param {Line} line
 * @param {number} moment
 */
export function firstEndingAfter(model, line, moment) {
  const next = lowerBound(model.start, moment, line.from, line.to);
  const last = next - 1;
  return last >= line.from && model.start[last] + model.duration[last] > moment ? last : next;
}

/**
 * The slice of a line at a moment, or the nearest within a tolerance; -1: none.
 * @param {Model} model
 * @param {Line} line
 * @param {number} moment
 * @param {number} tolerance ns
 */
export function sliceAt(model, line, moment, tolerance) {
  const next = lowerBound(model.start, moment, line.from, line.to);
  let best = -1;
  let least = tolerance;
  for (const row of [next - 1, next]) {
    if (row < line.from || row >= line.to) continue;
    const away = Math.max(model.start[row] - moment, moment - model.start[row] - model.duration[row], 0);
    if (away <= least && (best < 0 || away < least)) {
      best = row;
      least = away;
    }
  }
  return best;
}

/**
 * @param {Model} model
 * @param {number} slice
 */
export function lineOf(model, slice) {
  let from = 0;
  let to = model.lines.length - 1;
  while (from < to) {
    const middle = (from + to + 1) >>> 1;
    if (model.lines[middle].from <= slice) from = middle;
    else to = middle - 1;
  }
  return model.lines[from];
}
