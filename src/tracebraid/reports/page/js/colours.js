// Colours of css/colours.css as a canvas takes them, and the text colour that can be read on each.

/** What is dispatched on `document` after the colours changed: what was drawn on a canvas is drawn again. */
export const COLOURS_CHANGED = "tracebraid:colours";

const BLACK = "#000000";
const WHITE = "#ffffff";
const EQUAL_CONTRAST = 0.179; // luminance with the same contrast to black and to white

/**
 * @param {string} name a custom property: `--series-1`
 * @param {Element} [element] where it applies
 * @returns {string} `rgb(...)`
 */
export function colour(name, element = document.body) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/**
 * @param {string} rgb of `colour`
 * @returns {string} black or white: contrast of at least 4.5 on it
 */
export function textOn(rgb) {
  const [red, green, blue] = (rgb.match(/[\d.]+/g) ?? []).slice(0, 3).map((part) =>
    linear(Number(part) / 255)
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > EQUAL_CONTRAST ? BLACK : WHITE;
}

/** @param {number} part of sRGB, 0 to 1 */
function linear(part) {
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}
