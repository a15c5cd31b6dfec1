// What slices are called.
import { numbers } from "tracebraid/timeline/model.js";
import { duration, integer as count, moment } from "tracebraid/format.js";

/** @typedef {import("tracebraid/timeline/model.js").Model} Model */

/** Characters of a name outside of the details, where it stands in full. */
const SHOWN = 120;

/**
 * @param {Model} model
 * @param {number} slice
 */
export function nameOf(model, slice) {
  const name = model.names[slice];
  if (name !== null) return name;
  const events = count(numbers(model.slices, "count")[slice]);
  return `${events} events, busy ${duration(numbers(model.slices, "busy_ns")[slice])}`;
}

/**
 * @param {Model} model
 * @param {number} slice
 */
export function shortName(model, slice) {
  const name = nameOf(model, slice).replace(/^void /, "");
  return name.length <= SHOWN ? name : `${name.slice(0, SHOWN - 1)}…`;
}

/**
 * @param {Model} model
 * @param {number} track
 */
export function trackName(model, track) {
  const { rank, label } = model.tracks[track];
  return `rank ${rank}, ${label}`;
}

/**
 * A thread or stream in a sentence.
 * @param {Model} model
 * @param {number} track
 */
export function trackSentence(model, track) {
  const { process, events } = model.tracks[track];
  return `${trackName(model, track)}, ${process}: ${count(events)} events`;
}

/**
 * A slice in a sentence.
 * @param {Model} model
 * @param {number} slice
 * @param {number} track
 */
export function sentenceOf(model, slice, track) {
  const family = model.families[slice];
  const kind = model.kinds[slice] + (family && family !== model.kinds[slice] ? ` (${family})` : "");
  const when = `${duration(model.duration[slice])} at ${moment(model.start[slice])}`;
  return `${shortName(model, slice)}: ${kind}, ${when}, ${trackName(model, track)}`;
}
