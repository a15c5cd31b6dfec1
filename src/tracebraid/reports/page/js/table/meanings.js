// What the columns of a table mean, one click away.

/** @typedef {import("tracebraid/cells.js").Column} Column */

/**
 * @param {Column[]} columns
 * @returns {HTMLElement | null} null where no column is documented
 */
export function meaningsOf(columns) {
  const known = columns.filter((column) => column.doc);
  if (known.length === 0) return null;
  const details = document.createElement("details");
  details.className = "meanings";
  const summary = document.createElement("summary");
  summary.textContent = "What the columns mean";
  const list = document.createElement("dl");
  for (const column of known) {
    const row = document.createElement("div");
    const name = document.createElement("dt");
    const doc = document.createElement("dd");
    name.textContent = column.heading ?? column.name;
    doc.textContent = column.doc ?? "";
    row.append(name, doc);
    list.append(row);
  }
  details.append(summary, list);
  return details;
}
