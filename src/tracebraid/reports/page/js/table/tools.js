// What stands above a table: the filter, how many rows match, copy and download.

import { button, element } from "tracebraid/elements.js";

/**
 * @typedef {object} Actions
 * @property {(text: string) => void} filter
 * @property {() => string} copied rows as text with tabs
 * @property {() => string} csv
 */

const WAIT_MS = 120; // behind the last key, before the rows are filtered

/**
 * @param {string} id of the table
 * @param {string} title
 * @param {boolean} hasFilter
 * @param {Actions} actions
 * @returns {{ tools: HTMLElement, say: (text: string) => void }}
 */
export function madeTools(id, title, hasFilter, actions) {
  const tools = element("div", "tools");
  const status = element("span", "status");
  status.setAttribute("role", "status");
  const say = (/** @type {string} */ text) => {
    status.textContent = text;
  };
  if (hasFilter) tools.append(filterBox(title, actions.filter));
  tools.append(
    status,
    button("Copy", {
      name: "control",
      label: `Copy ${title} with tabs`,
      act: async () => {
        const isCopied = await copy(actions.copied());
        say(isCopied ? "Copied" : "This browser does not let the page copy: download the CSV instead");
      },
    }),
    button("CSV", {
      name: "control",
      label: `Download ${title} as CSV`,
      act: () => {
        download(`${id}.csv`, actions.csv());
        say(`${id}.csv`);
      },
    }),
  );
  return { tools, say };
}

/**
 * @param {string} title
 * @param {(text: string) => void} filter
 */
function filterBox(title, filter) {
  const input = element("input", "filter");
  input.type = "search";
  input.placeholder = "Filter";
  input.autocomplete = "off";
  input.spellcheck = false;
  input.setAttribute("aria-label", `Filter ${title}`);
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => filter(input.value), WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(timer);
    filter(input.value);
  });
  return input;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text where the clipboard's own interface is not allowed */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  const active = document.activeElement;
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (active instanceof HTMLElement) active.focus({ preventScroll: true });
  return isCopied;
}

/**
 * @param {string} name
 * @param {string} text
 */
function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
