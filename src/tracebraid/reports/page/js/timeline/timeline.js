// The timeline of a step: all ranks, their threads and streams.
import { COLOURS_CHANGED } from "tracebraid/colours.js";
import { coloursOf } from "tracebraid/timeline/colours.js";
import { controlsIn } from "tracebraid/timeline/controls.js";
import { showDetails } from "tracebraid/timeline/details.js";
import { listen } from "tracebraid/timeline/input.js";
import { sentenceOf, trackSentence } from "tracebraid/timeline/labels.js";
import { layoutOf, LINE } from "tracebraid/timeline/layout.js";
import { lineOf, modelOf } from "tracebraid/timeline/model.js";
import { firstShown, nextOnLine, nextOnLines } from "tracebraid/timeline/moves.js";
import { busyShares, OVERVIEW, renderOverview } from "tracebraid/timeline/overview.js";
import { labelsWidth, render, RULER, topOfSlice } from "tracebraid/timeline/render.js";
import { nextFound, searched } from "tracebraid/timeline/search.js";
import { openTrack, stateOf } from "tracebraid/timeline/state.js";
import { putAtPointer } from "tracebraid/tooltip.js";
import { integer as count } from "tracebraid/format.js";
import { around, revealing, whole, zoomed } from "tracebraid/timeline/view.js";

/** Labels take what the longest needs, within these px and this share of the width. */
const GUTTER = { share: 0.25, least: 84, most: 280 };
/** Height of the tracks in px: as much as they need, within these and a share of the window. */
const HEIGHT = { least: 160, share: 0.6 };
const ZOOM = 1.6;

/**
 * @param {Element} drawing
 * @param {Record<string, import("tracebraid/data_block.js").Frame>} frames
 */
export function draw(drawing, frames) {
  new Timeline(drawing, frames);
}

export class Timeline {
  /**
   * @param {Element} drawing
   * @param {Record<string, import("tracebraid/data_block.js").Frame>} frames
   */
  constructor(drawing, frames) {
    this.controls = controlsIn(drawing);
    this.state = stateOf(modelOf(frames), coloursOf(this.controls.root));
    this.pending = false;
    /** @type {ReturnType<typeof busyShares>} */
    this.busy = { shares: new Float32Array(0), rows: 0 };
    this.listen();
    listen(this);
    this.select(-1, false);
    this.resized();
  }

