// Numbers as digits, rounded half to even as Python's format() rounds: toFixed() rounds half up.

const BEHIND = 25; // digits behind those shown that tell a tie from every other double

/**
 * As `f"{value:,.{decimals}f}"`.
 * @param {number} value
 * @param {number} decimals
 */
export function fixed(value, decimals) {
  const [whole, part] = plain(Math.abs(value), decimals).split(".");
  return `${sign(value)}${grouped(whole)}${part ? `.${part}` : ""}`;
}

/**
 * As `f"{value:.{digits}g}"`.
 * @param {number} value
 * @param {number} digits
 */
export function general(value, digits) {
  const [mantissa, exponent] = scientific(Math.abs(value), digits - 1);
  const text = exponent < -4 || exponent >= digits
    ? `${stripped(mantissa)}${power(exponent)}`
    : stripped(plain(Math.abs(value), digits - 1 - exponent));
  return sign(value) + text;
}

/**
 * As `f"{value:.{decimals}e}"`.
 * @param {number} value
 * @param {number} decimals
 */
export function exponential(value, decimals) {
  const [mantissa, exponent] = scientific(Math.abs(value), decimals);
  return `${sign(value)}${mantissa}${power(exponent)}`;
}

/**
 * The nearest integer, of two the even: `round(value)` for a value that is not negative.
 * @param {number} value
 */
export function roundEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** @param {string} digits with a comma between each three */
export function grouped(digits) {
  return digits.replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * @param {number} size
 * @param {number} decimals
 */
function plain(size, decimals) {
  if (size >= 1e21) return BigInt(size) + (decimals > 0 ? `.${"0".repeat(decimals)}` : "");
  const [whole, part] = size.toFixed(decimals + BEHIND).split(".");
  const kept = whole + (decimals > 0 ? `.${part.slice(0, decimals)}` : "");
  return isTie(part.slice(decimals)) && isEven(kept) ? kept : size.toFixed(decimals);
}

/**
 * @param {number} size
 * @param {number} decimals
 * @returns {[string, number]} mantissa and exponent
 */
function scientific(size, decimals) {
  const [exact, power] = size.toExponential(decimals + BEHIND).split("e");
  const end = exact.length - BEHIND;
  const kept = exact.slice(0, end).replace(/\.$/, "");
  if (isTie(exact.slice(end)) && isEven(kept)) return [kept, Number(power)];
  const [mantissa, exponent] = size.toExponential(decimals).split("e");
  return [mantissa, Number(exponent)];
}

/** @param {string} digits */
function isTie(digits) {
  return /^50*$/.test(digits);
}

/** @param {string} digits */
function isEven(digits) {
  return "02468".includes(digits[digits.length - 1]);
}

/** @param {number} value */
function sign(value) {
  return value < 0 || Object.is(value, -0) ? "-" : "";
}

/** @param {string} digits without zeros at the end of a fraction */
function stripped(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}

/** @param {number} exponent */
function power(exponent) {
  return `e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}
