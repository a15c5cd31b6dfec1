// Text of a trace as the page shows it: reports/names.py `printable` in the browser.

/** @type {Record<string, string>} */
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/**
 * The text with control, invisible and line-separating characters written out.
 * @param {string} text
 */
export function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escaped);
}

/** @param {string} character */
function escaped(character) {
  if (character in SHORT) return SHORT[character];
  const code = character.codePointAt(0) ?? 0;
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}
