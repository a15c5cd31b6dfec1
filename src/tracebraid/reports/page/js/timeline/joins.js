// Joins slices: launches and waits of the selected one, and the members of collectives on all ranks.
import { launchedBy, membersOf, waitedFor, waitingFor } from "tracebraid/timeline/relations.js";
import { RULER, topOfSlice } from "tracebraid/timeline/render.js";
import { LINE } from "tracebraid/timeline/layout.js";

/** @typedef {import("tracebraid/timeline/render.js").Scene} Scene */

/** Collectives in view that are joined; of more, only the selected one. */
const MOST_COLLECTIVES = 150;
/** Arrows of the selected slice. */
const MOST_ARROWS = 200;

/** @param {Scene} scene */
export function drawJoins(scene) {
  const { state, ctx } = scene;
  if (!state.showArrows) return;
  ctx.lineWidth = 1;
  drawCollectives(scene);
  const { model, selected, colours } = state;
  if (selected < 0) return;
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = ctx.fillStyle = colours.accent;
  for (const member of membersOf(model, selected)) arrow(scene, selected, member, false);
  const after = [...launchedBy(model, selected), ...waitingFor(model, selected).map((found) => found.slice)];
  for (const { slice } of waitedFor(model, selected).slice(0, MOST_ARROWS)) {
    arrow(scene, slice, selected, true);
  }
  for (const slice of after.slice(0, MOST_ARROWS)) arrow(scene, selected, slice, true);
}

/** @param {Scene} scene */
function drawCollectives(scene) {
  const { state, ctx } = scene;
  const { model, view } = state;
  const shown = [...model.members.values()].filter((members) =>
    members.length > 1 &&
    members.some((slice) =>
      model.start[slice] < view.to && model.start[slice] + model.duration[slice] > view.from
    )
  );
  if (shown.length > MOST_COLLECTIVES) return;
  ctx.strokeStyle = state.colours.faint;
  ctx.beginPath();
  for (const members of shown) {
    for (let at = 1; at < members.length; at++) {
      const [from, to] = [point(scene, members[at - 1], 1), point(scene, members[at], 1)];
      if (Number.isNaN(from.y + to.y)) continue;
      ctx.moveTo(from.x, from.y);
      ctx.lineTo(to.x, to.y);
    }
  }
  ctx.stroke();
}

/**
 * @param {Scene} scene
 * @param {number} slice
 * @param {number} share 0: its start, 1: its end
 */
function point({ state, left, scale }, slice, share) {
  const { model, view, scroll } = state;
  const moment = model.start[slice] + share * model.duration[slice];
  return { x: left + (moment - view.from) * scale, y: topOfSlice(state, slice) - scroll + RULER + LINE / 2 };
}

/**
 * @param {Scene} scene
 * @param {number} from
 * @param {number} to
 * @param {boolean} pointed from an end to a start, with a point; else between the ends
 */
function arrow(scene, from, to, pointed) {
  const { ctx, state } = scene;
  const { start, duration } = state.model;
  // What encloses or calls the other begins before it: the arrow leaves at its start.
  const leaves = start[from] + duration[from] <= start[to] ? 1 : 0;
  const tail = point(scene, from, pointed ? leaves : 1);
  const head = point(scene, to, pointed ? 0 : 1);
  if (Number.isNaN(tail.y + head.y)) return;
  const bend = Math.max(Math.min(Math.abs(head.x - tail.x) / 2, 80), 12);
  ctx.beginPath();
  ctx.moveTo(tail.x, tail.y);
  ctx.bezierCurveTo(tail.x + bend, tail.y, head.x - bend, head.y, head.x, head.y);
  ctx.stroke();
  if (!pointed) return;
  ctx.beginPath();
  ctx.moveTo(head.x, head.y);
  ctx.lineTo(head.x - 7, head.y - 4);
  ctx.lineTo(head.x - 7, head.y + 4);
  ctx.fill();
}
