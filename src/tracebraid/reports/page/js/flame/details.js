// What a frame of a flame graph is, in words: in the tooltip, and below the graph.
import { duration, integer, percent } from "tracebraid/format.js";
import { element, factList } from "tracebraid/elements.js";
import { LABELS } from "tracebraid/flame/paint.js";
import { printable } from "tracebraid/printable.js";
import { stackOf } from "tracebraid/flame/tree.js";

/** @typedef {import("tracebraid/flame/tree.js").Tree} Tree */

const NAME_MOST = 300; // characters of a name in the tooltip
const STACK_MOST = 200; // frames that are listed

/**
 * @param {Tree} tree
 * @param {number} frame
 */
export function inBrief(tree, frame) {
  const share = tree.total[0] > 0 ? `, ${percent(tree.total[frame] / tree.total[0])}` : "";
  const name = printable(tree.names[frame]);
  const cut = name.length > NAME_MOST ? `${name.slice(0, NAME_MOST)}…` : name;
  return `${cut}: ${duration(tree.total[frame])}${share}; ${duration(tree.self[frame])} of it in itself`;
}

/**
 * @param {HTMLElement} panel is filled anew
 * @param {Tree} tree
 * @param {number} frame
 */
export function showDetails(panel, tree, frame) {
  const of = (/** @type {number} */ time) =>
    tree.total[0] > 0 ? `${duration(time)} (${percent(time / tree.total[0])})` : duration(time);
  const kind = /** @type {Record<string, string>} */ (LABELS)[tree.kinds[frame]] ?? "all frames";
  /** @type {[string, string][]} */
  const facts = [
    ["frame", printable(tree.names[frame])],
    ["kind", kind],
    ["total", of(tree.total[frame])],
    ["self", of(tree.self[frame])],
  ];
  if (tree.count[frame] > 0) facts.push(["count", integer(tree.count[frame])]);
  panel.replaceChildren(factList(facts, "facts"));
  const stack = stackOf(tree, frame).slice(1, -1);
  if (stack.length) panel.append(stackList(tree, stack));
}

/**
 * @param {Tree} tree
 * @param {number[]} stack the outermost first
 */
function stackList(tree, stack) {
  const fold = element("details");
  fold.append(element("summary", undefined, `Stack of ${integer(stack.length)}`));
  const list = element("ol");
  const left = stack.length - STACK_MOST;
  for (const frame of stack.slice(-STACK_MOST)) {
    list.append(element("li", undefined, printable(tree.names[frame])));
  }
  if (left > 0) {
    fold.append(
      element("p", undefined, `The innermost ${STACK_MOST}; ${integer(left)} more are around them.`),
    );
  }
  fold.append(list);
  return fold;
}
