// What a chart stands on: an SVG as wide as the page gives it, drawn again when that changes.
import { add, box } from "tracebraid/charts/svg.js";
import { explore } from "tracebraid/charts/explore.js";

/** @typedef {import("tracebraid/charts/explore.js").Marks} Marks */
/**
 * @typedef {object} Stage
 * @property {SVGElement} svg
 * @property {number} width px
 * @property {(height: number) => void} setHeight
 */

/** px, where the page has not laid the chart out yet. */
const WIDTH = 640;

/**
 * Draw now, and whenever the width changes.
 *
 * @param {HTMLElement} drawing
 * @param {(stage: Stage) => Marks} paint draws for a width; returns what pointer and keys can reach
 */
export function onStage(drawing, paint) {
  const holder = box(drawing, "chart-stage");
  const explorer = explore(holder);
  let width = 0;
  const repaint = () => {
    const given = Math.round(drawing.clientWidth);
    if (given === width || (given === 0 && width > 0)) return;
    width = given;
    holder.querySelector("svg")?.remove();
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("aria-hidden", "true");
    holder.prepend(svg);
    const stage = {
      svg,
      width: given || WIDTH,
      /** @param {number} height */
      setHeight(height) {
        svg.setAttribute("viewBox", `0 0 ${stage.width} ${Math.ceil(height)}`);
        svg.style.maxWidth = `${stage.width}px`;
      },
    };
    const marks = paint(stage);
    const ring = add(svg, "rect", { class: "chart-ring", rx: 2, visibility: "hidden" });
    explorer.show(marks, ring, stage.width);
  };
  repaint();
  new ResizeObserver(repaint).observe(drawing);
}
