// A flame graph, from the outermost frame downwards: choose a tree, zoom, search, walk by keys.
import { COLOURS_CHANGED } from "tracebraid/colours.js";
import { duration, integer, percent } from "tracebraid/format.js";
import { boxesOf, neighbour, search, stackOf, treeOf, without } from "tracebraid/flame/tree.js";
import { COLOURS, LABELS, paint, palette, ROW } from "tracebraid/flame/paint.js";
import { inBrief, showDetails } from "tracebraid/flame/details.js";
import { controlsOf } from "tracebraid/flame/controls.js";
import { element, spokenIn } from "tracebraid/elements.js";
import { putAtPointer, tooltipIn } from "tracebraid/tooltip.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/flame/tree.js").Tree} Tree */
/** @typedef {{ name: string, title: string }} TreeName */

const LEAST = 0.4; // px of a box that is drawn
const HEIGHT = 460; // px of the graph at most; more is scrolled
const MOVES = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home"];

class Flame {
  /**
   * @param {HTMLElement} drawing
   * @param {Record<string, Frame>} frames of each tree, by its name
   * @param {TreeName[]} names
   */
  constructor(drawing, frames, names) {
    this.names = names;
    this.frames = frames;
    /** @type {Map<string, Tree>} */
    this.trees = new Map();
    this.name = names[0].name;
    this.withPython = true;
    this.sought = "";
    this.controls = controlsOf(names, this);
    this.scroller = element("div", "flame-scroll");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "flame graph");
    this.spacer = element("div");
    this.scroller.append(this.canvas, this.spacer);
    this.details = element("div", "flame-details");
    this.legend = element("ul", "flame-legend");
    drawing.classList.add("flame");
    drawing.append(this.controls.bar, this.legend, this.scroller, this.details);
    this.spoken = spokenIn(drawing);
    this.tooltip = tooltipIn(drawing);
    this.colours = palette();
    this.listen();
    this.choose(this.name);
    new ResizeObserver(() => this.resize()).observe(this.scroller);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("click", (event) => this.zoom(this.frameAt(event)));
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => (this.tooltip.hidden = true));
    canvas.addEventListener("keydown", (event) => this.press(event));
    this.scroller.addEventListener("scroll", () => this.redraw());
    document.addEventListener(COLOURS_CHANGED, () => {
      this.colours = palette();
      this.redraw();
    });
  }

  /** @param {string} name of a tree */
  choose(name) {
    this.name = name;
    const whole = this.trees.get(name) ?? treeOf(this.frames[name]);
    this.trees.set(name, whole);
    const hasPython = whole.kinds.includes("python");
    this.tree = hasPython && !this.withPython ? without(whole, "python") : whole;
    this.boxes = undefined; // those of the tree before
    this.focus = 0;
    this.selected = 0;
    this.controls.show(name, hasPython);
    this.showLegend();
    this.seek(this.sought);
    this.select(0);
    this.resize();
  }

  /** @param {boolean} shown whether Python functions have frames */
  showPython(shown) {
    this.withPython = shown;
    this.choose(this.name);
  }

  /** @param {string} text that names have */
  seek(text) {
    this.sought = text;
    const { matches, frames, time } = search(this.whole, text);
    this.matches = text === "" ? null : matches;
    const share = this.whole.total[0] > 0 ? percent(time / this.whole.total[0]) : "-";
    this.controls.found.textContent = text === "" ? "" : `${share} in ${integer(frames)} frames`;
    this.redraw();
  }

  get whole() {
    return /** @type {Tree} */ (this.tree);
  }

  /** @param {number} frame fills the width from now on */
  zoom(frame) {
    if (frame < 0) return;
    this.focus = frame;
    this.controls.reset.disabled = frame === 0;
    this.select(frame);
    this.resize();
  }

  /** @param {number} frame */
  select(frame) {
    this.selected = frame;
    const title = this.names.find((tree) => tree.name === this.name)?.title ?? "";
    this.canvas.setAttribute("aria-label", `${title}: ${inBrief(this.whole, frame)}`);
    showDetails(this.details, this.whole, frame);
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.key === "Enter" || event.key === " ") this.zoom(this.selected ?? 0);
    else if (event.key === "Escape") this.zoom(0);
    else if (MOVES.includes(event.key)) this.move(event.key);
    else return;
    event.preventDefault();
  }

  /** @param {string} key */
  move(key) {
    const frame = neighbour(this.whole, this.selected ?? 0, key);
    const isInView = stackOf(this.whole, frame).includes(this.focus ?? 0);
    if (isInView) this.select(frame);
    else this.zoom(frame);
    this.spoken.textContent = inBrief(this.whole, frame);
    const top = this.whole.depth[frame] * ROW;
    const { scroller } = this;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + ROW > scroller.scrollTop + scroller.clientHeight) {
      scroller.scrollTop = top + ROW - scroller.clientHeight;
    }
  }

  /** @param {MouseEvent} event */
  frameAt(event) {
    const area = this.canvas.getBoundingClientRect();
    const left = event.clientX - area.left;
    const row = Math.floor((event.clientY - area.top + this.scroller.scrollTop) / ROW);
    const box = this.boxes?.find((box) => box.row === row && box.left <= left && left < box.left + box.width);
    return box === undefined ? -1 : box.frame;
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const frame = this.frameAt(event);
    this.tooltip.hidden = frame < 0;
    this.canvas.style.cursor = frame < 0 ? "" : "pointer";
    if (frame < 0) return;
    this.tooltip.textContent = inBrief(this.whole, frame);
    putAtPointer(this.tooltip, event);
  }

  resize() {
    const width = this.scroller.clientWidth;
    if (width === 0 || this.tree === undefined) return;
    this.boxes = boxesOf(this.whole, this.focus ?? 0, width, LEAST);
    const rows = this.boxes.reduce((most, box) => Math.max(most, box.row + 1), 1);
    const height = Math.min(rows * ROW, HEIGHT);
    const ratio = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.spacer.style.height = `${rows * ROW - height}px`;
    this.redraw();
  }

  redraw() {
    if (this.boxes === undefined) return;
    const view = {
      tree: this.whole,
      boxes: this.boxes,
      selected: this.selected ?? 0,
      focus: this.focus ?? 0,
      matches: this.matches ?? null,
      top: this.scroller.scrollTop,
    };
    paint(this.canvas, view, this.colours);
  }

  showLegend() {
    const kinds = new Set(this.whole.kinds);
    const items = Object.entries(LABELS).filter(([kind]) => kinds.has(kind)).map(([kind, label]) => {
      const item = element("li", undefined, label);
      item.style.setProperty("--swatch", `var(${/** @type {Record<string, string>} */ (COLOURS)[kind]})`);
      return item;
    });
    const whole = element("li", "flame-whole", `in all ${duration(this.whole.total[0])}`);
    this.legend.replaceChildren(whole, ...items);
  }
}

/**
 * @param {HTMLElement} drawing
 * @param {Record<string, Frame>} frames of each tree, by its name
 * @param {{ trees: TreeName[] }} options
 */
export function draw(drawing, frames, options) {
  new Flame(drawing, frames, options.trees);
}
