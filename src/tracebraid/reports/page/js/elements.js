// Elements of the page. Text reaches the document as text content only.

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [name] of its class
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name !== undefined) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

/**
 * @param {string} text
 * @param {{ name?: string, label?: string, act?: () => void }} [options] class, name for assistive tools, what a click does
 */
export function button(text, { name, label, act } = {}) {
  const made = element("button", name, text);
  made.type = "button";
  if (label !== undefined) made.setAttribute("aria-label", label);
  if (act !== undefined) made.addEventListener("click", act);
  return made;
}

/**
 * @param {string} text
 * @returns {[HTMLInputElement, HTMLLabelElement]} checked at first
 */
export function checkbox(text) {
  const input = element("input");
  input.type = "checkbox";
  input.checked = true;
  const label = element("label", "check");
  label.append(input, ` ${text}`);
  return [input, label];
}

/**
 * A list of labels and what each is.
 * @param {[string, string][]} rows
 * @param {string} [name] of its class
 */
export function factList(rows, name) {
  const list = element("dl", name);
  for (const [label, value] of rows) {
    const row = element("div");
    const fact = element("dd", undefined, value);
    fact.dir = "auto";
    row.append(element("dt", undefined, label), fact);
    list.append(row);
  }
  return list;
}

/**
 * What assistive tools say as its text changes, and no eye sees.
 * @param {Element} parent
 */
export function spokenIn(parent) {
  const made = element("div", "spoken");
  made.setAttribute("role", "status");
  parent.append(made);
  return made;
}
