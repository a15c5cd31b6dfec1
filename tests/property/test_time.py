"""Parts of time add up to spans: of steps, of idle devices, of communication and of metrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, complete, op
from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tests.unit.linking.made import linked_of
from tracebraid import metrics
from tracebraid.analyses import (
    breakdown,
    exposed_collectives,
    idle_blame,
    idle_causes,
    idle_gaps,
    overlap,
    step_spread,
    step_times,
    validity,
)
from tracebraid.analysis.host.host_rows import host_rows, thread_timelines
from tracebraid.analysis.metrics.catalog import built_in_metrics
from tracebraid.analysis.time.breakdown import cover_of, owned
from tracebraid.analysis.time.idle.stream_waits import SLOW_LAUNCH_NS
from tracebraid.analysis.time.step_windows import in_windows, step_of_moments
from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import METRICS, MetricLack
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Unit

steady = settings(deadline=None, derandomize=True)
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)
windows = st.lists(st.tuples(st.integers(-10, 80), st.integers(0, 60)), min_size=1, max_size=6)

KINDS = {
    "compute": ("kernel", "gemm"),
    "communication": ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "memory": ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
    "wait": ("mtia_ccp_events", "event_wait"),
}

work = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.integers(0, 60),
        st.integers(0, 20),
        st.integers(0, 1),
        st.integers(7, 9),
    ),
    min_size=1,
    max_size=12,
)
"""(kind, start, length, device, stream) in ns."""

Pairs = list[tuple[int, int]]
Work = tuple[str, int, int, int, int]


def arrays(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    return starts, starts + np.array([length for _, length in pairs], dtype=np.int64)


def moments(pairs: Pairs) -> set[int]:
    return {moment for start, length in pairs for moment in range(start, start + length)}


@given(spans)
@steady
def test_the_length_is_the_number_of_covered_moments(pairs: Pairs) -> None:
    assert cover_of(*arrays(pairs)).length == len(moments(pairs))


@given(spans)
@steady
def test_the_pieces_are_apart_and_in_order(pairs: Pairs) -> None:
    found = cover_of(*arrays(pairs))
    assert (found.starts[1:] > found.ends[:-1]).all()
    assert (found.ends >= found.starts).all()
    assert found.before.tolist() == [
        int((found.ends - found.starts)[:i].sum()) for i in range(len(found.starts))
    ]


@given(spans, windows)
@steady
def test_a_window_holds_the_covered_moments_inside_it(pairs: Pairs, looks: Pairs) -> None:
    covered = moments(pairs)
    expected = [len(covered & set(range(start, start + length))) for start, length in looks]
    assert cover_of(*arrays(pairs)).within(*arrays(looks)).tolist() == expected


def events_of(drawn: list[Work], steps: Pairs) -> list[Json]:
    """Device events and steps, in µs with three decimals, as files have them."""
    found = [
        op(f"ProfilerStep#{i}", start / 1000, length / 1000, cat="user_annotation")
        for i, (start, length) in enumerate(steps)
    ]
    for kind, start, length, device, stream in drawn:
        category, name = KINDS[kind]
        args = {"device": device, "stream": stream, "correlation": 1}
        found.append(complete(name, category, start / 1000, length / 1000, device, stream, args))
    return found


@pytest.mark.full
@given(work, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), max_size=3))
@settings(steady, max_examples=40)
def test_a_breakdown_is_what_counting_every_nanosecond_gives(drawn: list[Work], steps: Pairs) -> None:
    table = breakdown(linked_of(events_of(drawn, steps)))
    for row in table.filter(device="0").to_dicts() + table.filter(device="1").to_dicts():
        here = [one for one in drawn if str(one[3]) == row["device"] and one[0] != "wait"]
        window = set(range(row["start_ns"], row["start_ns"] + row["span_ns"]))
        compute, communication, memory = (
            moments([(one[1], one[2]) for one in here if one[0] == kind]) & window
            for kind in ("compute", "communication", "memory")
        )
        assert row["compute_ns"] == len(compute)
        assert row["communication_ns"] == len(communication)
        assert row["memory_ns"] == len(memory)
        assert row["overlap_ns"] == len(compute & communication)
        assert row["exposed_communication_ns"] == len(communication - compute)
        assert row["exposed_memory_ns"] == len(memory - compute - communication)
        assert row["idle_ns"] == len(window - compute - communication - memory)


@pytest.mark.full
@given(work, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), max_size=3))
@settings(steady, max_examples=40)
def test_a_breakdown_has_a_row_per_busy_device_over_all_and_for_each_step(
    drawn: list[Work], steps: Pairs
) -> None:
    table = breakdown(linked_of(events_of(drawn, steps)))
    devices = sorted({str(one[3]) for one in drawn if one[0] != "wait"})
    expected: list[tuple[str, str | None]] = [(device, None) for device in devices]
    order = sorted(range(len(steps)), key=lambda i: (steps[i][0], i))
    expected += [(device, f"ProfilerStep#{i}") for device in devices for i in order]
    assert table.select("device", "step").rows() == expected


steady_windows = settings(deadline=None, derandomize=True, max_examples=200, database=None)
PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)
SCHEMA = pl.Schema({"step": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})


@steady_windows
@given(PAIRS, st.booleans(), st.lists(st.integers(-2, 60), max_size=20))
def test_the_step_of_a_moment_is_the_last_to_start_of_those_that_hold_it(
    pairs: Pairs, apart: bool, moments: list[int]
) -> None:
    spans = sorted((start, start + length) for start, length in pairs)
    if apart:
        spans = [(a, min(b, c)) for (a, b), (c, _) in zip(spans, [*spans, (99, 99)][1:], strict=True)]
    windows = pl.DataFrame(
        [(f"step {i}", *span) for i, span in enumerate(spans)], schema=SCHEMA, orient="row"
    )
    found = step_of_moments(pl.DataFrame({"ts_ns": moments}, schema={"ts_ns": pl.Int64}), windows)
    expected = [
        next((f"step {i}" for i, (a, b) in reversed(list(enumerate(spans))) if a <= moment < b), None)
        for moment in moments
    ]
    assert found.get_column("step").to_list() == expected
    assert found.get_column("step").dtype == pl.String
    assert found.get_column("ts_ns").to_list() == moments


@steady_windows
@given(PAIRS, st.lists(st.integers(-2, 60), max_size=20))
def test_a_moment_is_in_each_window_that_holds_it(pairs: Pairs, moments: list[int]) -> None:
    spans = sorted((start, start + length) for start, length in pairs)
    windows = pl.DataFrame(
        [(f"step {i}", *span) for i, span in enumerate(spans)], schema=SCHEMA, orient="row"
    )
    rows = pl.DataFrame({"at": [None, *moments]}, schema={"at": pl.Int64})
    found = in_windows(rows, "at", windows)
    assert found.select("step", "at").rows() == [
        (f"step {i}", moment)
        for i, (start, end) in enumerate(spans)
        for moment in sorted(moments)
        if start <= moment < end
    ]
    assert found.columns == ["at", *SCHEMA]


@steady_windows
@given(PAIRS)
def test_each_moment_is_owned_by_the_first_to_start(pairs: Pairs) -> None:
    pairs = sorted(pairs, key=lambda pair: pair[0])
    starts, ends = owned(*arrays(pairs))
    taken: set[int] = set()
    for (start, length), a, b in zip(pairs, starts.tolist(), ends.tolist(), strict=True):
        assert set(range(a, b)) == set(range(start, start + length)) - taken
        taken |= set(range(start, start + length))


@steady_windows
@given(PAIRS, PAIRS, PAIRS)
def test_what_two_covers_share_within_windows(first: Pairs, second: Pairs, windows: Pairs) -> None:
    shared = cover_of(*arrays(first)).shared_within(cover_of(*arrays(second)), *arrays(windows))
    both = moments(first) & moments(second)
    assert shared.tolist() == [len(both & set(range(a, a + n))) for a, n in windows]


steady_parts = settings(deadline=None, derandomize=True, max_examples=30, database=None)
PARTS = ["compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]


def check_steps(linked: LinkedTrace) -> None:
    times = step_times(linked)
    assert times.select(pl.sum_horizontal(PARTS) == pl.col("span_ns")).to_series().all()
    assert times.select(pl.min_horizontal(*PARTS, "span_ns") >= 0).to_series().all()
    in_breakdown = breakdown(linked).filter(pl.col("step").is_not_null())
    columns = ["step", "device", "start_ns", "span_ns", *PARTS]
    assert sorted(times.select(columns).rows()) == sorted(in_breakdown.select(columns).rows())
    spread = step_spread(linked, with_warmup=True, with_doubtful=True).filter(pl.col("part") != "gap")
    counts = dict(times.group_by("device").len().rows())
    assert all(row["count"] == counts[row["device"]] for row in spread.to_dicts())
    numbers = [value for row in spread.rows() for value in row if isinstance(value, float)]
    assert all(value == value for value in numbers)


def check_communication(linked: LinkedTrace) -> None:
    for per_step in (False, True):
        whole = pl.col("step").is_not_null() if per_step else pl.col("step").is_null()
        keys = ["step", "device"]
        expected = (
            breakdown(linked)
            .filter(whole & (pl.col("communication_ns") > 0))
            .group_by(keys)
            .agg(pl.col("communication_ns", "overlap_ns", "exposed_communication_ns").sum())
        )
        over_all = (
            overlap(linked, per_step=per_step)
            .filter(pl.col("stream").is_null() & (pl.col("communication_ns") > 0))
            .group_by(keys)
            .agg(pl.col("communication_ns", "overlap_ns", "exposed_ns").sum())
        )
        assert sorted(over_all.rows(), key=repr) == sorted(expected.rows(), key=repr)
        collectives = exposed_collectives(linked, per_step=per_step)
        assert collectives.select(pl.col("exposed_ns").is_between(0, pl.col("total_ns"))).to_series().all()
        summed = (
            collectives.group_by(keys).agg(pl.col("exposed_ns").sum()).filter(pl.col("exposed_ns") > 0).rows()
        )
        exposed = expected.select(*keys, "exposed_communication_ns").filter(pl.last() > 0)
        assert sorted(summed, key=repr) == sorted(exposed.rows(), key=repr)


@pytest.mark.full
@pytest.mark.parametrize("device", [True, False], ids=["device", "host"])
@steady_parts
@given(st.data())
def test_parts_add_up(device: bool, data: st.DataObject) -> None:
    linked = data.draw(scenes(device=device)).linked()
    check_steps(linked)
    check_communication(linked)


HOST_NAMES = ["aten::mm", "c10d::allreduce_", "gloo:all_reduce", "record_param_comms", "gloo:broadcast"]
HOST_OPS = st.tuples(st.sampled_from(HOST_NAMES), st.integers(0, 60), st.integers(0, 30), st.integers(1, 3))


@pytest.mark.full
@steady_parts
@given(
    st.lists(HOST_OPS, max_size=12), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=3)
)
def test_parts_add_up_whatever_threads_communicate(
    ops: list[tuple[str, int, int, int]], steps: Pairs
) -> None:
    """Ops may cross each other, last no time, and steps may overlap."""
    events = [op(name, ts, dur, tid, cat=category(name)) for name, ts, dur, tid in ops]
    marks = [
        op(f"ProfilerStep#{n}", ts, dur, 7 + n, cat="user_annotation") for n, (ts, dur) in enumerate(steps)
    ]
    linked = linked_of([*events, *marks])
    check_steps(linked)
    check_communication(linked)


def category(name: str) -> str:
    return "cpu_op" if "::" in name or name == "record_param_comms" else "user_annotation"


@pytest.mark.full
@steady_parts
@given(scenes())
def test_a_sound_trace_gives_no_doubt(scene: Scene) -> None:
    assert validity(scene.linked()).rows() == []


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


@pytest.mark.full
@given(st.one_of(scenes(), scenes(device=False)))
@settings(steady_parts, max_examples=50)
def test_the_parts_of_idle_time_add_up(scene: Scene) -> None:
    assert_adds_up(scene.linked())


@pytest.mark.full
@given(work, steps)
@settings(steady_parts, max_examples=25)
def test_the_parts_add_up_where_steps_overlap_and_nothing_was_launched(
    drawn: list[tuple[str, int, int, int, int]], drawn_steps: Pairs
) -> None:
    assert_adds_up(linked_of(events_of(drawn, drawn_steps)))


@pytest.mark.full
@given(scenes())
@settings(steady_parts, max_examples=25)
def test_parts_follow_each_other_without_a_hole(scene: Scene) -> None:
    gaps = idle_gaps(scene.linked())
    for _, parts in gaps.group_by("device", "gap", maintain_order=True):
        starts, lengths = (parts.get_column(name).to_list() for name in ("start_ns", "dur_ns"))
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        assert starts[1:] == ends[:-1]
        assert ends[-1] - starts[0] == parts.item(0, "gap_ns")


@pytest.mark.full
@given(scenes())
@settings(steady_parts, max_examples=25)
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
@settings(steady_parts, max_examples=25)
def test_a_timeline_is_in_the_deepest_event_that_is_open(scene: Scene) -> None:
    linked = scene.linked()
    host = host_rows(linked)
    for lane, timeline in thread_timelines(linked).items():
        for moment, row in zip(timeline.moments.tolist(), timeline.rows.tolist(), strict=True):
            is_open = (host.lane == lane) & (host.start_ns <= moment) & (moment < host.end_ns)
            deepest = max(is_open.nonzero()[0].tolist(), key=lambda r: int(host.depth[r]), default=-1)
            assert deepest == row


steady_metrics = settings(deadline=None, derandomize=True, max_examples=25, database=None)
METRIC_PARTS = ("compute_share", "exposed_communication_share", "exposed_memory_share", "idle_share")
UNBOUNDED = {"mfu", "hfu"}
"""Shares of a stated peak, which may be too low."""

REASONS = {need.value for need in Need} | {lack.value for lack in MetricLack}


def check_metrics(frame: pl.DataFrame) -> None:
    assert frame.schema == METRICS.polars_schema()
    assert frame.get_column("metric").unique(maintain_order=True).to_list() == [
        m.name for m in built_in_metrics()
    ]
    for row in frame.to_dicts():
        _check_row(row)
    for rank in frame.get_column("rank").unique().to_list():
        _check_parts(frame.filter(pl.col("rank").eq_missing(rank)))


def _check_row(row: dict[str, Any]) -> None:
    numbers = [row[name] for name in ("low", "value", "high") if row[name] is not None]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    assert (row["value"] is None) == (row["lacks"] is not None)
    assert row["lacks"] is None or row["lacks"] in REASONS
    assert numbers == sorted(numbers) or math.isclose(numbers[0], numbers[-1])
    if row["unit"] == Unit.SHARE.value and row["metric"] not in UNBOUNDED:
        assert all(number <= 1 + 1e-9 for number in numbers)
    if row["metric"] == "load_imbalance" and row["rank"] is None:
        assert all(number >= 1 - 1e-9 for number in numbers)


def _check_parts(rows: pl.DataFrame) -> None:
    values = dict(rows.select("metric", "value").rows())
    parts = [values[name] for name in METRIC_PARTS]
    assert all(part is None for part in parts) or sum(parts) == pytest.approx(1)
    if values["launch_bound_share"] is not None:
        assert values["launch_bound_share"] <= values["idle_share"] + 1e-9


@pytest.mark.full
@given(scenes())
@steady_metrics
def test_metrics_of_any_program_are_in_their_ranges(scene: Scene) -> None:
    check_metrics(metrics(scene.linked()))


def test_an_empty_trace_has_no_metric() -> None:
    found = metrics(linked_of([]))
    check_metrics(found)
    assert found.get_column("value").is_null().all()


@pytest.mark.full
def test_what_is_asked_for_alone_is_as_among_all() -> None:
    linked = clean().linked()
    every = metrics(linked)
    for metric in built_in_metrics():
        alone = metrics(linked, only=[metric.name])
        assert alone.rows() == every.filter(pl.col("metric") == metric.name).rows()