  listen() {
    const { controls, state } = this;
    const { extent } = state.model;
    const middle = () => (state.view.from + state.view.to) / 2;
    const on = (/** @type {HTMLElement} */ button, /** @type {() => void} */ action) =>
      button.addEventListener("click", action);
    on(controls.buttons.in, () => this.show(zoomed(state.view, 1 / ZOOM, middle(), extent)));
    on(controls.buttons.out, () => this.show(zoomed(state.view, ZOOM, middle(), extent)));
    on(controls.buttons.all, () => this.show(whole(extent)));
    on(controls.buttons.fit, () => this.fit());
    on(controls.buttons.collapse, () => this.collapseAll());
    on(controls.buttons.next, () => this.toMatch(1));
    on(controls.buttons.previous, () => this.toMatch(-1));
    controls.search.addEventListener("input", () => this.find(controls.search.value));
    controls.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.toMatch(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") controls.scroller.focus();
    });
    controls.details.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.clear();
      controls.scroller.focus();
    });
    for (
      const [input, name]
        of /** @type {const} */ ([[controls.path, "showPath"], [controls.arrows, "showArrows"]])
    ) {
      input.addEventListener("change", () => {
        state[name] = input.checked;
        this.redraw();
      });
    }
    document.addEventListener("click", (event) => this.follow(event));
    new ResizeObserver(() => this.resized()).observe(controls.root);
    const recolour = () => {
      state.colours = coloursOf(controls.root);
      this.redraw();
    };
    document.addEventListener(COLOURS_CHANGED, recolour);
  }

  /**
   * A link elsewhere on the page to a slice: it is selected, and fills the view.
   * @param {MouseEvent} event
   */
  follow(event) {
    const link = event.target instanceof Element ? event.target.closest("a[data-slice]") : null;
    const slice = Number(link?.getAttribute("data-slice") ?? -1);
    if (slice < 0 || slice >= this.state.model.start.length) return;
    event.preventDefault();
    this.controls.root.closest("figure")?.scrollIntoView({ behavior: "instant" });
    this.select(slice, true);
    this.fit();
  }

  /**
   * Scrolls the page where the details lie over a slice.
   * @param {number} slice
   */
  uncover(slice) {
    const { state, controls } = this;
    const bottom = controls.canvas.getBoundingClientRect().top + RULER + topOfSlice(state, slice) -
      state.scroll +
      LINE;
    const covered = bottom - controls.details.getBoundingClientRect().top;
    if (covered > 0) scrollBy({ top: covered, behavior: "instant" });
  }

  resized() {
    const { state, controls } = this;
    const width = Math.floor(controls.scroller.clientWidth);
    const tallest = Math.max(HEIGHT.least, innerHeight * HEIGHT.share);
    const height = Math.floor(Math.min(Math.max(state.layout.height + RULER + 8, HEIGHT.least), tallest));
    const ratio = devicePixelRatio;
    const same = width === state.width && height === state.height && ratio === state.ratio;
    controls.spacer.style.height = `${Math.max(state.layout.height + RULER - height, 0)}px`;
    if (same || width <= 0) return this.redraw();
    Object.assign(state, { width, height, ratio });
    const most = Math.min(width * GUTTER.share, GUTTER.most);
    state.gutter = Math.min(
      Math.max(labelsWidth(controls.canvas, state), GUTTER.least),
      Math.max(most, GUTTER.least),
    );
    controls.scroller.style.height = `${height}px`;
    sized(controls.canvas, width, height, ratio);
    sized(controls.overview, width, OVERVIEW, ratio);
    this.busy = busyShares(state, width);
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.state.scroll = this.controls.scroller.scrollTop;
      const [ctx, small] = [this.controls.canvas, this.controls.overview].map((canvas) =>
        canvas.getContext("2d")
      );
      if (!ctx || !small || this.state.width <= 0) return;
      render(ctx, this.state);
      renderOverview(small, this.state, this.busy, this.state.width);
    });
  }

  /** @param {import("tracebraid/timeline/view.js").View} view */
  show(view) {
    this.state.view = view;
    this.redraw();
  }

  relaid() {
    this.resized();
  }

  /**
   * @param {number} slice -1: none
   * @param {boolean} reveal bring it into view
   */
  select(slice, reveal) {
    const { state, controls } = this;
    state.selected = slice;
    const close = () => {
      this.select(-1, false);
      controls.scroller.focus();
    };
    showDetails(controls.details, state.model, slice, (other) => this.select(other, true), close);
    controls.status.textContent = slice < 0
      ? ""
      : sentenceOf(state.model, slice, lineOf(state.model, slice).track);
    controls.root.dataset.selected = String(slice);
    if (slice >= 0 && reveal) this.reveal(slice);
    if (slice >= 0) requestAnimationFrame(() => this.uncover(slice));
    this.redraw();
  }

  /** @param {number} slice */
  reveal(slice) {
    const { state, controls } = this;
    const line = lineOf(state.model, slice);
    openTrack(state, line.track);
    if (line.level > 0 && Number.isNaN(topOfSlice(state, slice))) {
      state.collapsed.tracks.delete(line.track);
      state.layout = layoutOf(state.model, state.collapsed);
    }
    this.resized();
    const { start, duration, extent } = state.model;
    state.view = revealing(state.view, start[slice], duration[slice], extent);
    const top = topOfSlice(state, slice);
    const room = state.height - RULER - LINE;
    const scroll = controls.scroller.scrollTop;
    if (top < scroll || top > scroll + room) controls.scroller.scrollTop = top - room / 2;
  }

  /** @param {1 | -1} step */
  step(step) {
    const { state } = this;
    const from = state.selected;
    this.select(from < 0 ? this.firstInView() : nextOnLine(state.model, from, step), true);
  }

  /** @param {1 | -1} step */
  stepLine(step) {
    const { state } = this;
    const from = state.selected;
    this.select(from < 0 ? this.firstInView() : nextOnLines(state, from, step), true);
  }

  firstInView() {
    return firstShown(this.state);
  }

  clear() {
    this.controls.search.value = "";
    this.find("");
    this.select(-1, false);
  }

  fit() {
    const { model, selected } = this.state;
    if (selected >= 0) this.show(around(model.start[selected], model.duration[selected], model.extent));
  }

  collapseAll() {
    const { state } = this;
    const { ranks } = state.collapsed;
    const all = new Set(state.model.tracks.map((track) => track.rank));
    state.collapsed.ranks = ranks.size > 0 ? new Set() : all;
    state.layout = layoutOf(state.model, state.collapsed);
    this.relaid();
  }

  /** @param {string} text */
  find(text) {
    const { state } = this;
    state.search = searched(state.model, text);
    this.sayMatches();
    this.redraw();
  }

  /** @param {1 | -1} step */
  toMatch(step) {
    const slice = nextFound(this.state.model, this.state.search, this.state.selected, step);
    if (slice >= 0) this.select(slice, true);
    this.sayMatches();
  }

  sayMatches() {
    const { search, selected, model } = this.state;
    const at = search.found.indexOf(selected) + 1;
    const found = count(search.found.length);
    const hidden = model.names.includes(null) ? "; merged slices have no names" : "";
    const text = at > 0 ? `${count(at)} of ${found}` : `${found} found${hidden}`;
    this.controls.matches.textContent = search.before === null ? "" : text;
  }

  /**
   * @param {number} slice -1: none
   * @param {{ clientX: number, clientY: number }} at
   * @param {number} track whose label is below the pointer; -1: none
   */
  hover(slice, at, track = -1) {
    const { state, controls } = this;
    const { tooltip } = controls;
    tooltip.hidden = slice < 0 && track < 0;
    if (!tooltip.hidden) {
      tooltip.textContent = slice >= 0
        ? sentenceOf(state.model, slice, lineOf(state.model, slice).track)
        : trackSentence(state.model, track);
      putAtPointer(tooltip, at);
    }
    if (slice === state.hovered) return;
    state.hovered = slice;
    this.redraw();
  }
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {number} ratio
 */
function sized(canvas, width, height, ratio) {
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
}
