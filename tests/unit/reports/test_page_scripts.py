"""What the timeline's scripts compute without a page: all in one run of deno."""

from __future__ import annotations

import csv
import io
import random
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from tests.deno import evaluated
from tests.unit.reports.test_page_files import header_of
from tracebraid.model.quantities import duration, number, percent, quantity, size
from tracebraid.reports.page.page import data_block

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
import { rulerStep, tickText } from "tracebraid/timeline/ruler.js";
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
  ticks: [[0, 5], [5e8, 5e8], [1105440000, 1e4], [1105450000, 1e4], [-2e6, 1e6], [1500, 500]]
    .map(([ns, step]) => tickText(ns, step)),
};
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    result: dict[str, Any] = evaluated(_SCRIPT, _FRAMES)
    return result


@pytest.mark.full
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


def test_moments_of_the_ruler_differ(found: dict[str, Any]) -> None:
    assert found["ticks"] == ["0", "500 ms", "1.10544 s", "1.10545 s", "-2 ms", "1.5 µs"]


# --- The tree of a flame graph in the page: the same totals as the table's, whatever is hidden, ------


ROWS = [
    (None, "step", "annotation", 10),
    (None, "other", "op", 25),
    (0, "train.py(3): f", "python", 4),
    (0, "aten::mm", "op", 20),
    (2, "aten::mm", "op", 30),
    (2, "(3 smaller)", "smaller", 50),
    (4, "cudaLaunchKernel", "call", 7),
]
SCRIPT = """
import { boxesOf, neighbour, search, treeOf, without } from "tracebraid/flame/tree.js";
const columns = Object.fromEntries(Object.entries(input).map(([name, values]) =>
  [name, values.map((value) => value === null ? NaN : value)]));
const tree = treeOf({ rows: input.name.length, columns });
const hidden = without(tree, "python");
const rowsOf = (tree) => tree.names.map((name, at) => [name, tree.parent[at], tree.self[at], tree.total[at]]);
output = {
  tree: rowsOf(tree),
  hidden: rowsOf(hidden),
  start: Array.from(tree.start),
  inside: tree.inside,
  found: { ...search(tree, "ATEN"), matches: undefined },
  nothing: search(tree, "").frames,
  boxes: boxesOf(tree, 0, 1460, 1),
  zoomed: boxesOf(tree, 3, 900, 1),
  narrow: boxesOf(tree, 0, 146, 8).map((box) => box.frame),
  keys: ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "x"].map((key) => neighbour(tree, 3, key)),
  ends: ["ArrowUp", "ArrowLeft", "ArrowRight"].map((key) => neighbour(tree, 0, key)),
};
"""


@pytest.fixture(scope="module")
def flame_found() -> Any:
    columns = {
        "parent": [parent for parent, *_ in ROWS],
        "name": [name for _, name, *_ in ROWS],
        "kind": [kind for _, _, kind, _ in ROWS],
        "self_ns": [own for *_, own in ROWS],
        "count": [1] * len(ROWS),
    }
    return evaluated(SCRIPT, columns)


@pytest.mark.full
def test_totals_are_of_all_that_is_inside(flame_found: Any) -> None:
    totals = {(name, parent): total for name, parent, _, total in flame_found["tree"]}
    assert totals["all", -1] == sum(own for *_, own in ROWS) == 146
    assert totals["step", 0] == 121
    assert totals["train.py(3): f", 1] == 91


def test_children_stand_side_by_side_the_smaller_ones_last(flame_found: Any) -> None:
    assert flame_found["inside"][0] == [1, 2]
    assert flame_found["inside"][3] == [5, 6]
    assert flame_found["start"][2] == 121
    assert flame_found["start"][6] == flame_found["start"][5] + 37


def test_hidden_functions_leave_their_time_to_what_is_around_them(flame_found: Any) -> None:
    by_name = {name: (parent, own, total) for name, parent, own, total in flame_found["hidden"]}
    assert "train.py(3): f" not in by_name
    assert by_name["step"] == (0, 14, 121)
    assert by_name["aten::mm"] == (1, 50, 57)
    assert by_name["all"][2] == 146


def test_a_match_in_a_match_counts_once(flame_found: Any) -> None:
    assert flame_found["found"] == {"frames": 2, "time": 57}
    assert flame_found["nothing"] == 0


