// Tooltips of canvases and charts: within the window, and gone with Escape.
import { element } from "tracebraid/elements.js";

/** px between the pointer and its tooltip. */
const GAP = 14;
/** px that stay free at the window's edges. */
const MARGIN = 4;

/**
 * A tooltip, hidden at first.
 * @param {Element} holder its positions are relative to
 */
export function tooltipIn(holder) {
  const tooltip = element("div", "tooltip");
  tooltip.hidden = true;
  tooltip.setAttribute("aria-hidden", "true");
  holder.append(tooltip);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tooltip.hidden = true;
  });
  return tooltip;
}

/**
 * Right of and below the pointer; where the window ends, left of or above it.
 * @param {HTMLElement} tooltip is shown
 * @param {{ clientX: number, clientY: number }} at
 */
export function putAtPointer(tooltip, at) {
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const { clientWidth, clientHeight } = document.documentElement;
  const origin = (tooltip.offsetParent ?? document.body).getBoundingClientRect();
  const right = clientWidth - width - MARGIN;
  const left = Math.max(Math.min(at.clientX + GAP, right), MARGIN);
  const below = at.clientY + GAP;
  const above = at.clientY - GAP - height;
  const top = below + height <= clientHeight - MARGIN || above < MARGIN ? below : above;
  put(tooltip, left - origin.left, top - origin.top);
}

/**
 * @param {HTMLElement} tooltip
 * @param {number} left px, of its holder
 * @param {number} top px
 */
export function put(tooltip, left, top) {
  tooltip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
