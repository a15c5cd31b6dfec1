// Colours of slices, from custom properties of the page's styles; read again when the colour scheme changes.
import { colour, textOn } from "tracebraid/colours.js";

/** @typedef {{ fill: string, text: string }} Colour */
/** @typedef {{ of: (kind: string | null, family: string | null) => Colour, ground: string, raised: string, line: string, text: string, faint: string, accent: string, critical: string }} Colours */

/** Custom property of each kind of slice, and of the families of kernels that are told apart. */
const PROPERTIES = {
  op: "--slice-op",
  annotation: "--slice-annotation",
  "device annotation": "--slice-annotation",
  python: "--slice-python",
  call: "--slice-call",
  kernel: "--slice-kernel",
  copy: "--slice-copy",
  communication: "--slice-communication",
  wait: "--slice-wait",
  other: "--slice-wait",
  merged: "--slice-merged",
};
const FAMILIES = {
  gemm: "--slice-gemm",
  convolution: "--slice-gemm",
  attention: "--slice-attention",
  softmax: "--slice-attention",
  elementwise: "--slice-elementwise",
  reduction: "--slice-reduction",
  normalisation: "--slice-reduction",
  embedding: "--slice-embedding",
  index: "--slice-embedding",
  optimizer: "--slice-optimizer",
};

/** What the legend names, with the kind and family that stand for it. */
export const LEGEND = [
  ["op", "op", null],
  ["annotation", "annotation", null],
  ["Python", "python", null],
  ["call", "call", null],
  ["GEMM, convolution", "kernel", "gemm"],
  ["attention, softmax", "kernel", "attention"],
  ["elementwise", "kernel", "elementwise"],
  ["reduction, normalisation", "kernel", "reduction"],
  ["embedding, index", "kernel", "embedding"],
  ["optimizer", "kernel", "optimizer"],
  ["other kernel", "kernel", null],
  ["copy", "copy", null],
  ["communication", "communication", null],
  ["wait, other", "wait", null],
  ["merged", "merged", null],
];

/**
 * @param {string | null} kind
 * @param {string | null} family
 */
export function propertyOf(kind, family) {
  const ofKind = PROPERTIES[/** @type {keyof typeof PROPERTIES} */ (kind)] ?? "--slice-wait";
  if (kind !== "kernel") return ofKind;
  return FAMILIES[/** @type {keyof typeof FAMILIES} */ (family)] ?? ofKind;
}

/**
 * @param {HTMLElement} element whose styles apply
 * @returns {Colours}
 */
export function coloursOf(element) {
  const read = (/** @type {string} */ property) => colour(property, element);
  /** @type {Map<string, Colour>} */
  const known = new Map();
  for (const property of [...Object.values(PROPERTIES), ...Object.values(FAMILIES)]) {
    const fill = read(property);
    known.set(property, { fill, text: textOn(fill) });
  }
  const [ground, raised, line, text, faint, accent, critical] = [
    ...["--ground", "--raised", "--line", "--text", "--faint", "--accent", "--slice-critical"].map(read),
  ];
  return {
    of: (kind, family) => /** @type {Colour} */ (known.get(propertyOf(kind, family))),
    ground,
    raised,
    line,
    text,
    faint,
    accent,
    critical,
  };
}
