// What the timeline shows at this moment.
import { layoutOf } from "tracebraid/timeline/layout.js";
import { NO_SEARCH } from "tracebraid/timeline/search.js";
import { whole } from "tracebraid/timeline/view.js";

/**
 * @typedef {object} State
 * @property {import("tracebraid/timeline/model.js").Model} model
 * @property {import("tracebraid/timeline/layout.js").Layout} layout
 * @property {import("tracebraid/timeline/layout.js").Collapsed} collapsed
 * @property {Map<import("tracebraid/timeline/model.js").Line, number>} lineNumbers
 * @property {import("tracebraid/timeline/view.js").View} view
 * @property {import("tracebraid/timeline/search.js").Search} search
 * @property {import("tracebraid/timeline/colours.js").Colours} colours
 * @property {number} scroll px by which the rows are scrolled
 * @property {number} width px
 * @property {number} height px
 * @property {number} gutter px that the labels take
 * @property {number} ratio device pixels of a px
 * @property {number} selected slice; -1: none
 * @property {number} hovered slice; -1: none
 * @property {boolean} showPath
 * @property {boolean} showArrows
 */

/** Ranks beyond these are collapsed at first. */
const OPEN_RANKS = 8;

/**
 * @param {import("tracebraid/timeline/model.js").Model} model
 * @param {import("tracebraid/timeline/colours.js").Colours} colours
 * @returns {State}
 */
export function stateOf(model, colours) {
  const ranks = [...new Set(model.tracks.map((track) => track.rank))];
  const collapsed = { ranks: new Set(ranks.slice(OPEN_RANKS)), tracks: new Set() };
  return {
    model,
    collapsed,
    layout: layoutOf(model, collapsed),
    lineNumbers: new Map(model.lines.map((line, number) => [line, number])),
    view: whole(model.extent),
    search: NO_SEARCH,
    colours,
    scroll: 0,
    width: 0,
    height: 0,
    gutter: 0,
    ratio: 1,
    selected: -1,
    hovered: -1,
    showPath: true,
    showArrows: true,
  };
}

/**
 * Opens what a slice lies in.
 * @param {State} state
 * @param {number} track
 */
export function openTrack(state, track) {
  const { ranks, tracks } = state.collapsed;
  if (ranks.delete(state.model.tracks[track].rank) || tracks.delete(track)) {
    tracks.delete(track);
    state.layout = layoutOf(state.model, state.collapsed);
  }
}

/**
 * Collapses or opens a rank or a track.
 * @param {State} state
 * @param {import("tracebraid/timeline/layout.js").Row} row
 */
export function toggle(state, row) {
  const [set, key] = row.track < 0 ? [state.collapsed.ranks, row.rank] : [state.collapsed.tracks, row.track];
  if (!set.delete(key)) set.add(key);
  state.layout = layoutOf(state.model, state.collapsed);
}
