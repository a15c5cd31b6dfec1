// The keys of the page: a dialog that lists them, opened with `?`.

import { button, element } from "tracebraid/elements.js";

/** Keys of the page, and of its charts where these have the focus. */
const KEYS = [
  ["?", "this list"],
  ["[ and ]", "section before, section behind"],
  ["/", "filter the table that is next"],
  ["Tab", "to the next control"],
  ["Enter or Space", "sort by the column, open, choose"],
  ["Esc", "close"],
];

export function openKeys() {
  const dialog = madeDialog();
  const button = document.getElementById("open-keys");
  if (button !== null) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) {
      return;
    }
    if (event.key === "?" && !dialog.open) dialog.showModal();
    else if (event.key === "[") go(-1);
    else if (event.key === "]") go(1);
    else if (event.key === "/") focusFilter(event);
  });
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement &&
    target.closest("input, textarea, select, [role=application]") !== null;
}

/** @param {number} step */
function go(step) {
  const links = Array.from(document.querySelectorAll("#sections a"));
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const link = links[Math.max(0, Math.min(links.length - 1, at + step))];
  if (link instanceof HTMLElement) link.click();
}

/** @param {KeyboardEvent} event */
function focusFilter(event) {
  const inputs = Array.from(document.querySelectorAll(".filter"));
  const next = inputs.find((input) => input.getBoundingClientRect().top > 0) ?? inputs[0];
  if (!(next instanceof HTMLElement)) return;
  event.preventDefault();
  next.focus();
}

function madeDialog() {
  const dialog = element("dialog", "keys");
  dialog.setAttribute("aria-label", "Keys");
  const list = element("dl");
  for (const [key, meaning] of KEYS) {
    const row = element("div");
    const term = element("dt");
    term.append(element("kbd", undefined, key));
    row.append(term, element("dd", undefined, meaning));
    list.append(row);
  }
  dialog.append(list, button("Close", { name: "control", act: () => dialog.close() }));
  document.body.append(dialog);
  return dialog;
}
