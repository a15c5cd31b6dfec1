// The colours of a chart and what they mean.
import { box } from "tracebraid/charts/svg.js";

/** @typedef {{ column: string, name: string, colour?: string }} Series colour: a custom property without its `--` */

/** Colours of the palette. */
const SERIES = 10;

/**
 * @param {{ colour?: string }} series
 * @param {number} index
 */
export function colourOf(series, index) {
  return `var(--${series.colour ?? `series-${(index % SERIES) + 1}`})`;
}

/**
 * @param {HTMLElement} drawing
 * @param {Series[]} series
 */
export function addLegend(drawing, series) {
  const legend = box(drawing, "chart-legend");
  for (const [index, item] of series.entries()) {
    const entry = box(legend, "chart-legend-entry");
    box(entry, "chart-swatch").style.background = colourOf(item, index);
    box(entry, "chart-legend-name", item.name);
  }
}
