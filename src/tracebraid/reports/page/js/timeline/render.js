// Draws what is in view: ruler, tracks, slices, the critical path, arrows.
import { HEADING, LINE } from "tracebraid/timeline/layout.js";
import { firstEndingAfter, lineOf, lowerBound } from "tracebraid/timeline/model.js";
import { nameOf } from "tracebraid/timeline/labels.js";
import { drawJoins } from "tracebraid/timeline/joins.js";
import { duration, integer as count } from "tracebraid/format.js";
import { rulerStep, tickText } from "tracebraid/timeline/ruler.js";

/** @typedef {import("tracebraid/timeline/state.js").State} State */
/** @typedef {import("tracebraid/timeline/model.js").Line} Line */
/** @typedef {{ ctx: CanvasRenderingContext2D, state: State, width: number, height: number, left: number, scale: number }} Scene */

export const RULER = 22;
const FONT = "12px system-ui, sans-serif";
const SMALL = "11px system-ui, sans-serif";
/** Narrower slices have no name. */
const NAME_WIDTH = 26;
/** Width of a mean character, in px, at the font's size. */
const CHARACTER = 6.2;
const RULER_STEP = 110;
/** px before the label of a track. */
const LABEL_LEFT = 14;

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {State} state
 */
export function render(ctx, state) {
  const { width, height, view, colours } = state;
  const left = state.gutter;
  /** @type {Scene} */
  const scene = { ctx, state, width, height, left, scale: (width - left) / (view.to - view.from) };
  ctx.setTransform(state.ratio, 0, 0, state.ratio, 0, 0);
  ctx.fillStyle = colours.ground;
  ctx.fillRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  ctx.save();
  clip(ctx, left, RULER, width - left, height - RULER);
  drawGrid(scene);
  for (const line of visibleLines(scene)) drawLine(scene, line.line, line.y);
  if (state.showPath) drawPath(scene);
  drawJoins(scene);
  drawSelection(scene);
  ctx.restore();
  drawLabels(scene);
  drawRuler(scene);
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function clip(ctx, x, y, width, height) {
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
}

/** @param {Scene} scene */
function* visibleLines({ state, height }) {
  const { layout, scroll } = state;
  for (const row of layout.rows) {
    const top = row.top - scroll + RULER;
    if (top + row.height < RULER) continue;
    if (top > height) return;
    for (const line of row.lines) {
      const y = top + line.level * LINE;
      if (y + LINE >= RULER && y <= height) yield { line, y };
    }
  }
}

/**
 * The slices of a line; those narrower than a pixel are drawn a pixel at a time, the longest of each.
 * @param {Scene} scene
 * @param {Line} line
 * @param {number} y
 */
function drawLine({ ctx, state, width, left, scale }, line, y) {
  const { model, view, colours, search } = state;
  const { start, duration: length } = model;
  const stop = lowerBound(start, view.to, line.from, line.to);
  let slice = firstEndingAfter(model, line, view.from);
  const fading = search.found.length > 0 ? search.before : null;
  let fill = "";
  let alpha = 1;
  while (slice < stop) {
    const x = left + (start[slice] - view.from) * scale;
    let shown = slice;
    let end = x + length[slice] * scale;
    let next = slice + 1;
    if (end - x < 1) {
      const pixel = Math.floor(x) + 1;
      next = lowerBound(start, view.from + (pixel - left) / scale, next, stop);
      // The last that starts in this pixel may reach beyond it: it is drawn by itself.
      if (next - slice > 1 && length[next - 1] * scale >= 1) next--;
      for (let other = slice + 1; other < Math.min(next, slice + 16); other++) {
        if (length[other] > length[shown]) shown = other;
      }
      end = x + 1;
    }
    const colour = colours.of(model.kinds[shown], model.families[shown]);
    const faded = fading !== null && fading[next] === fading[slice] ? 0.3 : 1;
    if (colour.fill !== fill) ctx.fillStyle = fill = colour.fill;
    if (faded !== alpha) ctx.globalAlpha = alpha = faded;
    const from = Math.max(x, left - 2);
    const drawn = Math.min(end, width + 2) - from;
    ctx.fillRect(from, y, Math.max(drawn - (drawn > 3 ? 1 : 0), 1), LINE - 2);
    if (drawn >= NAME_WIDTH) {
      name(ctx, nameOf(model, slice), from + 3, y, drawn - 6, colour.text);
      fill = "";
    }
    slice = next;
  }
  ctx.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {string} colour
 */
function name(ctx, text, x, y, width, colour) {
  const fits = Math.floor(width / CHARACTER);
  const bare = text.replace(/^void /, "");
  const shown = bare.length <= fits ? bare : `${bare.slice(0, Math.max(fits - 1, 1))}…`;
  ctx.font = SMALL;
  ctx.fillStyle = colour;
  ctx.fillText(shown, x, y + LINE / 2 - 1, width + 2);
}

/**
 * Segments of the critical path: a bar below their slices, joined where the path goes to another line.
 * @param {Scene} scene
 */
function drawPath({ ctx, state, left, scale }) {
  const { model, view, colours } = state;
  const { start, duration: length, slice, track } = model.path;
  const stop = lowerBound(start, view.to, 0, start.length);
  let segment = Math.max(lowerBound(start, view.from, 0, start.length) - 1, 0);
  ctx.fillStyle = ctx.strokeStyle = colours.critical;
  ctx.beginPath();
  let last = NaN;
  while (segment < stop) {
    const x = left + (start[segment] - view.from) * scale;
    const width = length[segment] * scale;
    const top = topOf(state, slice[segment], track[segment]);
    const y = top - state.scroll + RULER + LINE - 5;
    if (!Number.isNaN(y)) {
      ctx.fillRect(x, y, Math.max(width, 1), 4);
      if (!Number.isNaN(last) && last !== y) {
        ctx.moveTo(x, last + 2);
        ctx.lineTo(x, y + 2);
      }
      last = y;
    }
    // Segments narrower than half a pixel are drawn once for each.
    const next = start[segment] + Math.max(length[segment], 0.5 / scale);
    segment = Math.max(segment + 1, lowerBound(start, next, segment + 1, stop));
  }
  ctx.lineWidth = 1.5;
  ctx.stroke();
}

/**
 * Where a segment lies: on its slice, else on the first line of its track; NaN: it is not drawn.
 * @param {State} state
 * @param {number} slice
 * @param {number} track
 */
function topOf(state, slice, track) {
  if (!Number.isNaN(slice)) return topOfSlice(state, slice);
  if (Number.isNaN(track)) return NaN;
  return state.layout.rows.find((row) => row.track === track)?.top ?? NaN;
}

/**
 * The top of a slice's line in px from the top of all rows; NaN: it is collapsed.
 * @param {State} state
 * @param {number} slice
 */
export function topOfSlice(state, slice) {
  const line = lineOf(state.model, slice);
  return state.layout.tops[state.lineNumbers.get(line) ?? 0];
}

/** @param {Scene} scene */
function drawSelection({ ctx, state, left, scale }) {
  const { model, colours } = state;
  for (const [slice, weight] of [[state.hovered, 1.5], [state.selected, 3]]) {
    if (slice < 0) continue;
    const y = topOfSlice(state, slice) - state.scroll + RULER;
    if (Number.isNaN(y)) continue;
    const x = left + (model.start[slice] - state.view.from) * scale;
    ctx.strokeStyle = colours.text;
    ctx.lineWidth = weight;
    ctx.strokeRect(x, y, Math.max(model.duration[slice] * scale - 1, 2), LINE - 2);
  }
}

/**
 * @param {string} mark
 * @param {string} label
 */
function labelOf(mark, label) {
  return `${mark} ${label}`;
}

/** @param {import("tracebraid/timeline/model.js").Track} track */
function processOf(track) {
  return `${track.process} · ${count(track.events)} events`;
}

/**
 * What the widest label of a track takes, in px.
 * @param {HTMLCanvasElement} canvas
 * @param {State} state
 */
export function labelsWidth(canvas, state) {
  const ctx = canvas.getContext("2d");
  if (ctx === null) return 0;
  let widest = 0;
  for (const track of state.model.tracks) {
    ctx.font = FONT;
    widest = Math.max(widest, ctx.measureText(labelOf("▾", track.label)).width);
    ctx.font = SMALL;
    widest = Math.max(widest, ctx.measureText(processOf(track)).width);
  }
  return Math.ceil(widest) + LABEL_LEFT + 8;
}

/**
 * The text as far as there is room, with an ellipsis where it is cut.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} room px
 */
function cut(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  let [fits, all] = [0, text.length];
  while (fits < all - 1) {
    const middle = (fits + all) >>> 1;
    if (ctx.measureText(`${text.slice(0, middle)}…`).width <= room) fits = middle;
    else all = middle;
  }
  return `${text.slice(0, fits)}…`;
}

/** @param {Scene} scene */
function drawLabels({ ctx, state, width, height, left }) {
  const { layout, scroll, colours, model } = state;
  ctx.save();
  clip(ctx, 0, RULER, width, height - RULER);
  for (const row of layout.rows) {
    const y = row.top - scroll + RULER;
    if (y + row.height < RULER || y > height) continue;
    const heading = row.track < 0;
    ctx.fillStyle = colours.raised;
    ctx.fillRect(0, y, heading ? width : left, row.height - (heading ? 0 : 1));
    ctx.font = heading ? `600 ${FONT}` : FONT;
    ctx.fillStyle = colours.text;
    const mark = row.open ? "▾" : "▸";
    const track = model.tracks[row.track];
    const text = heading ? `${mark} rank ${row.rank}` : labelOf(mark, track.label);
    ctx.save();
    clip(ctx, 0, y, heading ? width : left - 4, row.height);
    const room = heading ? width : left - LABEL_LEFT - 6;
    ctx.fillText(cut(ctx, text, room), heading ? 6 : LABEL_LEFT, y + (heading ? HEADING / 2 : LINE / 2));
    if (!heading && row.height > 2 * LINE) {
      ctx.font = SMALL;
      ctx.fillStyle = colours.faint;
      ctx.fillText(cut(ctx, processOf(track), room), LABEL_LEFT, y + LINE * 1.5);
    }
    ctx.restore();
  }
  ctx.fillStyle = colours.line;
  ctx.fillRect(left - 1, RULER, 1, height - RULER);
  ctx.restore();
}

/** @param {Scene} scene */
function* ticks({ state, left, scale, width }) {
  const { view } = state;
  const step = rulerStep(RULER_STEP / scale);
  for (let ns = Math.ceil(view.from / step) * step; ns <= view.to; ns += step) {
    const x = left + (ns - view.from) * scale;
    if (x >= left && x <= width) yield { ns, x };
  }
}

/** @param {Scene} scene */
function drawGrid(scene) {
  const { ctx, state, height } = scene;
  ctx.fillStyle = state.colours.raised;
  for (const { x } of ticks(scene)) ctx.fillRect(Math.round(x), RULER, 1, height - RULER);
}

/** @param {Scene} scene */
function drawRuler(scene) {
  const { ctx, state, width, left } = scene;
  const { colours, view } = state;
  ctx.fillStyle = colours.raised;
  ctx.fillRect(0, 0, width, RULER);
  ctx.font = SMALL;
  ctx.fillStyle = colours.faint;
  ctx.fillText(`${duration(view.to - view.from)} shown`, 6, RULER / 2, left - 12);
  ctx.save();
  clip(ctx, left, 0, width - left, RULER);
  for (const { ns, x } of ticks(scene)) {
    ctx.fillRect(Math.round(x), RULER - 5, 1, 5);
    ctx.fillText(tickText(ns, rulerStep(RULER_STEP / scene.scale)), x + 4, RULER / 2);
  }
  ctx.restore();
}
