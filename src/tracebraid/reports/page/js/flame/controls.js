// What stands above a flame graph: the trees to choose from, the search, what is shown.

import { button, checkbox, element } from "tracebraid/elements.js";

/** @typedef {{ name: string, title: string }} TreeName */

/**
 * @typedef {object} Graph
 * @property {(name: string) => void} choose
 * @property {(text: string) => void} seek
 * @property {(frame: number) => void} zoom
 * @property {(shown: boolean) => void} showPython
 */

/**
 * @param {TreeName[]} names
 * @param {Graph} graph
 */
export function controlsOf(names, graph) {
  const bar = element("div", "flame-controls");
  const trees = new Map(
    names.map((
      tree,
    ) => [tree.name, button(tree.title, { name: "control", act: () => graph.choose(tree.name) })]),
  );
  const group = element("div");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "What the widths are");
  group.append(...trees.values());
  const field = element("input");
  field.type = "search";
  field.addEventListener("input", () => graph.seek(field.value));
  const found = element("output");
  const [python, pythonLabel] = checkbox("Python functions");
  python.addEventListener("change", () => graph.showPython(python.checked));
  const reset = button("Reset zoom", { name: "control", act: () => graph.zoom(0) });
  reset.disabled = true;
  const label = element("label");
  label.append("Search names ", field);
  bar.append(group, label, found, pythonLabel, reset);
  return {
    bar,
    found,
    reset,
    /**
     * @param {string} name of the tree that is shown
     * @param {boolean} hasPython
     */
    show(name, hasPython) {
      for (const [tree, element] of trees) element.setAttribute("aria-pressed", String(tree === name));
      pythonLabel.hidden = !hasPython;
      reset.disabled = true;
    },
  };
}
