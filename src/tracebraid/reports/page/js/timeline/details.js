// All that is known of the selected slice, with links to what it has to do with.
import { lineOf, numbers, texts } from "tracebraid/timeline/model.js";
import { button, element, factList } from "tracebraid/elements.js";
import { printable } from "tracebraid/printable.js";
import { launchedBy, membersOf, parentsOf, waitedFor, waitingFor } from "tracebraid/timeline/relations.js";
import { nameOf, shortName, trackName } from "tracebraid/timeline/labels.js";
import { duration, integer as count, moment, size } from "tracebraid/format.js";

/** @typedef {import("tracebraid/timeline/model.js").Model} Model */
/** @typedef {{ slice: number, note: string }} Entry */

/** Related slices that are listed; of more their number is said. */
const LISTED = 50;

/**
 * @param {HTMLElement} panel
 * @param {Model} model
 * @param {number} slice -1: none
 * @param {(slice: number) => void} jump
 * @param {() => void} close
 */
export function showDetails(panel, model, slice, jump, close) {
  panel.replaceChildren();
  panel.hidden = slice < 0;
  if (slice < 0) return;
  const title = element("h3", "name", nameOf(model, slice));
  title.dir = "auto";
  const head = element("div", "timeline-details-head");
  head.append(title, button("×", { name: "control", label: "Close the details", act: close }));
  const related = element("div", "timeline-related");
  for (const [heading, entries] of relationsOf(model, slice)) {
    if (entries.length > 0) related.append(relations(model, heading, entries, jump));
  }
  const columns = element("div", "timeline-details-columns");
  columns.append(factList(factsOf(model, slice)), related);
  panel.append(head, columns);
}

/**
 * @param {Model} model
 * @param {number} slice
 * @returns {[string, string][]}
 */
function factsOf(model, slice) {
  const { slices } = model;
  const number = (/** @type {string} */ name) => numbers(slices, name)[slice];
  const string = (/** @type {string} */ name) => texts(slices, name)[slice];
  const some = (/** @type {number} */ value, /** @type {(value: number) => string} */ as) =>
    Number.isNaN(value) ? null : as(value);
  const events = number("count");
  /** @type {[string, string | null][]} */
  const found = [
    ["what", model.kinds[slice]],
    ["kernel family", model.families[slice]],
    ["where", trackName(model, lineOf(model, slice).track)],
    ["start", moment(model.start[slice])],
    ["duration", duration(model.duration[slice])],
    ["end", moment(model.start[slice] + model.duration[slice])],
    ["events", events > 1 ? `${count(events)}, busy ${duration(number("busy_ns"))}` : null],
    ["shapes of inputs", string("shapes")],
    ["types of inputs", string("types")],
    ["launched as", string("grid")],
    ["size", some(number("size_bytes"), size)],
    ["process group", string("group")],
    ["number in its group", some(number("sequence"), String)],
    ["code", string("call_site")],
    ["Execution Trace node", some(nodeOf(model, slice), String)],
    ["event of the trace", some(number("event_id"), String)],
  ];
  return found.flatMap(([label, value]) => value === null ? [] : [[label, printable(value)]]);
}

/**
 * The node of an op; of device work that of the op that launched it.
 * @param {Model} model
 * @param {number} slice
 */
function nodeOf(model, slice) {
  const nodes = numbers(model.slices, "node_id");
  const op = numbers(model.slices, "op")[slice];
  return Number.isNaN(nodes[slice]) && !Number.isNaN(op) ? nodes[op] : nodes[slice];
}

/**
 * @param {Model} model
 * @param {number} slice
 * @returns {[string, Entry[]][]}
 */
function relationsOf(model, slice) {
  const op = numbers(model.slices, "op")[slice];
  const bare = (/** @type {number[]} */ found) => found.map((other) => ({ slice: other, note: "" }));
  const withWhy = (/** @type {import("tracebraid/timeline/relations.js").Relation[]} */ found) =>
    found.map((other) => ({
      slice: other.slice,
      note: other.why + (Number.isNaN(other.slack) ? "" : `, ${duration(other.slack)}`),
    }));
  const skew = (/** @type {number} */ member) => {
    const later = model.start[member] - model.start[slice];
    return `starts ${duration(Math.abs(later))} ${later < 0 ? "earlier" : "later"}`;
  };
  return [
    ["Launched by", Number.isNaN(op) ? [] : bare([op])],
    ["Launched", bare(launchedBy(model, slice))],
    ["Waited for", withWhy(waitedFor(model, slice))],
    ["Waited for it", withWhy(waitingFor(model, slice))],
    ["On other ranks", membersOf(model, slice).map((member) => ({ slice: member, note: skew(member) }))],
    ["Within", bare(parentsOf(model, slice))],
  ];
}

/**
 * @param {Model} model
 * @param {string} heading
 * @param {Entry[]} entries
 * @param {(slice: number) => void} jump
 */
function relations(model, heading, entries, jump) {
  const group = element("div", "relations");
  const more = entries.length > 1 ? ` (${count(entries.length)})` : "";
  group.append(element("h4", undefined, heading + more));
  const list = element("ul");
  for (const entry of entries.slice(0, LISTED)) {
    const item = element("li");
    const name = button(shortName(model, entry.slice), { act: () => jump(entry.slice) });
    const track = trackName(model, lineOf(model, entry.slice).track);
    item.append(
      name,
      element(
        "span",
        undefined,
        [entry.note, duration(model.duration[entry.slice]), track].filter(Boolean).join(" · "),
      ),
    );
    list.append(item);
  }
  if (entries.length > LISTED) {
    list.append(element("li", undefined, `${count(entries.length - LISTED)} more`));
  }
  group.append(list);
  return group;
}
