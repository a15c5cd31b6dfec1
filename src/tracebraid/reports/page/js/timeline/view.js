// Which time the timeline shows: zoom and pan.

/** @typedef {{ from: number, to: number }} View ns */

/** Shortest time that is shown, in ns: a clock's resolution. */
const LEAST_NS = 100;
/** Share of all time by which one may go beyond its ends. */
const MARGIN = 0.02;

/**
 * @param {[number, number]} extent
 * @returns {View}
 */
export function whole(extent) {
  const margin = (extent[1] - extent[0]) * MARGIN;
  return { from: extent[0] - margin, to: extent[1] + margin };
}

/**
 * The view zoomed about a moment that stays where it is.
 * @param {View} view
 * @param {number} factor of the shown time; below 1: closer
 * @param {number} about
 * @param {[number, number]} extent
 */
export function zoomed(view, factor, about, extent) {
  const all = whole(extent);
  const span = view.to - view.from;
  const wanted = Math.min(Math.max(span * factor, LEAST_NS), all.to - all.from);
  const share = (about - view.from) / span;
  return kept({ from: about - share * wanted, to: about + (1 - share) * wanted }, extent);
}

/**
 * @param {View} view
 * @param {number} ns
 * @param {[number, number]} extent
 */
export function moved(view, ns, extent) {
  return kept({ from: view.from + ns, to: view.to + ns }, extent);
}

/**
 * A slice with room around it.
 * @param {number} start
 * @param {number} duration
 * @param {[number, number]} extent
 */
export function around(start, duration, extent) {
  const room = Math.max(duration * 0.25, LEAST_NS);
  return kept({ from: start - room, to: start + duration + room }, extent);
}

/**
 * Moved as little as needed so that a slice can be seen; as it is where it can.
 * @param {View} view
 * @param {number} start
 * @param {number} duration
 * @param {[number, number]} extent
 */
export function revealing(view, start, duration, extent) {
  const span = view.to - view.from;
  const middle = start + Math.min(duration, span) / 2;
  if (middle > view.from + span * 0.02 && middle < view.to - span * 0.02) return view;
  return moved(view, middle - span / 2 - view.from, extent);
}

/**
 * @param {View} view
 * @param {[number, number]} extent
 * @returns {View}
 */
function kept(view, extent) {
  const all = whole(extent);
  const span = Math.min(view.to - view.from, all.to - all.from);
  const from = Math.min(Math.max(view.from, all.from), all.to - span);
  return { from, to: from + span };
}
