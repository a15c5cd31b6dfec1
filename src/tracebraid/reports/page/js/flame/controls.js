// What stands above a flame graph: the trees to choose from, the search, what is shown.

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
  const bar = document.createElement("div");
  bar.className = "flame-controls";
  const trees = new Map(names.map((tree) => [tree.name, button(tree.title, () => graph.choose(tree.name))]));
  const group = document.createElement("div");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "What the widths are");
  group.append(...trees.values());
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.addEventListener("input", () => graph.seek(field.value));
  const found = document.createElement("output");
  const python = document.createElement("input");
  python.type = "checkbox";
  python.checked = true;
  python.addEventListener("change", () => graph.showPython(python.checked));
  const pythonLabel = labelled("Python functions", python);
  const reset = button("Reset zoom", () => graph.zoom(0));
  reset.disabled = true;
  bar.append(group, labelled("Search names", field), found, pythonLabel, reset);
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

/**
 * @param {string} text
 * @param {() => void} act
 */
function button(text, act) {
  const element = document.createElement("button");
  element.type = "button";
  element.className = "control";
  element.textContent = text;
  element.addEventListener("click", act);
  return element;
}

/**
 * @param {string} text
 * @param {HTMLElement} field
 */
function labelled(text, field) {
  const label = document.createElement("label");
  label.append(text, " ", field);
  return label;
}
