// Light and dark: as the system has it, or as the reader chooses until the page is closed.
import { COLOURS_CHANGED } from "tracebraid/colours.js";

const NAMES = { system: "Auto", light: "Light", dark: "Dark" };

export function followTheme() {
  const root = document.documentElement;
  const changed = () => document.dispatchEvent(new Event(COLOURS_CHANGED));
  const button = document.getElementById("theme");
  if (button !== null) offer(button, root, changed);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener("beforeprint", () => {
    root.dataset.printing = "yes";
    changed();
  });
  addEventListener("afterprint", () => {
    delete root.dataset.printing;
    changed();
  });
}

/**
 * @param {HTMLElement} button
 * @param {HTMLElement} root
 * @param {() => void} changed
 */
function offer(button, root, changed) {
  const names = /** @type {(keyof typeof NAMES)[]} */ (Object.keys(NAMES));
  let at = 0;
  const show = () => {
    const text = button.querySelector(".text");
    if (text !== null) text.textContent = NAMES[names[at]];
    button.setAttribute("aria-label", `Colours: ${NAMES[names[at]]}`);
    button.title = "Colours: as the system has it, light, or dark";
  };
  button.addEventListener("click", () => {
    at = (at + 1) % names.length;
    if (names[at] === "system") delete root.dataset.theme;
    else root.dataset.theme = names[at];
    show();
    changed();
  });
  button.hidden = false;
  show();
}
