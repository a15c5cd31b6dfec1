// Pointer and keys over the marks of a chart: a tooltip says what each stands for. The chart is a single tab stop.
import { box } from "tracebraid/charts/svg.js";
import { spokenIn } from "tracebraid/elements.js";
import { put, tooltipIn } from "tracebraid/tooltip.js";

/**
 * @typedef {object} Mark
 * @property {number} x px, left
 * @property {number} y px, top
 * @property {number} width px
 * @property {number} height px
 * @property {string} title
 * @property {[string, string][]} [rows] label and figure
 */
/**
 * @typedef {object} Marks
 * @property {number} count
 * @property {(index: number) => Mark} mark
 * @property {(x: number, y: number) => number} find the mark at a point of the SVG; -1: none
 * @property {(index: number, key: string) => number} [move] the mark that an arrow key leads to
 */

/** px between a mark and its tooltip. */
const GAP = 10;
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];
/** Marks that PageUp and PageDown pass over. */
const PAGE = 10;

/**
 * @param {HTMLElement} holder holds the SVG
 */
export function explore(holder) {
  /** @type {Marks} */
  let marks = { count: 0, mark: () => ({ x: 0, y: 0, width: 0, height: 0, title: "" }), find: () => -1 };
  let ring = /** @type {Element | null} */ (null);
  let width = 1;
  let active = -1;
  holder.tabIndex = 0;
  holder.setAttribute("role", "application");
  holder.setAttribute("aria-roledescription", "chart");
  holder.setAttribute("aria-label", "Chart: arrow keys go from value to value, Escape leaves them");
  const tooltip = tooltipIn(holder);
  const spoken = spokenIn(holder);

  /** @param {number} index */
  const activate = (index) => {
    active = index;
    tooltip.hidden = index < 0;
    if (ring === null || index < 0) {
      ring?.setAttribute("visibility", "hidden");
      return;
    }
    const mark = marks.mark(index);
    ring.setAttribute("visibility", "visible");
    ring.setAttribute("x", String(mark.x - 1));
    ring.setAttribute("y", String(mark.y - 1));
    ring.setAttribute("width", String(mark.width + 2));
    ring.setAttribute("height", String(mark.height + 2));
    fill(tooltip, mark);
    putBeside(tooltip, mark, holder, width);
  };

  holder.addEventListener("pointermove", (event) => {
    const frame = holder.querySelector("svg")?.getBoundingClientRect();
    if (frame === undefined || frame.width === 0) return;
    const scale = width / frame.width;
    activate(marks.find((event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale));
  });
  holder.addEventListener("pointerleave", () => activate(-1));
  holder.addEventListener("blur", () => activate(-1));
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Escape") activate(-1);
    if (!KEYS.includes(event.key) || marks.count === 0 || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    event.preventDefault();
    activate(active < 0 ? (event.key === "End" ? marks.count - 1 : 0) : reached(marks, active, event.key));
    spoken.textContent = tooltip.textContent;
  });

  return {
    /**
     * @param {Marks} found
     * @param {Element} drawn the ring around the active mark
     * @param {number} drawnWidth of the SVG, px
     */
    show(found, drawn, drawnWidth) {
      marks = found;
      ring = drawn;
      width = drawnWidth;
      activate(active < found.count ? active : -1);
    },
  };
}

/**
 * @param {Marks} marks
 * @param {number} index
 * @param {string} key
 */
function reached(marks, index, key) {
  if (key === "Home") return 0;
  if (key === "End") return marks.count - 1;
  if (key.startsWith("Arrow") && marks.move !== undefined) return marks.move(index, key);
  const step = key.startsWith("Page") ? PAGE : 1;
  const to = ["ArrowLeft", "ArrowUp", "PageUp"].includes(key) ? index - step : index + step;
  return Math.min(Math.max(to, 0), marks.count - 1);
}

/**
 * @param {HTMLElement} tooltip
 * @param {Mark} mark
 */
function fill(tooltip, mark) {
  tooltip.replaceChildren();
  box(tooltip, "chart-tooltip-title", `${mark.title} `);
  for (const [label, figure] of mark.rows ?? []) {
    const row = box(tooltip, "chart-tooltip-row");
    box(row, "chart-tooltip-label", `${label} `);
    box(row, "chart-tooltip-figure", `${figure} `);
  }
}

/**
 * Beside the mark, within the chart.
 *
 * @param {HTMLElement} tooltip
 * @param {Mark} mark
 * @param {HTMLElement} holder
 * @param {number} width of the SVG, px
 */
function putBeside(tooltip, mark, holder, width) {
  const scale = holder.clientWidth / width;
  const middle = (mark.x + Math.min(mark.width, width - mark.x) / 2) * scale;
  const left = Math.min(
    Math.max(middle - tooltip.offsetWidth / 2, 0),
    holder.clientWidth - tooltip.offsetWidth,
  );
  const above = mark.y * scale - tooltip.offsetHeight - GAP;
  const below = (mark.y + mark.height) * scale + GAP;
  put(tooltip, Math.max(left, 0), above >= -tooltip.offsetHeight / 2 ? above : below);
}
