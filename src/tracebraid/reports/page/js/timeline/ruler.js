// Steps of the ruler.

/**
 * 1, 2 or 5 times a power of ten.
 * @param {number} least ns
 */
export function rulerStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? 10 * power;
}