def test_boxes_are_as_wide_as_their_time(flame_found: Any) -> None:
    boxes = {box["frame"]: box for box in flame_found["boxes"]}
    assert len(boxes) == len(ROWS) + 1
    assert boxes[1] == {"frame": 1, "row": 1, "left": 0, "width": 1210}
    assert boxes[2]["left"] == 1210
    zoomed = {box["frame"]: box for box in flame_found["zoomed"]}
    assert [zoomed[frame]["width"] for frame in (0, 1, 3)] == [900] * 3
    assert zoomed[6]["width"] == pytest.approx(900 * 50 / 91)
    assert 2 not in zoomed
    assert 7 not in flame_found["narrow"]


def test_keys_lead_to_neighbours(flame_found: Any) -> None:
    assert flame_found["keys"] == [5, 1, 3, 4, 0, 3]
    assert flame_found["ends"] == [0, 0, 0]


# --- Scales and figures of the page's charts ---------------------------------------------------------


VALUES = (0.000123, 0.5, 12.345, 999.96, 1_234.5, 98_765_432.0, 3.2e12)
DOMAINS = ((0, 7), (0, 0.0031), (13, 94), (0, 1.2e9), (5, 5))

_SCALES_SCRIPT = """
import { decadeText, figure, tickTexts } from "tracebraid/charts/figures.js";
import { linear, logarithmic } from "tracebraid/charts/scales.js";
const scales = input.domains.map((domain) => linear(domain, [0, 500], { widen: true }));
const log = logarithmic([3, 40000], [0, 400]);
const units = ["ns", "share", "bytes", "bytes_per_s", "count"];
output = {
  figures: Object.fromEntries(units.map((unit) => [unit, input.values.map((value) => figure(value, unit))])),
  scales: scales.map((s) => ({ ticks: s.ticks, domain: s.domain, px: s.domain.map(s.at), back: s.value(250) })),
  log: { ticks: log.ticks, px: [1, 10, 100000].map(log.at), texts: log.ticks.map((t) => decadeText(t, "bytes")) },
  texts: tickTexts([0, 500000, 1000000, 1500000], "ns"),
};
"""


@cache
def _found() -> Any:
    return evaluated(_SCALES_SCRIPT, {"values": VALUES, "domains": DOMAINS})


def test_figures_are_those_of_the_tables() -> None:
    figures = _found()["figures"]
    assert figures["ns"] == [duration(value) for value in VALUES]
    assert figures["share"] == [percent(value) for value in VALUES]
    assert figures["bytes"] == [size(value) for value in VALUES]
    assert figures["bytes_per_s"] == [f"{quantity(value)}B/s" for value in VALUES]
    assert figures["count"] == [number(value) for value in VALUES]


def test_a_linear_scale_holds_its_domain_between_round_ticks() -> None:
    for (least, most), scale in zip(DOMAINS, _found()["scales"], strict=True):
        ticks = scale["ticks"]
        assert scale["domain"][0] <= least <= most <= scale["domain"][1]
        assert 2 <= len(ticks) <= 12
        steps = [after - before for before, after in pairwise(ticks)]
        assert steps == pytest.approx([steps[0]] * len(steps))
        assert f"{steps[0]:e}"[0] in "125"
        assert scale["px"] == pytest.approx([0, 500])
        assert scale["back"] == pytest.approx(sum(scale["domain"]) / 2)


def test_a_logarithmic_scale_has_a_tick_for_each_decade() -> None:
    log = _found()["log"]
    assert log["ticks"] == [1, 10, 100, 1_000, 10_000, 100_000]
    assert log["px"] == pytest.approx([0, 80, 400])
    assert log["texts"] == ["1 B", "10 B", "100 B", "1 KB", "10 KB", "100 KB"]


def test_ticks_of_an_axis_share_a_unit() -> None:
    assert _found()["texts"] == ["0", "0.5 ms", "1.0 ms", "1.5 ms"]


# --- Rows of the page's tables: in order, found, copied, shortened -----------------------------------


START_NS = 1_700_000_000_123_456_789
NAMES = [
    None,
    "b10",
    "b9",
    "B9",
    "a",
    "",
    "=1+1",
    "+x",
    "-x",
    "@x",
    "\tx",
    "\rx",
    'q"q',
    "c,c",
    "n\nn",
    "host-late",
]
MOST = 30


def frame() -> pl.DataFrame:
    rng = random.Random(4)
    rows = 200
    return pl.DataFrame(
        {
            "name": [rng.choice(NAMES) for _ in range(rows)],
            "cause": [rng.choice(["host-late", "queued", None]) for _ in range(rows)],
            "count": pl.Series([rng.choice([None, 1, 2, 10, -3]) for _ in range(rows)], dtype=pl.Int64),
            "ratio": [rng.choice([None, 0.25, 1e-9, -2.0]) for _ in range(rows)],
            "ts_ns": [1000 * row for row in range(rows)],
            "is_bound": [rng.choice([True, False, None]) for _ in range(rows)],
            "ranks": [[row, row + 1] for row in range(rows)],
        }
    )


