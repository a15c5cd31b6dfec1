// Sections that are folded: opened by their links, by the address, all at once, and for printing.

const FOLDS = "details.fold";

export function followFolds() {
  const folds = /** @type {HTMLDetailsElement[]} */ (Array.from(document.querySelectorAll(FOLDS)));
  const button = document.getElementById("unfold");
  if (button !== null && folds.length > 0) {
    const show = () => {
      button.textContent = folds.every((fold) => fold.open) ? "Fold all" : "Unfold all";
    };
    button.addEventListener("click", () => {
      const open = !folds.every((fold) => fold.open);
      for (const fold of folds) fold.open = open;
    });
    for (const fold of folds) fold.addEventListener("toggle", show);
    button.hidden = false;
    show();
  }
  const reveal = () => open(location.hash);
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
    if (link instanceof HTMLAnchorElement) open(link.hash);
  });
  reveal();
  /** @type {HTMLDetailsElement[]} */
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folds.filter((fold) => !fold.open);
    for (const fold of closed) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of closed) fold.open = false;
  });
}

/** @param {string} hash of what is to be seen */
function open(hash) {
  const target = hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  if (target === null) return;
  const inside = target.querySelector(`:scope > ${FOLDS}`);
  if (inside instanceof HTMLDetailsElement) inside.open = true;
  for (let fold = target.closest(FOLDS); fold !== null; fold = fold.parentElement?.closest(FOLDS) ?? null) {
    if (fold instanceof HTMLDetailsElement) fold.open = true;
  }
}
