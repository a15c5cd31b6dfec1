// The elements of the timeline: buttons, search, canvases, panel of details.
import { button, checkbox, element, spokenIn } from "tracebraid/elements.js";
import { tooltipIn } from "tracebraid/tooltip.js";
import { LEGEND, propertyOf } from "tracebraid/timeline/colours.js";

/** @typedef {ReturnType<typeof controlsIn>} Controls */

const HELP =
  "Arrow keys: next slice, line above or below. Enter: select. Escape: clear. F: fit the selection. 0: all. W, S: zoom. A, D: move. /: search.";

/**
 * @param {Element} drawing
 */
export function controlsIn(drawing) {
  const root = element("div", "timeline");
  const bar = element("div", "timeline-bar");
  const buttons = {
    in: titled("+", "Zoom in"),
    out: titled("−", "Zoom out"),
    all: titled("All", "Show all of the time"),
    fit: titled("Fit", "Fit the selected slice"),
    collapse: titled("Collapse", "Collapse or open all ranks"),
    previous: titled("‹", "Previous match"),
    next: titled("›", "Next match"),
  };
  const search = document.createElement("input");
  search.type = "search";
  search.className = "filter";
  search.placeholder = "Search names";
  search.setAttribute("aria-label", "Search slices by name");
  const matches = element("output", "timeline-matches");
  const [path, pathLabel] = checkbox("Critical path");
  const [arrows, arrowsLabel] = checkbox("Arrows");
  const find = element("span", "timeline-find");
  find.append(search, buttons.previous, buttons.next);
  bar.append(
    buttons.in,
    buttons.out,
    buttons.all,
    buttons.fit,
    buttons.collapse,
    find,
    matches,
    pathLabel,
    arrowsLabel,
  );
  const overview = document.createElement("canvas");
  overview.className = "timeline-overview";
  overview.setAttribute("aria-hidden", "true");
  const scroller = element("div", "timeline-scroller");
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "application");
  scroller.setAttribute("aria-roledescription", "timeline");
  scroller.setAttribute("aria-label", `Timeline. ${HELP}`);
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Slices of threads and streams over time");
  const spacer = element("div", "timeline-spacer");
  scroller.append(canvas, spacer);
  const details = element("div", "timeline-details");
  details.setAttribute("role", "region");
  details.setAttribute("aria-label", "The selected slice");
  details.tabIndex = 0;
  details.hidden = true;
  const help = element("p", "timeline-help");
  help.textContent = HELP;
  const body = element("div", "timeline-body");
  const stage = element("div", "timeline-stage");
  stage.append(overview, scroller);
  body.append(stage, details);
  root.append(bar, body, legend(), help);
  const status = spokenIn(root);
  const tooltip = tooltipIn(root);
  drawing.replaceChildren(root);
  return {
    root,
    buttons,
    search,
    matches,
    path,
    arrows,
    overview,
    scroller,
    canvas,
    spacer,
    tooltip,
    status,
    details,
  };
}

/**
 * @param {string} text
 * @param {string} label
 */
function titled(text, label) {
  const made = button(text, { name: "control", label });
  made.title = label;
  return made;
}

function legend() {
  const list = element("ul", "timeline-legend");
  for (const [label, kind, family] of LEGEND) {
    const item = document.createElement("li");
    const swatch = element("span", "swatch");
    swatch.style.background = `var(${propertyOf(kind, family)})`;
    item.append(swatch, label ?? "");
    list.append(item);
  }
  return list;
}
