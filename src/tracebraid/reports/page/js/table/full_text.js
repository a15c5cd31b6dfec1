// The whole of a long text, one click away.

import { button, element } from "tracebraid/elements.js";

/** @type {HTMLElement | null} */
let panel = null;
/** @type {HTMLElement | null} */
let opener = null;

/**
 * @param {HTMLElement} button beside which it stands
 * @param {string} text
 */
export function showFullText(button, text) {
  const shown = panel ?? (panel = madePanel());
  const content = shown.querySelector(".content");
  if (content !== null) content.textContent = text;
  opener = button;
  shown.hidden = false;
  const { left, bottom } = button.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  shown.style.left = `${Math.max(8, Math.min(left, width - shown.offsetWidth - 8)) + scrollX}px`;
  shown.style.top = `${bottom + 4 + scrollY}px`;
  shown.focus({ preventScroll: true });
}

/** @param {boolean} isFocused whether the focus goes back to where it was */
function hide(isFocused) {
  if (panel === null || panel.hidden) return;
  panel.hidden = true;
  if (isFocused && opener?.isConnected) opener.focus({ preventScroll: true });
}

function madePanel() {
  const made = element("div", "full-text");
  made.tabIndex = -1;
  made.setAttribute("role", "dialog");
  made.setAttribute("aria-label", "Full text");
  made.append(element("p", "content"), button("Close", { name: "control", act: () => hide(true) }));
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide(true);
  });
  document.addEventListener("pointerdown", (event) => {
    if (event.target instanceof Node && !made.contains(event.target)) hide(false);
  });
  document.body.append(made);
  return made;
}
