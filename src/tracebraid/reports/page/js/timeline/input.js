// Mouse, touch and keyboard of the timeline.
import { lineAt, rowAt } from "tracebraid/timeline/layout.js";
import { sliceAt } from "tracebraid/timeline/model.js";
import { RULER } from "tracebraid/timeline/render.js";
import { toggle } from "tracebraid/timeline/state.js";
import { moved, whole, zoomed } from "tracebraid/timeline/view.js";

/** @typedef {import("tracebraid/timeline/timeline.js").Timeline} Timeline */

/** Movement in px below which a press is a click. */
const CLICK = 4;
/** Distance in px within which a short slice is hit. */
const NEAR = 3;
/** Share of the shown time that a key or wheel notch moves. */
const MOVE = 0.12;
const ZOOM = 1.35;

/** @param {Timeline} timeline */
export function listen(timeline) {
  const { scroller } = timeline.controls;
  scroller.addEventListener("wheel", (event) => wheel(timeline, event), { passive: false });
  scroller.addEventListener("keydown", (event) => {
    if (key(timeline, event)) event.preventDefault();
  });
  scroller.addEventListener("scroll", () => timeline.redraw());
  pointers(timeline);
  overview(timeline);
}

/**
 * What is below a point of the window: a slice, else a row.
 * @param {Timeline} timeline
 * @param {{ clientX: number, clientY: number }} event
 */
function hit({ state, controls }, event) {
  const box = controls.canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const none = { slice: -1, row: undefined, moment: NaN };
  if (y < RULER) return none;
  const top = y - RULER + state.scroll;
  const row = rowAt(state.layout, top);
  if (x < state.gutter || row === undefined || row.track < 0) return { ...none, row };
  const perPixel = (state.view.to - state.view.from) / (state.width - state.gutter);
  const moment = state.view.from + (x - state.gutter) * perPixel;
  const line = lineAt(state.layout, top);
  const slice = line === undefined ? -1 : sliceAt(state.model, line, moment, NEAR * perPixel);
  return { slice, row: undefined, moment };
}

/**
 * @param {Timeline} timeline
 * @param {number} clientX
 */
function momentAt({ state, controls }, clientX) {
  const x = clientX - controls.canvas.getBoundingClientRect().left - state.gutter;
  const span = state.view.to - state.view.from;
  return state.view.from + x * span / (state.width - state.gutter);
}

/**
 * @param {Timeline} timeline
 * @param {WheelEvent} event
 */
function wheel(timeline, event) {
  const { state } = timeline;
  const { extent } = state.model;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const notch = Math.max(Math.min(event.deltaY / 100, 3), -3);
    timeline.show(zoomed(state.view, ZOOM ** notch, momentAt(timeline, event.clientX), extent));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    const pixels = event.deltaX === 0 ? event.deltaY : event.deltaX;
    const perPixel = (state.view.to - state.view.from) / (state.width - state.gutter);
    timeline.show(moved(state.view, pixels * perPixel, extent));
  }
}

/** @param {Timeline} timeline */
function pointers(timeline) {
  const { scroller, canvas } = timeline.controls;
  const { state } = timeline;
  /** @type {Map<number, { x: number, y: number }>} */
  const down = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    travelled = down.size > 1 ? Infinity : 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = down.get(event.pointerId);
    if (last === undefined) {
      const { slice, row } = hit(timeline, event);
      return timeline.hover(slice, event, row?.track);
    }
    const now = { x: event.clientX, y: event.clientY };
    travelled += Math.abs(now.x - last.x) + Math.abs(now.y - last.y);
    const before = [...down.values()];
    down.set(event.pointerId, now);
    if (down.size === 2) return pinch(timeline, before, [...down.values()]);
    if (travelled < CLICK) return;
    const perPixel = (state.view.to - state.view.from) / (state.width - state.gutter);
    if (event.pointerType === "mouse") scroller.scrollTop -= now.y - last.y;
    timeline.show(moved(state.view, (last.x - now.x) * perPixel, state.model.extent));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (down.delete(event.pointerId) && travelled < CLICK) click(timeline, event);
  });
  canvas.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  canvas.addEventListener("pointerleave", (event) => timeline.hover(-1, event));
  canvas.addEventListener("dblclick", () => timeline.fit());
}

/**
 * @param {Timeline} timeline
 * @param {{ x: number }[]} before
 * @param {{ x: number }[]} now
 */
function pinch(timeline, before, now) {
  const { state } = timeline;
  const apart = (/** @type {{ x: number }[]} */ points) => Math.max(Math.abs(points[0].x - points[1].x), 10);
  const middle = (/** @type {{ x: number }[]} */ points) => (points[0].x + points[1].x) / 2;
  const about = momentAt(timeline, middle(before));
  const closer = zoomed(state.view, apart(before) / apart(now), about, state.model.extent);
  const perPixel = (closer.to - closer.from) / (state.width - state.gutter);
  timeline.show(moved(closer, (middle(before) - middle(now)) * perPixel, state.model.extent));
}

/**
 * @param {Timeline} timeline
 * @param {PointerEvent} event
 */
function click(timeline, event) {
  timeline.controls.scroller.focus({ preventScroll: true });
  const { slice, row } = hit(timeline, event);
  if (row !== undefined) {
    toggle(timeline.state, row);
    timeline.relaid();
  } else timeline.select(slice, false);
}

/** @param {Timeline} timeline */
function overview(timeline) {
  const canvas = timeline.controls.overview;
  const go = (/** @type {PointerEvent} */ event) => {
    const { view, model } = timeline.state;
    const box = canvas.getBoundingClientRect();
    const [first, last] = model.extent;
    const moment = first + (event.clientX - box.left) / box.width * (last - first);
    timeline.show(moved(view, moment - (view.from + view.to) / 2, model.extent));
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    go(event);
  });
  canvas.addEventListener("pointermove", (event) => event.buttons && go(event));
}

/**
 * @param {Timeline} timeline
 * @param {KeyboardEvent} event
 * @returns {boolean} whether the key means something here
 */
function key(timeline, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const { state } = timeline;
  const { extent } = state.model;
  const span = state.view.to - state.view.from;
  const middle = (state.view.from + state.view.to) / 2;
  /** @type {Record<string, () => void>} */
  const actions = {
    ArrowRight: () => timeline.step(1),
    ArrowLeft: () => timeline.step(-1),
    ArrowDown: () => timeline.stepLine(1),
    ArrowUp: () => timeline.stepLine(-1),
    Enter: () => timeline.select(state.selected < 0 ? timeline.firstInView() : state.selected, true),
    Escape: () => timeline.clear(),
    f: () => timeline.fit(),
    0: () => timeline.show(whole(extent)),
    "/": () => timeline.controls.search.focus(),
    w: () => timeline.show(zoomed(state.view, 1 / ZOOM, middle, extent)),
    s: () => timeline.show(zoomed(state.view, ZOOM, middle, extent)),
    "+": () => timeline.show(zoomed(state.view, 1 / ZOOM, middle, extent)),
    "-": () => timeline.show(zoomed(state.view, ZOOM, middle, extent)),
    a: () => timeline.show(moved(state.view, -span * MOVE, extent)),
    d: () => timeline.show(moved(state.view, span * MOVE, extent)),
  };
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
  action?.();
  return action !== undefined;
}
