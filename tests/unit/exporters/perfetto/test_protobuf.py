"""What is in a decoded trace against the tables that it was made of."""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
from hypothesis import given, settings

from tests.perfetto_trace import Shown, shown
from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tracebraid.exporters.perfetto.content import Process
from tracebraid.exporters.perfetto.protobuf import PROTOBUF
from tracebraid.exporters.perfetto.rank_process import RankContext, rank_process
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

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
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
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
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
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
