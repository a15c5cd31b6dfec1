// A table of the page: rows as text; sorted, filtered, copied.
/** @typedef {import("tracebraid/data_block.js").Frame} Frame */

/**
 * @param {HTMLElement} element
 * @param {Frame} frame
 */
export function draw(element, frame) {
  const grid = element.querySelector(".grid");
  if (grid === null) return;
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  const columns = JSON.parse(element.dataset.columns ?? "[]");
  for (const column of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = column.heading;
    cell.title = column.doc;
    head.append(cell);
  }
  const body = table.createTBody();
  for (let row = 0; row < frame.rows; row++) {
    const line = body.insertRow();
    for (const column of columns) {
      line.insertCell().textContent = String(frame.columns[column.name][row] ?? "-");
    }
  }
  grid.append(table);
}
