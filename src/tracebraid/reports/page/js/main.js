// Draws each chart and table of the page when it comes near the window, or when there is nothing else to do.
import { frameOf } from "tracebraid/data_block.js";
import { showFailure } from "tracebraid/page/failure.js";
import { followFolds } from "tracebraid/page/folds.js";
import { openKeys } from "tracebraid/page/keys.js";
import { followSections } from "tracebraid/page/sections.js";
import { followTheme } from "tracebraid/page/theme.js";

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
const DRAWN = "[data-chart], [data-block]";
const NEAR = "400px"; // of the window: what is nearer is drawn

/** @param {string} id of a block */
function blockOf(id) {
  return frameOf(document.getElementById(id)?.textContent ?? "");
}

/** @param {HTMLElement} figure */
async function drawChart(figure) {
  const blocks = JSON.parse(figure.dataset.blocks ?? "{}");
  /** @type {Record<string, import("tracebraid/data_block.js").Frame>} */
  const frames = Object.create(null);
  for (const [name, id] of Object.entries(blocks)) frames[name] = await blockOf(String(id));
  const module = await import(CHARTS[/** @type {keyof typeof CHARTS} */ (figure.dataset.chart)]);
  await module.draw(figure.querySelector(".drawing"), frames, JSON.parse(figure.dataset.options ?? "{}"));
}

/** @type {Promise<(string | null)[]> | null} */
let docs = null;

/** What columns mean, by the numbers that tables know these texts by. */
function columnDocs() {
  return docs ??= blockOf("column-docs").then((
    frame,
  ) => /** @type {(string | null)[]} */ (frame.columns.doc));
}

/** @param {HTMLElement} element */
async function drawTable(element) {
  const { draw } = await import("tracebraid/table/table.js");
  draw(element, await blockOf(element.dataset.block ?? ""), await columnDocs());
}

/** @param {HTMLElement} element that is not drawn yet */
async function drawn(element) {
  waiting.delete(element);
  watcher.unobserve(element);
  try {
    await ("chart" in element.dataset ? drawChart(element) : drawTable(element));
    element.dataset.state = "ready";
  } catch (error) {
    showFailure(element, error);
  }
}

async function drawWhenIdle() {
  for (const element of waiting) {
    await new Promise((resume) => (self.requestIdleCallback ?? setTimeout)(resume));
    if (waiting.has(element) && element.closest("details:not([open])") === null) await drawn(element);
  }
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const element = /** @type {HTMLElement} */ (entry.target);
    if (entry.isIntersecting && waiting.has(element)) drawn(element);
  }
}, { rootMargin: NEAR });

/** @type {Set<HTMLElement>} */
const waiting = new Set(document.querySelectorAll(DRAWN));
for (const element of waiting) watcher.observe(element);
followTheme();
followFolds();
followSections();
openKeys();
if (document.readyState === "complete") drawWhenIdle();
else addEventListener("load", drawWhenIdle, { once: true });
addEventListener("beforeprint", () => {
  for (const element of waiting) if (element.closest("details:not([open])") === null) drawn(element);
});
if (document.getElementById("open-in-perfetto") !== null) {
  import("tracebraid/perfetto.js").then(({ offer }) => offer());
}
