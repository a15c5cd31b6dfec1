// Elements of SVG. Text reaches the document as text content only, with control characters written out.
import { element } from "tracebraid/elements.js";
import { printable } from "tracebraid/printable.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
/** px of a character, on average, where no canvas measures. */
const CHARACTER = 6.6;
/** @type {CanvasRenderingContext2D | null | undefined} */
let ruler;

/**
 * An element, appended to `parent`.
 *
 * @param {Element} parent
 * @param {string} name
 * @param {Record<string, string | number>} attributes numbers are rounded to a hundredth
 * @param {string} [text]
 * @returns {SVGElement}
 */
export function add(parent, name, attributes, text) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) {
    // A page that is served allows no style attributes.
    if (key === "style") made.style.cssText = String(value);
    else made.setAttribute(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  if (text !== undefined) made.textContent = printable(text);
  parent.append(made);
  return made;
}

/**
 * @param {Element} parent
 * @param {string} className
 * @param {string} [text]
 * @returns {HTMLElement}
 */
export function box(parent, className, text) {
  const made = element("div", className, text === undefined ? undefined : printable(text));
  parent.append(made);
  return made;
}

/**
 * Width of a text in a chart, in px.
 *
 * @param {string} text
 */
export function textWidth(text) {
  if (ruler === undefined) {
    ruler = document.createElement("canvas").getContext("2d");
    if (ruler !== null) ruler.font = "12px system-ui, sans-serif";
  }
  return ruler === null ? text.length * CHARACTER : ruler.measureText(text).width;
}

/**
 * The text, shortened in its middle until it fits: names differ at both ends.
 *
 * @param {string} text
 * @param {number} width px
 */
export function fitted(text, width) {
  if (text.length * CHARACTER * 0.5 <= width && textWidth(text) <= width) return text;
  let [least, most] = [0, Math.min(text.length, Math.ceil(width))];
  while (least < most) {
    const kept = Math.ceil((least + most) / 2);
    if (textWidth(shortened(text, kept)) <= width) least = kept;
    else most = kept - 1;
  }
  return shortened(text, least);
}

/**
 * @param {string} text
 * @param {number} kept characters
 */
function shortened(text, kept) {
  const characters = Array.from(text.slice(0, 2 * kept + 2));
  const tail = Math.floor(kept / 3);
  const end = tail > 0 ? Array.from(text.slice(-2 * tail)).slice(-tail).join("") : "";
  return `${characters.slice(0, kept - tail).join("")}…${end}`;
}
