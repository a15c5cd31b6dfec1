// The list of sections: marks the one that is read, and folds where the window is narrow.

const READ_AT = 0.25; // of the window's height: the section at this line is the one that is read

export function followSections() {
  const nav = document.getElementById("sections");
  const button = document.getElementById("open-sections");
  if (nav === null || button === null) return;
  fold(nav, button);
  const links = new Map(
    Array.from(nav.querySelectorAll("a"), (link) => [decodeURIComponent(link.hash.slice(1)), link]),
  );
  const sections = Array.from(document.querySelectorAll("main > section"));
  /** @type {HTMLAnchorElement | undefined} */
  let current;
  let isAsked = false;
  const mark = () => {
    isAsked = false;
    const link = links.get(readSection(sections)?.id ?? "");
    if (link === current) return;
    current?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "location");
    current = link;
    if (link !== undefined) keepInView(nav, link);
  };
  const ask = () => {
    if (!isAsked) requestAnimationFrame(mark);
    isAsked = true;
  };
  addEventListener("scroll", ask, { passive: true });
  addEventListener("resize", ask);
  mark();
}

/** @param {Element[]} sections */
function readSection(sections) {
  const root = document.documentElement;
  if (scrollY > 0 && scrollY + root.clientHeight >= root.scrollHeight - 2) {
    return sections[sections.length - 1];
  }
  const line = root.clientHeight * READ_AT;
  return sections.findLast((section) => section.getBoundingClientRect().top <= line) ?? sections[0];
}

/**
 * @param {HTMLElement} nav
 * @param {HTMLElement} link
 */
function keepInView(nav, link) {
  const { offsetTop, offsetHeight } = link;
  if (offsetTop < nav.scrollTop || offsetTop + offsetHeight > nav.scrollTop + nav.clientHeight) {
    nav.scrollTop = offsetTop - nav.clientHeight / 2;
  }
}

/**
 * @param {HTMLElement} nav
 * @param {HTMLElement} button
 */
function fold(nav, button) {
  /** @param {boolean} isOpen */
  const set = (isOpen) => {
    button.setAttribute("aria-expanded", String(isOpen));
    nav.classList.toggle("open", isOpen);
  };
  button.hidden = false;
  nav.classList.add("folds");
  button.addEventListener("click", () => set(button.getAttribute("aria-expanded") !== "true"));
  nav.addEventListener("click", (event) => {
    if (event.target instanceof HTMLAnchorElement) set(false);
  });
  for (const holder of [nav, button]) {
    holder.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !nav.classList.contains("open")) return;
      set(false);
      button.focus();
    });
  }
}
