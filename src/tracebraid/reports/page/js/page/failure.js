// What a figure says when it cannot be drawn.

/**
 * @param {HTMLElement} element a figure or table
 * @param {unknown} error why
 */
export function showFailure(element, error) {
  element.dataset.state = "failed";
  const text = document.createElement("p");
  text.className = "failed";
  const twin = element.querySelector(":scope > .about > .twin") !== null;
  const reason = error instanceof Error ? error.message : String(error);
  text.textContent = `This could not be drawn: ${reason}. ${twin ? "The table below says the same." : ""}`;
  element.querySelector(".drawing, .grid")?.replaceChildren(text);
  console.error(`${element.id}: ${reason}`, error);
}
