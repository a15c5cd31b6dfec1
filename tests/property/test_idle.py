"""Idle time by cause: its parts add up to that of the breakdown, and each nanosecond has what the host did then."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.property.test_intervals import events_of, steady, work
from tests.unit.linking.made import linked_of
from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.analysis.host.thread_timelines import thread_timelines
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.idle.cause_parts import SLOW_LAUNCH_NS
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_causes import idle_causes
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps
from tracebraid.model.linked_trace import LinkedTrace

steps = st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), max_size=3)


def sums(table: pl.DataFrame, column: str) -> dict[tuple[str | None, str], int]:
    """The sum of a column by step and device; those of nothing are left out."""
    found = table.group_by("step", "device").agg(pl.col(column).sum()).iter_rows()
    return {(step, device): total for step, device, total in found if total}


def assert_adds_up(linked: LinkedTrace) -> None:
    """All that must hold of the idle time of any trace."""
    table = breakdown(linked)
    for per_step in (False, True):
        idle = sums(table.filter(pl.col("step").is_not_null() == per_step), "idle_ns")
        by_cause, gaps, blame = (ask(linked, per_step) for ask in (idle_causes, idle_gaps, idle_blame))
        assert sums(by_cause, "idle_ns") == idle
        assert sums(gaps, "dur_ns") == idle
        is_late = pl.col("cause") == "host-late"
        late = sums(by_cause.filter(is_late), "idle_ns")
        assert sums(blame, "idle_ns") == late
        assert sums(idle_blame(linked, per_step, by="annotation"), "idle_ns") == late
        by_gap = gaps.group_by("step", "device", "cause", "size").agg(pl.col("dur_ns").sum())
        of_causes = by_cause.group_by("step", "device", "cause", "size").agg(pl.col("idle_ns").sum())
        assert sorted(map(repr, by_gap.rows())) == sorted(map(repr, of_causes.rows()))
        assert (gaps.get_column("dur_ns") > 0).all()
        assert gaps.filter(pl.col("host_activity_ns") > pl.col("dur_ns")).is_empty()
        shares = by_cause.group_by("step", "device").agg(pl.col("share").sum()).get_column("share")
        assert ((shares - 1).abs() < 1e-9).all()


@given(scenes())
@settings(steady, max_examples=25)
def test_the_parts_add_up_in_sound_scenes(scene: Scene) -> None:
    assert_adds_up(scene.linked())


@given(scenes(device=False))
@settings(steady, max_examples=25)
def test_the_parts_add_up_without_a_device(scene: Scene) -> None:
    assert_adds_up(scene.linked())


@given(work, steps)
@settings(steady, max_examples=25)
def test_the_parts_add_up_where_steps_overlap_and_nothing_was_launched(
    drawn: list[tuple[str, int, int, int, int]], drawn_steps: list[tuple[int, int]]
) -> None:
    assert_adds_up(linked_of(events_of(drawn, drawn_steps)))


@given(scenes())
@settings(steady, max_examples=25)
def test_parts_follow_each_other_without_a_hole(scene: Scene) -> None:
    gaps = idle_gaps(scene.linked())
    for _, parts in gaps.group_by("device", "gap", maintain_order=True):
        starts, lengths = (parts.get_column(name).to_list() for name in ("start_ns", "dur_ns"))
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        assert starts[1:] == ends[:-1]
        assert ends[-1] - starts[0] == parts.item(0, "gap_ns")


@given(scenes())
@settings(steady, max_examples=25)
def test_the_host_is_late_until_it_launches_what_ends_the_gap(scene: Scene) -> None:
    """By what was planted: the call of each work, and whether it launched other work before."""
    for _, parts in idle_gaps(scene.linked()).group_by("gap", maintain_order=True):
        start, row = parts.get_column("start_ns").min(), parts.row(0, named=True)
        assert isinstance(start, int)
        end, work = start + row["gap_ns"], scene.events[row["next_event"]]
        assert work.ts == end
        assert work.call is not None
        same_call = [event for event in scene.events if event.call is work.call and event.ts < work.ts]
        begun = start if same_call else min(max(work.call.ts, start), end)
        is_slow = work.call.dur > SLOW_LAUNCH_NS and "Graph" not in work.call.name and not same_call
        late = (min(max(work.call.end, begun), end) if is_slow else begun) - start
        assert parts.filter(pl.col("cause") == "host-late").get_column("dur_ns").sum() == late
        was_queued = parts.filter(pl.col("cause") == "queued").height > 0
        assert not was_queued or work.call.end <= start or bool(same_call)


@given(scenes())
@settings(steady, max_examples=25)
def test_a_timeline_is_in_the_deepest_event_that_is_open(scene: Scene) -> None:
    linked = scene.linked()
    host = host_rows(linked)
    for lane, timeline in thread_timelines(linked).items():
        for moment, row in zip(timeline.moments.tolist(), timeline.rows.tolist(), strict=True):
            is_open = (host.lane == lane) & (host.start_ns <= moment) & (moment < host.end_ns)
            deepest = max(is_open.nonzero()[0].tolist(), key=lambda r: int(host.depth[r]), default=-1)
            assert deepest == row