def run(script: str, **values: Any) -> Any:
    """A script with `frame`, `columns` and the values as `input`."""
    table = frame()
    head = (
        'import { frameOf } from "tracebraid/data_block.js";\n'
        'import { finder, ordered } from "tracebraid/table/order.js";\n'
        'import { csv, tsv } from "tracebraid/table/delimited.js";\n'
        "const frame = await frameOf(input.block);\nconst { columns } = input;\n"
        "const all = ordered(frame, columns, null);\n"
    )
    return evaluated(
        head + script,
        {"block": data_block(table), "columns": header_of(table), "start": str(START_NS), **values},
    )


@pytest.mark.full
def test_numbers_are_ordered_as_numbers_with_null_last() -> None:
    table = frame().with_row_index("row")
    sorts = [(name, down) for name in ("count", "ratio", "is_bound") for down in (False, True)]
    found = run(
        "output = input.sorts.map(([name, isDescending]) => [...ordered(frame, columns, { name, isDescending })]);",
        sorts=sorts,
    )
    assert found == [
        table.sort(name, descending=down, nulls_last=True, maintain_order=True)["row"].to_list()
        for name, down in sorts
    ]


@pytest.mark.full
def test_texts_are_ordered_as_they_are_shown() -> None:
    script = """output = ["name", "cause"].map((name) => [false, true].map((isDescending) =>
      [...ordered(frame, columns, { name, isDescending })].map((row) => frame.columns[name][row])));"""
    (names, _), (causes, reversed_causes) = run(script)
    known = [name for name in names if name is not None]
    assert names[len(known) :] == [None] * (len(names) - len(known))
    assert known.index("b9") < known.index("b10")
    # Shown as "between kernels" and "host was late".
    first = [cause for cause in causes if cause is not None]
    assert list(dict.fromkeys(first)) == ["queued", "host-late"]
    assert list(dict.fromkeys(reversed_causes)) == ["host-late", "queued", None]


@pytest.mark.full
def test_rows_are_found_by_what_they_show() -> None:
    table = frame()
    sought = ["HOST WAS", "b9", "\\t", "no such text", " "]
    found = run(
        "const find = finder(frame, columns); output = input.sought.map((text) => find(text, all).length);",
        sought=sought,
    )
    names = table["name"].fill_null("")
    assert found == [
        table.filter(pl.col("cause") == "host-late").height,
        names.str.to_lowercase().str.contains("b9").sum(),
        names.str.contains("\t").sum(),
        0,
        table.height,
    ]


@pytest.mark.full
def test_csv_holds_all_values_and_no_formula() -> None:
    table = frame()
    text = run("output = csv(frame, columns, all, BigInt(input.start));")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for row, expected in zip(rows, table.to_dicts(), strict=True):
        name = expected["name"] or ""
        assert row["name"] == (f"'{name}" if name[:1] in tuple("=+-@\t\r") and name else name)
        assert row["count"] == ("" if expected["count"] is None else str(expected["count"]))
        assert (float(row["ratio"]) if row["ratio"] else None) == expected["ratio"]
        assert int(row["ts_ns"]) == expected["ts_ns"] + START_NS
        assert row["is_bound"] == {None: "", True: "true", False: "false"}[expected["is_bound"]]


@pytest.mark.full
def test_a_copied_text_stays_in_its_cell() -> None:
    lines = run("output = tsv(frame, columns, all.slice(0, 50), 0n);").splitlines()
    assert len(lines) == 51
    assert {line.count("\t") for line in lines} == {frame().width - 1}


@pytest.mark.full
def test_short_forms_differ_where_names_do() -> None:
    stem = "void at::native::vectorized_elementwise_kernel<4, at::native::"
    names = [f"{stem}{op}, std::array<char*, 2>>(int, std::array)" for op in ("add", "mul", "sub", "div")]
    names += [f"gemm_{size}_" + "x" * 60 + "_relu" for size in (64, 128)] + ["short", "😀" * 40, "y" * 10_000]
    found = evaluated(
        f'import {{ shortForms }} from "tracebraid/table/shorten.js"; output = [...shortForms(input, {MOST})];',
        names,
    )
    short = dict(found)
    assert set(short) == {name for name in names if len(name.encode("utf-16-le")) // 2 > MOST}
    assert len(set(short.values())) == len(short)
    assert max(len(text) for text in short.values()) <= MOST
    for text in short.values():
        text.encode("utf-8")
