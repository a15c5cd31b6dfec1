// Draws each chart and table of the page when it comes near the window.
import { frameOf } from "tracebraid/data_block.js";

/** Modules that draw charts; each exports `draw(drawing, frames, options)`, where frames are by name. */
const CHARTS = {
  bars: "tracebraid/charts/bars.js",
  stacked_bars: "tracebraid/charts/stacked_bars.js",
  heat_map: "tracebraid/charts/heat_map.js",
  lines: "tracebraid/charts/lines.js",
  areas: "tracebraid/charts/areas.js",
  scatter: "tracebraid/charts/scatter.js",
  timeline: "tracebraid/timeline/timeline.js",
  flame: "tracebraid/flame/flame.js",
};

/** @param {string} id of a block */
export function blockOf(id) {
  return frameOf(document.getElementById(id)?.textContent ?? "");
}

/** @param {HTMLElement} figure */
async function drawChart(figure) {
  const blocks = JSON.parse(figure.dataset.blocks ?? "{}");
  /** @type {Record<string, import("tracebraid/data_block.js").Frame>} */
  const frames = Object.create(null);
  for (const [name, id] of Object.entries(blocks)) frames[name] = await blockOf(String(id));
  const module = await import(CHARTS[/** @type {keyof typeof CHARTS} */ (figure.dataset.chart)]);
  module.draw(figure.querySelector(".drawing"), frames, JSON.parse(figure.dataset.options ?? "{}"));
}

/** @param {HTMLElement} element */
async function drawTable(element) {
  const { draw } = await import("tracebraid/table/table.js");
  draw(element, await blockOf(element.dataset.block ?? ""));
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    const element = /** @type {HTMLElement} */ (entry.target);
    const drawn = "chart" in element.dataset ? drawChart(element) : drawTable(element);
    drawn.then(() => (element.dataset.state = "ready"));
  }
}, { rootMargin: "400px" });

for (const element of document.querySelectorAll("[data-chart], [data-block]")) watcher.observe(element);
