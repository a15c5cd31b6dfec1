// The keys of the page: a dialog that lists them, opened with `?`.

/** Keys of the page, and of its charts where these have the focus. */
const KEYS = [
  ["?", "this list"],
  ["[ and ]", "section before, section behind"],
  ["/", "filter the table that is next"],
  ["Tab", "to the next control"],
  ["Enter or Space", "sort by the column, open, choose"],
  ["Esc", "close"],
];

export function openKeys() {
  const dialog = madeDialog();
  const button = document.getElementById("open-keys");
  if (button !== null) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) {
      return;
    }
    if (event.key === "?" && !dialog.open) dialog.showModal();
    else if (event.key === "[") go(-1);
    else if (event.key === "]") go(1);
    else if (event.key === "/") focusFilter(event);
  });
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement &&
    target.closest("input, textarea, select, [role=application]") !== null;
}

/** @param {number} step */
function go(step) {
  const links = Array.from(document.querySelectorAll("#sections a"));
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const link = links[Math.max(0, Math.min(links.length - 1, at + step))];
  if (link instanceof HTMLElement) link.click();
}

/** @param {KeyboardEvent} event */
function focusFilter(event) {
  const inputs = Array.from(document.querySelectorAll(".filter"));
  const next = inputs.find((input) => input.getBoundingClientRect().top > 0) ?? inputs[0];
  if (!(next instanceof HTMLElement)) return;
  event.preventDefault();
  next.focus();
}

function madeDialog() {
  const dialog = document.createElement("dialog");
  dialog.className = "keys";
  dialog.setAttribute("aria-label", "Keys");
  const list = document.createElement("dl");
  for (const [key, meaning] of KEYS) {
    const row = document.createElement("div");
    const term = document.createElement("dt");
    const detail = document.createElement("dd");
    const name = document.createElement("kbd");
    name.textContent = key;
    term.append(name);
    detail.textContent = meaning;
    row.append(term, detail);
    list.append(row);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.className = "control";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  dialog.append(list, close);
  document.body.append(dialog);
  return dialog;
}
