// The rows of a table: the first ones, or, of all of them, those in view.
import { cellText } from "tracebraid/cells.js";
import { showFullText } from "tracebraid/table/full_text.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/cells.js").Column} Column */
/** @typedef {import("tracebraid/table/cell_marks.js").Marks} Marks */
/** @typedef {{ frame: Frame, columns: Column[], marks: Map<string, Marks> }} Content */

export const FIRST_ROWS = 25;
const SPARE_ROWS = 12; // above and below those in view

export class Body {
  /**
   * @param {HTMLTableElement} table
   * @param {HTMLElement} box that scrolls
   * @param {Content} content
   */
  constructor(table, box, content) {
    this.table = table;
    this.box = box;
    this.content = content;
    /** @type {Uint32Array} */
    this.rows = new Uint32Array();
    this.isWhole = false;
    this.drawn = [-1, -1];
    this.body = table.createTBody();
    let isAsked = false;
    box.addEventListener("scroll", () => {
      if (!isAsked && this.isWhole) {
        requestAnimationFrame(() => {
          isAsked = false;
          this.draw();
        });
        isAsked = true;
      }
    }, { passive: true });
  }

  /**
   * @param {Uint32Array} rows in order
   * @param {boolean} isWhole whether all can be scrolled to
   */
  show(rows, isWhole) {
    this.rows = rows;
    this.isWhole = isWhole && rows.length > FIRST_ROWS;
    this.box.classList.toggle("whole", this.isWhole);
    this.box.scrollTop = 0;
    this.drawn = [-1, -1];
    this.draw();
  }

  draw() {
    const [first, end] = this.isWhole ? this.inView() : [0, Math.min(FIRST_ROWS, this.rows.length)];
    if (first === this.drawn[0] && end === this.drawn[1]) return;
    const height = this.isWhole ? this.rowHeight() : 0;
    const lines = [];
    if (first > 0) lines.push(this.gap(first * height));
    for (let at = first; at < end; at++) lines.push(this.line(at));
    if (this.isWhole && end < this.rows.length) lines.push(this.gap((this.rows.length - end) * height));
    const active = this.focused();
    this.body.replaceChildren(...lines);
    if (active !== null) this.refocus(active);
    this.drawn = [first, end];
    this.keepWidths();
  }

  /** @returns {[number, number]} the first row that is drawn, and the row behind the last */
  inView() {
    const height = this.rowHeight();
    const top = Math.floor(this.box.scrollTop / height);
    const shown = Math.ceil(this.box.clientHeight / height);
    const first = Math.max(0, Math.min(top - SPARE_ROWS, this.rows.length - shown - SPARE_ROWS));
    return [first - first % 2, Math.min(this.rows.length, top + shown + SPARE_ROWS)];
  }

  rowHeight() {
    return this.body.querySelector("tr:not(.gap)")?.getBoundingClientRect().height || 26;
  }

  /** Columns get no narrower while rows pass: the table would tremble. */
  keepWidths() {
    if (!this.isWhole) return;
    const cells = Array.from(this.table.tHead?.rows[0].cells ?? []);
    const widths = cells.map((cell) => Math.ceil(cell.getBoundingClientRect().width));
    cells.forEach((cell, at) => {
      if (widths[at] > Number.parseInt(cell.style.minWidth || "0")) cell.style.minWidth = `${widths[at]}px`;
    });
  }

  /** @param {number} height */
  gap(height) {
    const line = document.createElement("tr");
    line.className = "gap";
    line.setAttribute("aria-hidden", "true");
    const cell = line.insertCell();
    cell.colSpan = this.content.columns.length;
    cell.style.height = `${height}px`;
    return line;
  }

  /** @param {number} at in the order that is shown */
  line(at) {
    const line = document.createElement("tr");
    const row = this.rows[at];
    line.setAttribute("aria-rowindex", String(at + 2));
    if (at % 2) line.className = "even";
    for (const column of this.content.columns) fill(line.insertCell(), column, this.content, row);
    return line;
  }

  /** @returns {[string, number] | null} row and cell of the button that has the focus */
  focused() {
    const active = document.activeElement;
    const cell = active !== null && this.body.contains(active) ? active.closest("td") : null;
    return cell === null ? null : [cell.parentElement?.getAttribute("aria-rowindex") ?? "", cell.cellIndex];
  }

  /** @param {[string, number]} where */
  refocus([row, cell]) {
    const line =
      /** @type {HTMLTableRowElement | null} */ (this.body.querySelector(`[aria-rowindex="${row}"]`));
    line?.cells[cell]?.querySelector("button")?.focus({ preventScroll: true });
  }
}

/**
 * @param {HTMLTableCellElement} cell
 * @param {Column} column
 * @param {Content} content
 * @param {number} row
 */
function fill(cell, column, { frame, marks }, row) {
  const value = frame.columns[column.name][row];
  const mark = /** @type {Marks} */ (marks.get(column.name));
  const text = cellText(column, value);
  const short = mark.short.get(text);
  if (mark.isNumber) cell.className = "number";
  if (mark.full > 0 && Number(value) > 0) {
    cell.classList.add("bar-behind");
    cell.style.setProperty("--part", (Number(value) / mark.full).toFixed(4));
  }
  if (short === undefined) cell.textContent = text;
  else cell.append(longText(short, text));
}

/**
 * @param {string} short
 * @param {string} text
 */
function longText(short, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "long";
  button.textContent = short;
  button.title = text;
  button.setAttribute("aria-haspopup", "dialog");
  button.addEventListener("click", () => showFullText(button, text));
  return button;
}
