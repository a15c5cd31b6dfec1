// Paints the boxes of a flame graph on a canvas.
import { colour, textOn } from "tracebraid/colours.js";
import { printable } from "tracebraid/printable.js";

/** @typedef {import("tracebraid/flame/tree.js").Box} Box */
/** @typedef {import("tracebraid/flame/tree.js").Tree} Tree */

/**
 * @typedef {object} View
 * @property {Tree} tree
 * @property {Box[]} boxes
 * @property {number} selected
 * @property {number} focus
 * @property {Uint8Array | null} matches null: nothing is sought
 * @property {number} top in px, of what is scrolled away
 */

export const ROW = 19; // px
const TEXT_FROM = 28; // px of a box that has text
const FONT = "12px system-ui, sans-serif";
const PADDING = 4; // px
const UNMATCHED = 0.25;

/** The custom property of each kind's colour. */
export const COLOURS = {
  all: "--faint",
  op: "--host",
  annotation: "--series-5",
  call: "--series-8",
  python: "--series-10",
  module: "--series-4",
  compute: "--compute",
  communication: "--communication",
  memory: "--memory",
  wait: "--idle",
  unattributed: "--idle",
  smaller: "--line",
};

/** What each kind is, in the legend. */
export const LABELS = {
  op: "op",
  annotation: "annotation",
  call: "call of a runtime",
  python: "Python function",
  module: "module",
  compute: "kernel: compute",
  communication: "kernel: communication",
  memory: "copy or fill",
  wait: "wait on the device",
  unattributed: "in no frame",
  smaller: "several, smaller",
};

/** The colours as a canvas takes them: asked for once for each change of them. */
export function palette() {
  /** @type {Record<string, { fill: string, text: string }>} */
  const found = Object.create(null);
  for (const [kind, name] of Object.entries(COLOURS)) {
    const fill = colour(name);
    found[kind] = { fill, text: textOn(fill) };
  }
  return { kinds: found, ground: colour("--ground"), text: colour("--text"), mark: colour("--critical") };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {View} view
 * @param {ReturnType<typeof palette>} colours
 */
export function paint(canvas, view, colours) {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const ratio = devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.ground;
  const height = canvas.height / ratio;
  context.fillRect(0, 0, canvas.width / ratio, height);
  context.font = FONT;
  context.textBaseline = "middle";
  for (const box of view.boxes) {
    const top = box.row * ROW - view.top;
    if (top > -ROW && top < height) paintBox(context, view, colours, box, top);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {ReturnType<typeof palette>} colours
 * @param {Box} box
 * @param {number} top in px
 */
function paintBox(context, view, colours, box, top) {
  const { tree, matches } = view;
  const look = colours.kinds[tree.kinds[box.frame]] ?? colours.kinds.op;
  const width = Math.max(box.width - 1, 0.5);
  const isFaint = matches !== null && !matches[box.frame];
  context.globalAlpha = isFaint ? UNMATCHED : 1;
  context.fillStyle = look.fill;
  context.fillRect(box.left, top, width, ROW - 1);
  context.globalAlpha = 1;
  if (matches?.[box.frame]) {
    context.fillStyle = colours.mark;
    context.fillRect(box.left, top + ROW - 4, width, 3);
  }
  if (box.width >= TEXT_FROM) {
    context.fillStyle = isFaint ? colours.text : look.text;
    const text = fitted(context, printable(tree.names[box.frame]), box.width - 2 * PADDING);
    context.fillText(text, box.left + PADDING, top + ROW / 2);
  }
  if (box.frame === view.selected) {
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    context.strokeRect(box.left + 1, top + 1, Math.max(width - 2, 1), ROW - 3);
  }
}

/**
 * The text, cut where it is too long.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} width in px
 */
function fitted(context, text, width) {
  const most = Math.floor(width / 3); // px of the narrowest usual letters
  const whole = text.length > most ? text.slice(0, most) : text;
  if (whole.length === text.length && context.measureText(whole).width <= width) return whole;
  let [low, high] = [0, whole.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${whole.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${whole.slice(0, low)}…` : "";
}
