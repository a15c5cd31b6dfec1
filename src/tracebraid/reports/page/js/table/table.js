// A table of the page: rows as text; sorted, filtered, copied.
import { integer } from "tracebraid/format.js";
import { Body, FIRST_ROWS } from "tracebraid/table/body.js";
import { marksOf } from "tracebraid/table/cell_marks.js";
import { csv, tsv } from "tracebraid/table/delimited.js";
import { drawHead } from "tracebraid/table/head.js";
import { meaningsOf } from "tracebraid/table/meanings.js";
import { finder, isText, ordered } from "tracebraid/table/order.js";
import { madeTools } from "tracebraid/table/tools.js";

/** @typedef {import("tracebraid/data_block.js").Frame} Frame */
/** @typedef {import("tracebraid/cells.js").Column} Column */
/** @typedef {import("tracebraid/table/order.js").Sort} Sort */

/**
 * @param {HTMLElement} element
 * @param {Frame} frame
 * @param {(string | null)[]} docs what columns mean, by the numbers in `data-columns`
 */
export function draw(element, frame, docs) {
  const box = /** @type {HTMLElement | null} */ (element.querySelector(".grid"));
  if (box === null) return;
  const columns = columnsOf(element, docs);
  const startNs = BigInt(element.dataset.startNs ?? "0");
  const title = element.querySelector("h3, h4")?.textContent ?? element.id;
  const table = document.createElement("table");
  table.setAttribute("aria-labelledby", `${element.id}-title`);
  table.setAttribute("aria-rowcount", String(frame.rows + 1));
  const find = lazy(() => finder(frame, columns));
  let rows = ordered(frame, columns, null);
  let view = rows;
  let sought = "";
  let isWhole = false;
  const { tools, say } = madeTools(element.id, title, frame.rows > 1 && columns.some(isText), {
    filter: (text) => {
      sought = text;
      show();
    },
    copied: () => tsv(frame, columns, view, startNs),
    csv: () => csv(frame, columns, view, startNs),
  });
  drawHead(table, columns, (sort) => {
    rows = ordered(frame, columns, sort);
    show();
  });
  const body = new Body(table, box, { frame, columns, marks: marksOf(frame, columns) });
  const more = document.createElement("button");
  more.type = "button";
  more.className = "control more";
  more.addEventListener("click", () => {
    isWhole = !isWhole;
    show();
  });
  const show = () => {
    view = sought === "" ? rows : find()(sought, rows);
    body.show(view, isWhole);
    say(sought === "" ? counted(frame.rows) : `${integer(view.length)} of ${counted(frame.rows)}`);
    more.hidden = view.length <= FIRST_ROWS;
    more.textContent = isWhole ? `Show the first ${FIRST_ROWS}` : `Show all ${integer(view.length)} rows`;
  };
  box.before(tools);
  box.append(table);
  box.after(more);
  addNotes(element, columns);
  show();
}

/**
 * @param {HTMLElement} element
 * @param {(string | null)[]} docs
 * @returns {Column[]}
 */
function columnsOf(element, docs) {
  /** @type {(Omit<Column, "doc"> & { doc?: number })[]} */
  const columns = JSON.parse(element.dataset.columns ?? "[]");
  return columns.map((column) => ({ ...column, doc: docs[column.doc ?? -1] ?? undefined }));
}

/**
 * @param {HTMLElement} element
 * @param {Column[]} columns
 */
function addNotes(element, columns) {
  const about = element.querySelector(":scope > .about");
  const meanings = meaningsOf(columns);
  if (meanings !== null) about?.append(meanings);
  const leftOut = Number(element.dataset.leftOut ?? 0);
  if (leftOut === 0) return;
  const note = document.createElement("p");
  note.className = "left-out";
  const are = leftOut === 1 ? "is" : "are";
  note.textContent = `Beside these there ${are} ${counted(leftOut)} that ${are} not on this page.`;
  about?.before(note);
}

/** @param {number} rows */
function counted(rows) {
  return `${integer(rows)} ${rows === 1 ? "row" : "rows"}`;
}

/**
 * @template T
 * @param {() => T} make what is made when it is first asked for
 * @returns {() => T}
 */
function lazy(make) {
  /** @type {{ made: T } | null} */
  let kept = null;
  return () => (kept ?? (kept = { made: make() })).made;
}
