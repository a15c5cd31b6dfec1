// The tree of a flame graph: what is in what, where each frame lies, and which names are sought.

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */

/**
 * Frames by number; 0 stands for all of them, each other one comes after its parent.
 * @typedef {object} Tree
 * @property {string[]} names
 * @property {string[]} kinds
 * @property {Int32Array} parent -1 for frame 0
 * @property {Int32Array} depth
 * @property {Float64Array} self in ns
 * @property {Float64Array} total in ns
 * @property {Float64Array} count NaN: unknown
 * @property {number[][]} inside the frames directly in each, the greatest first
 * @property {Float64Array} start in ns, from the left edge
 */

/**
 * Where a frame is drawn.
 * @typedef {object} Box
 * @property {number} frame
 * @property {number} row
 * @property {number} left in px
 * @property {number} width in px
 */

/**
 * @param {Frame} frame columns parent, name, kind, count, self_ns, total_ns; parents first
 * @returns {Tree}
 */
export function treeOf(frame) {
  const column = (
    /** @type {string} */ name,
  ) => /** @type {any[]} */ (/** @type {any} */ (frame.columns[name]));
  const { rows } = frame;
  const names = ["all"];
  const kinds = ["all"];
  const parents = [-1];
  const self = [0];
  const count = [NaN];
  for (let row = 0; row < rows; row++) {
    names.push(column("name")[row] ?? "");
    kinds.push(column("kind")[row] ?? "");
    parents.push(Number.isNaN(column("parent")[row]) ? 0 : column("parent")[row] + 1);
    self.push(column("self_ns")[row]);
    count.push(column("count")[row]);
  }
  return withTotals(names, kinds, parents, self, count);
}

/**
 * @param {string[]} names
 * @param {string[]} kinds
 * @param {number[]} parents each less than the frame's own number
 * @param {number[]} self
 * @param {number[]} count
 * @returns {Tree}
 */
function withTotals(names, kinds, parents, self, count) {
  const size = names.length;
  const total = Float64Array.from(self);
  const depth = new Int32Array(size);
  /** @type {number[][]} */
  const inside = Array.from({ length: size }, () => []);
  for (let frame = size - 1; frame > 0; frame--) total[parents[frame]] += total[frame];
  for (let frame = 1; frame < size; frame++) {
    depth[frame] = depth[parents[frame]] + 1;
    inside[parents[frame]].push(frame);
  }
  const start = new Float64Array(size);
  for (let frame = 0; frame < size; frame++) {
    inside[frame].sort((a, b) => isSmaller(kinds[a]) - isSmaller(kinds[b]) || total[b] - total[a] || a - b);
    let at = start[frame];
    for (const inner of inside[frame]) {
      start[inner] = at;
      at += total[inner];
    }
  }
  return {
    names,
    kinds,
    parent: Int32Array.from(parents),
    depth,
    self: Float64Array.from(self),
    total,
    count: Float64Array.from(count),
    inside,
    start,
  };
}

/** @param {string} kind */
function isSmaller(kind) {
  return Number(kind === "smaller");
}

/**
 * The tree without frames of a kind: what is in them is in what is around them, merged by names.
 * @param {Tree} tree
 * @param {string} kind
 * @returns {Tree}
 */
export function without(tree, kind) {
  const names = ["all"];
  const kinds = ["all"];
  const parents = [-1];
  const self = [0];
  const count = [NaN];
  /** @type {Map<string, number>} */
  const known = new Map();
  const number = new Int32Array(tree.names.length);
  for (let frame = 1; frame < tree.names.length; frame++) {
    const outer = number[tree.parent[frame]];
    if (tree.kinds[frame] === kind) {
      number[frame] = outer;
      self[outer] += tree.self[frame];
      continue;
    }
    const key = `${outer} ${tree.kinds[frame]} ${tree.names[frame]}`;
    let found = known.get(key);
    if (found === undefined) {
      found = names.length;
      known.set(key, found);
      names.push(tree.names[frame]);
      kinds.push(tree.kinds[frame]);
      parents.push(outer);
      self.push(0);
      count.push(0);
    }
    number[frame] = found;
    self[found] += tree.self[frame];
    count[found] += tree.count[frame];
  }
  return withTotals(names, kinds, parents, self, count);
}

/**
 * The frames around a frame, the outermost first, itself included.
 * @param {Tree} tree
 * @param {number} frame
 */
export function stackOf(tree, frame) {
  const stack = [];
  for (let outer = frame; outer >= 0; outer = tree.parent[outer]) stack.push(outer);
  return stack.reverse();
}

/**
 * Which frames have a text in their names, and the time in them: a match in a match counts once.
 * @param {Tree} tree
 * @param {string} text
 */
export function search(tree, text) {
  const wanted = text.toLowerCase();
  const matches = new Uint8Array(tree.names.length);
  const within = new Uint8Array(tree.names.length);
  let frames = 0;
  let time = 0;
  for (let frame = 1; wanted !== "" && frame < tree.names.length; frame++) {
    const outer = within[tree.parent[frame]];
    matches[frame] = Number(tree.names[frame].toLowerCase().includes(wanted));
    within[frame] = outer | matches[frame];
    frames += matches[frame];
    if (matches[frame] && !outer) time += tree.total[frame];
  }
  return { matches, frames, time };
}

/**
 * The boxes of a view: frames around the one in focus fill the width above it; narrow ones are left out.
 * @param {Tree} tree
 * @param {number} focus
 * @param {number} width in px
 * @param {number} least width of a box in px
 * @returns {Box[]}
 */
export function boxesOf(tree, focus, width, least) {
  const whole = tree.total[focus];
  const scale = whole > 0 ? width / whole : 0;
  /** @type {Box[]} */
  const boxes = stackOf(tree, focus).map((frame) => ({ frame, row: tree.depth[frame], left: 0, width }));
  const left = whole > 0 ? [...tree.inside[focus]] : [];
  while (left.length) {
    const frame = /** @type {number} */ (left.pop());
    const size = tree.total[frame] * scale;
    if (size < least) continue;
    boxes.push({
      frame,
      row: tree.depth[frame],
      left: (tree.start[frame] - tree.start[focus]) * scale,
      width: size,
    });
    for (const inner of tree.inside[frame]) left.push(inner);
  }
  return boxes;
}

/**
 * The frame that a key leads to.
 * @param {Tree} tree
 * @param {number} frame
 * @param {string} key of an event
 */
export function neighbour(tree, frame, key) {
  const siblings = frame === 0 ? [0] : tree.inside[tree.parent[frame]];
  const at = siblings.indexOf(frame);
  if (key === "ArrowDown") return tree.inside[frame][0] ?? frame;
  if (key === "ArrowUp") return Math.max(0, tree.parent[frame]);
  if (key === "ArrowRight") return siblings[Math.min(at + 1, siblings.length - 1)];
  if (key === "ArrowLeft") return siblings[Math.max(at - 1, 0)];
  return key === "Home" ? 0 : frame;
}
