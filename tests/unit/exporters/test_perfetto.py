"""Files for Perfetto: its protobuf, Chrome's JSON, and events that nest."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.growth import grows_less
from tests.perfetto_trace import Shown, shown
from tests.planted import Scene, device_scene
from tests.planted.random_scenes import scenes
from tracebraid.exporters.perfetto.chrome import CHROME
from tracebraid.exporters.perfetto.content import Counter as Series
from tracebraid.exporters.perfetto.content import Process, Unit
from tracebraid.exporters.perfetto.protobuf import PROTOBUF
from tracebraid.exporters.perfetto.rank_process import RankContext, rank_process
from tracebraid.exporters.perfetto.schema import begins_and_ends, siblings
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.wire_format import Ints

_NO_SURROUNDINGS = pl.DataFrame(schema={"event_id": pl.Int64})

_NO_MEMBERS = pl.DataFrame(
    schema={"event_id": pl.Int64, "collective": pl.Int64, "is_first": pl.Boolean, "is_last": pl.Boolean}
)


def process_of(linked: LinkedTrace, number: int = 0) -> Process:
    context = RankContext(number, linked.timeline.events, _NO_SURROUNDINGS, _NO_MEMBERS)
    return rank_process(linked, context)


def shown_of(linked: LinkedTrace) -> Shown:
    return shown(b"".join(PROTOBUF.process(process_of(linked), 0)))


def events_of(linked: LinkedTrace) -> Counter[tuple[str, str, int, int]]:
    rows = linked.timeline.events.select(as_text("name", "category"), "ts_ns", "dur_ns").rows()
    return Counter((name or "", category or "", ts, dur) for name, category, ts, dur in rows)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(scenes())
def test_what_is_shown_are_the_tables(scene: Scene) -> None:
    linked = scene.linked()
    found = shown_of(linked)
    check_events(linked, found)
    check_nesting(linked, found)
    check_flows(linked, found)


def check_events(linked: LinkedTrace, found: Shown) -> None:
    """Every event is there once, with its times."""
    assert Counter((s.name, s.category, s.ts, s.dur or 0) for s in found.slices) == events_of(linked)
    instants = linked.timeline.events.filter(
        as_text("category").is_in(categories_of(Role.INSTANT)), pl.col("dur_ns") == 0
    )
    assert sum(s.is_instant for s in found.slices) == instants.height


def check_nesting(linked: LinkedTrace, found: Shown) -> None:
    """Host events of these scenes nest, so each thread is a single track; equal slices may nest either way."""
    events = linked.timeline.events.select("event_id", as_text("name"), "ts_ns", "dur_ns")
    parents = linked.host_tree.select("event_id", "parent_event").join(events, on="event_id")
    joined = parents.join(events, left_on="parent_event", right_on="event_id", how="left", suffix="_parent")
    expected = Counter(joined.select("ts_ns", "dur_ns", "ts_ns_parent", "dur_ns_parent").rows())
    host = linked.host_tree.get_column("event_id").to_list()
    spans = Counter(events.filter(pl.col("event_id").is_in(host)).select("name", "ts_ns", "dur_ns").rows())
    pairs = Counter(
        (s.ts, s.dur, *((s.parent.ts, s.parent.dur) if s.parent else (None, None)))
        for s in found.slices
        if (s.name, s.ts, s.dur) in spans and s.track.thread is not None
    )
    assert pairs == expected


def check_flows(linked: LinkedTrace, found: Shown) -> None:
    """A launch and its work share a flow that nothing else has."""
    ends: dict[int, list[tuple[str, int]]] = {}
    for slice_ in found.slices:
        for flow in slice_.flows:
            ends.setdefault(flow, []).append((slice_.name, slice_.ts))
    events = linked.timeline.events
    names, starts = events.get_column("name").cast(pl.String), events.get_column("ts_ns")
    pairs = [
        *linked.launches.drop_nulls("call_event").select("call_event", "event_id").rows(),
        *linked.forward_backward.select("forward_event", "backward_event").rows(),
    ]
    expected = [sorted((names[event], starts[event]) for event in pair) for pair in pairs]
    assert sorted(map(sorted, ends.values())) == sorted(expected)


def test_equal_input_gives_equal_bytes() -> None:
    scene, host, stream = device_scene()
    with host.op("aten::mm", dims=[[2, 3], [3, 4]]):
        host.launch(stream, "gemm", 50_000)
    first, second = (b"".join(PROTOBUF.process(process_of(scene.linked()), 0)) for _ in range(2))
    assert first == second


def test_overlapping_kernels_of_a_stream_go_to_tracks_of_the_same_name() -> None:
    scene = Scene()
    for start in (0, 50, 80, 200):
        scene.raw(
            {
                "ph": "X",
                "cat": "kernel",
                "name": f"k{start}",
                "pid": 0,
                "tid": 7,
                "ts": start,
                "dur": 100,
                "args": {"device": 0, "stream": 7},
            }
        )
    found = [s for s in shown_of(scene.linked()).slices if s.category == "kernel"]
    assert [s.dur for s in found] == [100_000] * 4
    assert len({s.track.uuid for s in found}) == 3
    assert len({s.track.name for s in found}) == 1


def test_arguments_are_those_of_the_file() -> None:
    scene, host, stream = device_scene()
    with host.op("aten::mm", dims=[[2, 3], [3, 4]]):
        host.launch(stream, "gemm", 50_000)
    found = {s.name: s.args for s in shown_of(scene.linked()).slices}
    assert found["aten::mm"]["Input Dims"].replace(" ", "") == "[[2,3],[3,4]]"
    assert found["gemm"]["op"] == "aten::mm"
    assert found["gemm"]["stream"] == 7


def test_hostile_texts_come_back_as_they_are() -> None:
    names = ["</script><b>", 'quote " and \\', "\u202eright to left", "\x00\x01\x1f", "k" * 10_000, "😀", ""]
    scene = Scene()
    for start, name in enumerate(names):
        scene.raw(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": name,
                "pid": 1,
                "tid": 2,
                "ts": start * 10,
                "dur": 5,
                "args": {name or "event_id": name, "event_id": name},
            }
        )
    found = shown_of(scene.linked()).slices
    assert [s.name for s in found if s.category == "cpu_op"] == names
    values = [s.args["event_id"] for s in found if s.category == "cpu_op"]
    assert [json.loads(value) for value in values] == names


def test_a_process_of_nothing_is_a_trace() -> None:
    found = shown(b"".join(PROTOBUF.process(process_of(Scene().linked()), 0)))
    assert found.slices == []
    assert len(found.processes) == 1


def test_events_of_no_known_form_are_moments_with_their_text() -> None:
    scene = Scene()
    with scene.thread().op("aten::add"):
        pass
    scene.raw({"ph": "C", "name": "power", "pid": 0, "ts": 5, "args": {"W": 300}})
    scene.raw({"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 0, "tid": 1})
    linked = scene.linked()
    found = [s for s in shown_of(linked).slices if s.track.name == "other events"]
    assert len(found) == linked.timeline.tables["other_events"].height == 2
    assert all(s.is_instant for s in found)
    assert [json.loads(s.args["event"])["name"] for s in found] == ["power", "no time"]


_BASE_NS = 1_700_000_000_000_000_000


def events_in(process: Process, base_ns: int = _BASE_NS) -> list[dict[str, Any]]:
    text = b"".join(CHROME.chunks([CHROME.process(process, base_ns)], base_ns))
    found = json.loads(text, parse_float=Decimal)
    assert found["baseTimeNanoseconds"] == base_ns
    events: list[dict[str, Any]] = found["traceEvents"]
    return events


def ns(us: Any, base_ns: int = 0) -> int:
    exact = Decimal(us) * 1000
    assert exact == int(exact)
    return int(exact) + base_ns


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(scenes())
def test_every_event_is_there_with_the_times_arguments_and_flows_of_protobuf(scene: Scene) -> None:
    linked = scene.linked()
    process = process_of(linked)
    events = events_in(process)
    found = Counter(
        (event["name"], event["cat"], ns(event["ts"], _BASE_NS), ns(event.get("dur", 0)))
        for event in events
        if event["ph"] in "Xi"
    )
    assert found == events_of(linked)
    pairs = shown(b"".join(PROTOBUF.process(process, 0)))
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            flows[event["id"]].append((event["ph"], ns(event["ts"], _BASE_NS)))
    expected = defaultdict(list)
    for slice_ in pairs.slices:
        for flow in slice_.flows:
            expected[flow].append(slice_.ts)
    assert {flow: sorted(ts for _, ts in ends) for flow, ends in flows.items()} == {
        flow: sorted(starts) for flow, starts in expected.items()
    }
    assert all(sorted(phase for phase, _ in ends) == ["f", "s"] for ends in flows.values())
    args = Counter((event["name"], frozenset(event["args"])) for event in events if event["ph"] in ("X", "i"))
    assert args == Counter((s.name, frozenset(s.args)) for s in pairs.slices)


def test_counters_keep_their_values() -> None:
    process = process_of(Scene().linked())
    ts = np.array([_BASE_NS, _BASE_NS + 1], dtype=np.int64)
    series = (
        Series("a", Unit.COUNT, ts, np.array([1, 2**53 + 1], dtype=np.int64)),
        Series('b"', Unit.BYTES_PER_S, ts, np.array([0.1, 1e300])),
    )
    counted = Process(0, "p", ("label",), process.lanes, process.slices, series)
    found = [event for event in events_in(counted) if event["ph"] == "C"]
    assert [(event["name"], ns(event["ts"], _BASE_NS)) for event in found] == [
        (name, int(at)) for name in ("a", 'b"') for at in ts
    ]
    assert [float(value) for event in found for value in event["args"].values()] == [1, 2.0**53, 0.1, 1e300]
    assert found[1]["args"]["count"] == 2**53 + 1


def test_hostile_texts_and_numbers_stay_json() -> None:
    names = ["</script>", 'quote " and \\', "\u202e", "\x00\x1f\u2028", "k" * 10_000, "😀", "{}", "%"]
    scene = Scene()
    for start, name in enumerate(names):
        scene.raw(
            {
                "ph": "X",
                "cat": "kernel",
                "name": name,
                "pid": 0,
                "tid": 7,
                "ts": start * 10,
                "dur": 5,
                "args": {name: name, "Input Dims": "[", "est. achieved occupancy %": 1e308},
            }
        )
    events = [event for event in events_in(process_of(scene.linked())) if event.get("cat") == "kernel"]
    assert [event["name"] for event in events] == names
    assert [event["args"][event["name"]] for event in events] == names


def test_times_before_the_base_are_exact_too() -> None:
    scene = Scene()
    with scene.thread().op("aten::add"):
        pass
    process = process_of(scene.linked())
    start = int(process.slices.ts_ns[0])
    (event,) = [event for event in events_in(process, start + 1_234) if event["ph"] == "X"]
    assert ns(event["ts"], start + 1_234) == start


def test_a_process_of_nothing_is_json() -> None:
    assert {event["ph"] for event in events_in(process_of(Scene().linked()))} == {"M"}


_TOLERANCE = 2.5
"""What noise and the logarithm of sorting add to linear growth."""

_SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6)), max_size=40)


def in_order(spans: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    """Lane, start and end of (lane, start, duration), in the order that is asked for."""
    rows = sorted(spans, key=lambda span: (span[1], -span[2]))
    lane, start, dur = (np.array([row[column] for row in rows], dtype=np.int64) for column in range(3))
    return lane, start, start + dur


def nest(starts: list[int], ends: list[int]) -> bool:
    """Whether no two slices overlap without one holding the other."""
    pairs = list(zip(starts, ends, strict=True))
    return not any(a < c < b < d for a, b in pairs for c, d in pairs)


@given(_SPANS)
def test_slices_of_a_sibling_nest(spans: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_order(spans)
    tracks = defaultdict(list)
    for row, track in enumerate(zip(lane.tolist(), siblings(lane, start, end).tolist(), strict=True)):
        tracks[track].append(row)
    assert all(nest(start[rows].tolist(), end[rows].tolist()) for rows in tracks.values())


@pytest.mark.slow
@given(_SPANS)
def test_lanes_whose_slices_nest_have_no_siblings(spans: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_order(spans)
    found = siblings(lane, start, end)
    for number in set(lane.tolist()):
        rows = lane == number
        assert (found[rows].max() == 0) == nest(start[rows].tolist(), end[rows].tolist())


@given(_SPANS)
def test_a_stack_closes_each_slice_at_its_end(spans: list[tuple[int, int, int]]) -> None:
    lane, start, end = in_order(spans)
    track = list(zip(lane.tolist(), siblings(lane, start, end).tolist(), strict=True))
    begin, close = begins_and_ends(start, end)
    order = {int(at): (row, False) for row, at in enumerate(begin)}
    order |= {int(at): (row, True) for row, at in enumerate(close)}
    assert sorted(order) == list(range(2 * len(start)))
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
    last = 0
    for at in range(2 * len(start)):
        row, is_end = order[at]
        moment = int(end[row] if is_end else start[row])
        assert moment >= last
        last = moment
        if is_end:
            assert end[stacks[track[row]].pop()] == end[row]
        else:
            stacks[track[row]].append(row)


@pytest.mark.parametrize("length", [2, 10**9], ids=["few at a time", "all at a time"])
def test_the_time_is_linear_however_many_overlap(length: int) -> None:
    def spread(count: int) -> None:
        start = np.arange(count, dtype=np.int64)
        siblings(np.zeros(count, dtype=np.int64), start, 2 * start + length)

    assert grows_less(8 * _TOLERANCE, spread, 5_000, 40_000)
