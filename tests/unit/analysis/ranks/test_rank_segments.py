"""What a rank did before each collective adds up to the time since the last, and keeps what takes long."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from tests.planted import Scene
from tests.unit.analysis.ranks.planned import KINDS, data_parallel
from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.ranks.lateness import rank_segments as segments
from tracebraid.analysis.ranks.lateness.rank_segments import MOST_NAMES, rank_segments
from tracebraid.analysis.ranks.lateness.segment_kinds import SegmentKind


@pytest.mark.parametrize("kind", KINDS)
def test_segments_add_up(kind: str) -> None:
    linked = data_parallel(2, kind).linked(1)
    assert linked.timeline.span_ns is not None
    arrivals = members(linked).get_column("start_ns").sort()
    lengths = arrivals.diff().fill_null(arrivals[0] - linked.timeline.span_ns[0])
    sums = rank_segments(linked).group_by("event_id").agg(pl.col("time_ns").sum())
    assert sorted(sums.get_column("time_ns").to_list()) == sorted(lengths.to_list())


def test_names_beyond_the_most_are_merged_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_ROWS", MOST_NAMES)
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    names = MOST_NAMES + 5
    for number in range(names):
        host.launch(stream, f"kernel_{number}", 100_000 * (number + 1))
    event = host.collective(stream, 50_000)
    found = rank_segments(scene.linked()).filter(pl.col("kind") == SegmentKind.KERNEL)
    kept = found.filter(~pl.col("merged"))
    assert kept.height == MOST_NAMES
    assert found.get_column("event_id").unique().to_list() == [event.event_id]
    (rest,) = found.filter("merged").iter_rows(named=True)
    assert rest["count"] == names - MOST_NAMES
    assert int(found.get_column("time_ns").sum()) == sum(100_000 * (number + 1) for number in range(names))
    assert rest["time_ns"] == int(found.get_column("time_ns").sum()) - int(kept.get_column("time_ns").sum())


def test_what_is_launched_and_does_not_start_is_queued() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "gemm", 10_000)
    host.collective(stream, 50_000)
    host.until(stream.free)
    host.launch(stream, "late", 10_000, latency=300_000)
    event = host.collective(stream, 50_000)
    found = rank_segments(scene.linked()).filter(event_id=event.event_id, kind=int(SegmentKind.QUEUED))
    assert found.get_column("time_ns").to_list() == [300_000]


def test_a_trace_without_collectives_has_none() -> None:
    scene = Scene()
    scene.thread().run("aten::mm", 1_000)
    assert rank_segments(scene.linked()).is_empty()
    assert rank_segments(Scene().linked()).is_empty()


def test_stacks_name_what_the_host_does() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.collective(stream, 50_000)
    host.until(stream.free)
    with host.frame("train.py(3): main"), host.frame("<built-in function sleep>"):
        host.spend(500_000)
    with host.frame("train.py(3): main", 100_000):
        event = host.collective(stream, 50_000)
    found = rank_segments(scene.linked()).filter(event_id=event.event_id, kind=int(SegmentKind.PYTHON))
    assert dict(found.select("name", "time_ns").iter_rows())["<built-in function sleep>"] == 500_000
    assert set(found.get_column("name")) == {"<built-in function sleep>", "train.py(3): main"}


def test_ids_of_single_collectives_do_not_part_a_group() -> None:
    scene = Scene(world_size=2)
    host, stream = scene.thread(), scene.stream(7)
    for number in range(3):
        host.collective(stream, 50_000).args["Comms Id"] = f"id {number}"
    linked = scene.linked()
    arrivals = members(linked).get_column("start_ns").sort().to_list()
    lengths = rank_segments(linked).group_by("event_id", maintain_order=True).agg(pl.col("time_ns").sum())
    assert lengths.get_column("time_ns").to_list()[1:] == [
        later - earlier for earlier, later in pairwise(arrivals)
    ]
