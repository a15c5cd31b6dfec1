// The headings of a table: each sorts by its column.
import { isText } from "tracebraid/table/order.js";

/** @typedef {import("tracebraid/cells.js").Column} Column */
/** @typedef {import("tracebraid/table/order.js").Sort} Sort */

/**
 * @param {HTMLTableElement} table
 * @param {Column[]} columns
 * @param {(sort: Sort) => void} chosen
 */
export function drawHead(table, columns, chosen) {
  const line = table.createTHead().insertRow();
  line.setAttribute("aria-rowindex", "1");
  /** @type {Sort} */
  let sort = null;
  const cells = columns.map((column) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.dataset.column = column.name;
    if (!isText(column) && column.type !== "bool") cell.className = "number";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.heading ?? column.name;
    button.title = column.doc ?? "";
    button.addEventListener("click", () => {
      sort = next(sort, column);
      cells.forEach((other, at) => mark(other, columns[at], sort));
      chosen(sort);
    });
    cell.append(button);
    mark(cell, column, sort);
    return cell;
  });
  line.append(...cells);
}

/**
 * Numbers from the greatest, texts from A; then the other way round; then the order of the report.
 * @param {Sort} sort
 * @param {Column} column
 * @returns {Sort}
 */
function next(sort, column) {
  const first = !isText(column);
  if (sort?.name !== column.name) return { name: column.name, isDescending: first };
  return sort.isDescending === first ? { name: column.name, isDescending: !first } : null;
}

/**
 * @param {HTMLElement} cell
 * @param {Column} column
 * @param {Sort} sort
 */
function mark(cell, column, sort) {
  const order = sort?.name !== column.name ? "none" : sort.isDescending ? "descending" : "ascending";
  cell.setAttribute("aria-sort", order);
}
