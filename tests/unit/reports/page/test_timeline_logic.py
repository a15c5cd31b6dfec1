"""What the timeline's scripts compute without a page: all in one run of deno."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deno import evaluated

_NONE = None
_SLICES: dict[str, list[Any]] = {
    # A step with an op that calls, on a thread; two kernels on a stream; the same collective on another rank.
    "track": [0, 0, 0, 1, 1, 2],
    "level": [0, 1, 2, 0, 0, 0],
    "start_ns": [0, 10, 12, 40, 70, 75],
    "duration_ns": [100, 50, 5, 20, 10, 5],
    "name": ["Step", "aten::mm", "cudaLaunchKernel", "void GEMM<1>", "allreduce", "allreduce"],
    "kind": ["annotation", "op", "call", "kernel", "communication", "communication"],
    "family": [_NONE, _NONE, _NONE, "gemm", "communication", "communication"],
    "count": [1, 1, 1, 1, 1, 1],
    "busy_ns": [100, 50, 5, 20, 10, 5],
    "call": [_NONE, _NONE, _NONE, 2, _NONE, _NONE],
    "op": [_NONE, _NONE, _NONE, 1, _NONE, _NONE],
    "collective": [_NONE, _NONE, _NONE, _NONE, 4, 4],
}
_FRAMES = {
    "slices": _SLICES,
    "tracks": {
        "rank": [0, 0, 1],
        "label": ["thread 1", "stream 7", "stream 7"],
        "process": ["process 9", "device 0", "device 1"],
        "is_device": [0, 1, 1],
        "slices": [3, 2, 1],
        "events": [3, 2, 1],
    },
    "ranks": {"start_ns": [0, 5], "end_ns": [100, 90]},
    "links": {"before": [3], "after": [0], "kind": ["sync"], "slack_ns": [40]},
    "path": {
        "slice": [0],
        "track": [0],
        "start_ns": [0],
        "duration_ns": [100],
        "kind": ["op"],
        "name": ["Step"],
    },
}
_SCRIPT = """
import { lineOf, lowerBound, modelOf, sliceAt, firstEndingAfter } from "tracebraid/timeline/model.js";
import { launchedBy, membersOf, parentsOf, waitedFor, waitingFor } from "tracebraid/timeline/relations.js";
import { layoutOf, lineAt, rowAt, HEADING, LINE } from "tracebraid/timeline/layout.js";
import { nextFound, searched } from "tracebraid/timeline/search.js";
import { around, moved, revealing, whole, zoomed } from "tracebraid/timeline/view.js";
import { nextOnLine, nextOnLines } from "tracebraid/timeline/moves.js";
import { stateOf, toggle } from "tracebraid/timeline/state.js";
import { rulerStep } from "tracebraid/timeline/ruler.js";
const frames = {};
for (const [name, columns] of Object.entries(input)) {
  const found = {};
  for (const [key, values] of Object.entries(columns)) {
    const isText = values.some((value) => typeof value === "string");
    found[key] = isText ? values : Float64Array.from(values, (value) => value ?? NaN);
  }
  frames[name] = { rows: Object.values(columns)[0].length, columns: found };
}
const model = modelOf(frames);
const stream = model.tracks[1].lines[0];
const state = stateOf(model, null);
const layout = state.layout;
const search = searched(model, "ALLred");
const all = whole(model.extent);
const close = zoomed(all, 0.5, 50, model.extent);
toggle(state, layout.rows[0]);
output = {
  lines: model.lines.map((line) => [line.track, line.level, line.from, line.to]),
  lineOf: [0, 1, 2, 3, 4, 5].map((slice) => model.lines.indexOf(lineOf(model, slice))),
  bound: [0, 40, 41, 71, 99].map((wanted) => lowerBound(model.start, wanted, 3, 5)),
  at: [39, 40, 59, 65, 70, 80, 200].map((moment) => sliceAt(model, stream, moment, 0)),
  near: [37, 64, 66, 84].map((moment) => sliceAt(model, stream, moment, 4)),
  ending: [0, 50, 60, 75, 80].map((moment) => firstEndingAfter(model, stream, moment)),
  parents: [parentsOf(model, 2), parentsOf(model, 0)],
  launched: [launchedBy(model, 2), launchedBy(model, 1), launchedBy(model, 0)],
  waited: [waitedFor(model, 3), waitedFor(model, 4), waitedFor(model, 0)].map((all) =>
    all.map((found) => [found.slice, found.slack])),
  waiting: [waitingFor(model, 3), waitingFor(model, 4)].map((all) => all.map((found) => found.slice)),
  members: [membersOf(model, 4), membersOf(model, 3)],
  rows: layout.rows.map((row) => [row.rank, row.track, row.lines.length]),
  tops: [...layout.tops],
  rowAt: [0, HEADING, layout.height - 1, layout.height, -1].map((y) => layout.rows.indexOf(rowAt(layout, y))),
  lineAt: [HEADING, HEADING + LINE, HEADING + 2 * LINE].map((y) => model.lines.indexOf(lineAt(layout, y))),
  collapsed: state.layout.rows.map((row) => [row.rank, row.track]),
  found: [search.found, [...search.before]],
  next: [[-1, 1], [-1, -1], [4, 1], [5, 1], [4, -1], [3, 1], [3, -1]].map(([from, step]) =>
    nextFound(model, search, from, step)),
  none: [searched(model, "  ").before, searched(model, "zzz").found],
  zoom: [close.to - close.from, (all.to - all.from) / 2, close.from <= 50 && close.to >= 50],
  ends: [moved(close, 1e9, model.extent).to - all.to, moved(close, -1e9, model.extent).from - all.from],
  widest: zoomed(all, 100, 50, model.extent),
  all,
  around: around(70, 10, model.extent),
  revealed: [revealing(close, 45, 2, model.extent) === close, revealing({ from: 0, to: 20 }, 70, 10, model.extent)],
  onLine: [nextOnLine(model, 3, 1), nextOnLine(model, 4, 1), nextOnLine(model, 3, -1)],
  onLines: [[0, 1], [1, 1], [2, 1], [0, -1]].map(([from, step]) =>
    nextOnLines({ model, layout, view: all }, from, step)),
  steps: [1, 3, 0.2, 11, 600].map(rulerStep),
};
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    result: dict[str, Any] = evaluated(_SCRIPT, _FRAMES)
    return result


