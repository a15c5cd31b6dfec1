// All of the time in a strip: how busy each track is, and the part that is in view.

/** @typedef {import("tracebraid/timeline/state.js").State} State */

export const OVERVIEW = 44;
/** Tracks that have a row of their own; of more, each row is of several. */
const MOST_ROWS = 20;

/**
 * The share of each pixel that slices of the first line of a track fill, by rows of tracks.
 * @param {State} state
 * @param {number} width px
 * @returns {{ shares: Float32Array, rows: number }}
 */
export function busyShares(state, width) {
  const { model } = state;
  const [first, last] = model.extent;
  const rows = Math.max(Math.min(model.tracks.length, MOST_ROWS), 1);
  const each = Math.max(model.tracks.length / rows, 1);
  const shares = new Float32Array(rows * width);
  const scale = width / (last - first);
  model.tracks.forEach((track, number) => {
    const row = Math.min(Math.floor(number / each), rows - 1);
    for (const line of track.lines.slice(0, 1)) {
      for (let slice = line.from; slice < line.to; slice++) {
        const from = Math.max((model.start[slice] - first) * scale, 0);
        const to = Math.min((model.start[slice] + model.duration[slice] - first) * scale, width);
        for (let pixel = Math.floor(from); pixel < to; pixel++) {
          shares[row * width + pixel] += (Math.min(to, pixel + 1) - Math.max(from, pixel)) / each;
        }
      }
    }
  });
  return { shares, rows };
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {State} state
 * @param {{ shares: Float32Array, rows: number }} busy
 * @param {number} width px
 */
export function renderOverview(ctx, state, busy, width) {
  const { colours, model, view } = state;
  const [first, last] = model.extent;
  ctx.setTransform(state.ratio, 0, 0, state.ratio, 0, 0);
  ctx.fillStyle = colours.raised;
  ctx.fillRect(0, 0, width, OVERVIEW);
  const height = OVERVIEW / busy.rows;
  for (let row = 0; row < busy.rows; row++) {
    const device = model.tracks[Math.floor(row * model.tracks.length / busy.rows)]?.isDevice;
    ctx.fillStyle = colours.of(device ? "kernel" : "op", null).fill;
    for (let pixel = 0; pixel < width; pixel++) {
      const share = busy.shares[row * width + pixel];
      if (share <= 0) continue;
      ctx.globalAlpha = Math.min(0.15 + 0.85 * share, 1);
      ctx.fillRect(pixel, row * height, 1, Math.max(height - 0.5, 1));
    }
  }
  ctx.globalAlpha = 1;
  const scale = width / (last - first);
  const [from, to] = [(view.from - first) * scale, (view.to - first) * scale];
  ctx.strokeStyle = colours.text;
  ctx.lineWidth = 2;
  ctx.strokeRect(
    Math.max(from, 1),
    1,
    Math.max(Math.min(to, width - 1) - Math.max(from, 1), 3),
    OVERVIEW - 2,
  );
}
