// What a slice has to do with others: what it lies in, what launched it, what it waited for.
import { groups, lineOf, lowerBound, numbers } from "tracebraid/timeline/model.js";

/** @typedef {import("tracebraid/timeline/model.js").Model} Model */
/** @typedef {{ slice: number, why: string, slack: number }} Relation slack in ns, NaN: none is known */

/** What kinds of links mean for who waits. */
const WHY = {
  event_wait: "waits for an event",
  sync: "synchronises",
  inter_thread: "hand-over between threads",
  forward_backward: "forward and backward",
};

/** @type {WeakMap<Model, { calls: Map<number, number[]>, ops: Map<number, number[]>, ins: Map<number, number[]>, outs: Map<number, number[]> }>} */
const indices = new WeakMap();

/** @param {Model} model */
function indexOf(model) {
  let index = indices.get(model);
  if (index === undefined) {
    index = {
      calls: groups(numbers(model.slices, "call")),
      ops: groups(numbers(model.slices, "op")),
      ins: groups(model.links.after),
      outs: groups(model.links.before),
    };
    indices.set(model, index);
  }
  return index;
}

/**
 * What a slice lies in, the innermost first.
 * @param {Model} model
 * @param {number} slice
 */
export function parentsOf(model, slice) {
  const line = lineOf(model, slice);
  const end = model.start[slice] + model.duration[slice];
  const above = model.tracks[line.track].lines.filter((other) => other.level < line.level);
  /** @type {number[]} */
  const found = [];
  for (const other of above.reverse()) {
    // Of several that start in the same moment the last is the one that lasts.
    const at = lowerBound(model.start, model.start[slice] + 1, other.from, other.to) - 1;
    if (at >= other.from && model.start[at] + model.duration[at] >= end) found.push(at);
  }
  return found;
}

/**
 * Device work that a call or op launched, in the order of starts.
 * @param {Model} model
 * @param {number} slice
 */
export function launchedBy(model, slice) {
  const { calls, ops } = indexOf(model);
  const found = [...new Set([...(calls.get(slice) ?? []), ...(ops.get(slice) ?? [])])];
  return found.sort((a, b) => model.start[a] - model.start[b]);
}

/**
 * What a slice waited for.
 * @param {Model} model
 * @param {number} slice
 * @returns {Relation[]}
 */
export function waitedFor(model, slice) {
  const found = linked(model, indexOf(model).ins.get(slice), model.links.before);
  const call = numbers(model.slices, "call")[slice];
  const launcher = Number.isNaN(call) ? numbers(model.slices, "op")[slice] : call;
  if (!Number.isNaN(launcher)) {
    found.unshift({ slice: launcher, why: "launched it", slack: model.start[slice] - model.start[launcher] });
  }
  const line = lineOf(model, slice);
  if (model.tracks[line.track].isDevice && slice > line.from) {
    const gap = model.start[slice] - model.start[slice - 1] - model.duration[slice - 1];
    found.push({ slice: slice - 1, why: "before it on the stream", slack: gap });
  }
  return found;
}

/**
 * What waited for a slice.
 * @param {Model} model
 * @param {number} slice
 * @returns {Relation[]}
 */
export function waitingFor(model, slice) {
  const found = linked(model, indexOf(model).outs.get(slice), model.links.after);
  const line = lineOf(model, slice);
  if (model.tracks[line.track].isDevice && slice + 1 < line.to) {
    const gap = model.start[slice + 1] - model.start[slice] - model.duration[slice];
    found.push({ slice: slice + 1, why: "next on the stream", slack: gap });
  }
  return found;
}

/**
 * The members of a collective on other ranks, by rank.
 * @param {Model} model
 * @param {number} slice
 */
export function membersOf(model, slice) {
  const collective = numbers(model.slices, "collective")[slice];
  return (model.members.get(collective) ?? []).filter((member) => member !== slice);
}

/**
 * @param {Model} model
 * @param {number[] | undefined} rows of links
 * @param {Float64Array} ends
 * @returns {Relation[]}
 */
function linked(model, rows, ends) {
  return (rows ?? []).map((row) => {
    const kind = model.links.kinds[row] ?? "";
    const why = WHY[/** @type {keyof typeof WHY} */ (kind)] ?? kind;
    return { slice: ends[row], why, slack: model.links.slack[row] };
  });
}