def test_slices_are_found_by_line_and_moment(found: dict[str, Any]) -> None:
    assert found["lines"] == [[0, 0, 0, 1], [0, 1, 1, 2], [0, 2, 2, 3], [1, 0, 3, 5], [2, 0, 5, 6]]
    assert found["lineOf"] == [0, 1, 2, 3, 3, 4]
    assert found["bound"] == [3, 3, 4, 5, 5]
    assert found["at"] == [-1, 3, 3, -1, 4, 4, -1]
    assert found["near"] == [3, 3, 4, 4]
    assert found["ending"] == [3, 3, 4, 4, 5]


def test_relations_of_slices(found: dict[str, Any]) -> None:
    assert found["parents"] == [[1, 0], []]
    assert found["launched"] == [[3], [3], []]
    assert found["waited"] == [[[2, 28]], [[3, 10]], [[3, 40]]]
    assert found["waiting"] == [[0, 4], []]
    assert found["members"] == [[5], []]


def test_rows_of_ranks_and_tracks(found: dict[str, Any]) -> None:
    assert found["rows"] == [[0, -1, 0], [0, 0, 3], [0, 1, 1], [1, -1, 0], [1, 2, 1]]
    assert found["tops"] == sorted(found["tops"])
    assert found["rowAt"] == [0, 1, 4, -1, -1]
    assert found["lineAt"] == [0, 1, 2]
    assert found["collapsed"] == [[0, -1], [1, -1], [1, 2]]


def test_search_finds_names_and_goes_around(found: dict[str, Any]) -> None:
    assert found["found"] == [[4, 5], [0, 0, 0, 0, 0, 1, 2]]
    assert found["next"] == [4, 5, 5, 4, 5, 4, 5]
    assert found["none"] == [None, []]


def test_zoom_and_pan_stay_within_the_timeline(found: dict[str, Any]) -> None:
    span, half, about = found["zoom"]
    assert (span, about) == (pytest.approx(max(half, 100)), True)
    assert found["ends"] == [pytest.approx(0), pytest.approx(0)]
    assert found["widest"] == pytest.approx(found["all"])
    assert found["around"]["from"] <= 70 <= 80 <= found["around"]["to"]
    same, moved = found["revealed"]
    assert same
    assert moved["from"] <= 70 <= 80 <= moved["to"]


def test_keys_go_to_the_next_slice_and_line(found: dict[str, Any]) -> None:
    assert found["onLine"] == [4, 4, 3]
    assert found["onLines"] == [1, 2, 3, 0]
    assert found["steps"] == [1, 5, 1, 20, 1000]
