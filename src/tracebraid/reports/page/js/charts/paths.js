// Paths of lines and areas.

/** @typedef {import("tracebraid/charts/plot.js").Axes} Axes */

/** @param {number} px */
function rounded(px) {
  return Math.round(px * 10) / 10;
}

/**
 * @param {Axes} axes
 * @param {Float64Array} xs
 * @param {Float64Array} ys NaN leaves a gap
 * @param {boolean} steps a value holds until the next
 */
export function linePath(axes, xs, ys, steps) {
  let path = "";
  let drawn = false;
  for (let row = 0; row < xs.length; row++) {
    if (!Number.isFinite(ys[row])) {
      drawn = false;
      continue;
    }
    const [x, y] = [rounded(axes.x.at(xs[row])), rounded(axes.y.at(ys[row]))];
    path += drawn ? steps ? `H${x}V${y}` : `L${x} ${y}` : `M${x} ${y}`;
    drawn = true;
  }
  return xs.length === 1 && drawn ? `${path}h1` : path;
}

/**
 * @param {Axes} axes
 * @param {Float64Array} xs
 * @param {Float64Array} low
 * @param {Float64Array} high
 * @param {boolean} steps
 */
export function areaPath(axes, xs, low, high, steps) {
  if (xs.length === 0) return "";
  let [path, back] = ["", ""];
  for (let row = 0; row < xs.length; row++) {
    const x = rounded(axes.x.at(xs[row]));
    const [top, bottom] = [rounded(axes.y.at(high[row] || 0)), rounded(axes.y.at(low[row] || 0))];
    const after = rounded(axes.x.at(xs[Math.min(row + 1, xs.length - 1)]));
    path += row === 0 ? `M${x} ${top}` : steps ? `V${top}` : `L${x} ${top}`;
    if (steps) path += `H${after}`;
    back = steps ? `H${after}V${bottom}H${x}${back}` : `L${x} ${bottom}${back}`;
  }
  const last = xs.length - 1;
  const start = `L${rounded(axes.x.at(xs[last]))} ${rounded(axes.y.at(low[last] || 0))}`;
  return `${path}${start}${back}Z`;
}
