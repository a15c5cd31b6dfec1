// Which slice the arrow keys go to.
import { firstEndingAfter, lineOf, lowerBound } from "tracebraid/timeline/model.js";

/** @typedef {import("tracebraid/timeline/model.js").Model} Model */
/** @typedef {import("tracebraid/timeline/state.js").State} State */

/**
 * The next slice of the same line, or the one before it; at the ends the slice itself.
 * @param {Model} model
 * @param {number} slice
 * @param {1 | -1} step
 */
export function nextOnLine(model, slice, step) {
  const line = lineOf(model, slice);
  return Math.min(Math.max(slice + step, line.from), line.to - 1);
}

/**
 * The slice of the line below, or above, that is nearest in time; where there is no line, the slice itself.
 * @param {State} state
 * @param {number} slice
 * @param {1 | -1} step
 */
export function nextOnLines(state, slice, step) {
  const { model, layout, view } = state;
  const lines = layout.rows.flatMap((row) => row.lines);
  const at = lines.indexOf(lineOf(model, slice));
  const next = lines[at + step];
  if (next === undefined) return slice;
  // Of a slice that is partly out of view the part that is seen counts.
  const moment = Math.max(
    model.start[slice],
    Math.min(view.from, model.start[slice] + model.duration[slice]),
  );
  return nearest(model, next, moment);
}

/**
 * The first slice of the first line that has any in view; -1: there is none.
 * @param {State} state
 */
export function firstShown({ model, layout, view }) {
  for (const row of layout.rows) {
    for (const line of row.lines) {
      const slice = firstEndingAfter(model, line, view.from);
      if (slice < line.to && model.start[slice] < view.to) return slice;
    }
  }
  return -1;
}

/**
 * @param {Model} model
 * @param {import("tracebraid/timeline/model.js").Line} line
 * @param {number} moment
 */
function nearest(model, line, moment) {
  const next = lowerBound(model.start, moment, line.from, line.to);
  if (next === line.to) return next - 1;
  if (next === line.from || model.start[next] === moment) return next;
  const end = model.start[next - 1] + model.duration[next - 1];
  return moment - end < model.start[next] - moment ? next - 1 : next;
}
