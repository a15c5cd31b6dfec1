"""Launches, queues, stretches and waits of random scenes, against plain loops over what was planted."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given, settings

from tests.planted import Scene
from tests.planted.events import Planted
from tests.planted.random_scenes import scenes
from tracebraid.analysis.launches.copies.copies import copies
from tracebraid.analysis.launches.launch_bound import LEAST_LAUNCHES, STALL_NS, launch_bound
from tracebraid.analysis.launches.launch_events import launch_events
from tracebraid.analysis.launches.launches import launches
from tracebraid.analysis.launches.queues.full_queue import full_queue
from tracebraid.analysis.launches.queues.queue_lengths import queue_lengths
from tracebraid.analysis.launches.queues.queue_series import queue_series
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.analysis.launches.syncs.syncs import syncs
from tracebraid.analysis.time.breakdown import breakdown

steady = settings(deadline=None, derandomize=True, max_examples=20)


def work_by_call(scene: Scene) -> dict[int, list[Planted]]:
    found: dict[int, list[Planted]] = {}
    for stream in scene.streams:
        for work in stream.work:
            if work.call is not None:
                found.setdefault(work.call.event_id, []).append(work)
    return found


def in_order(work: list[Planted]) -> list[Planted]:
    return sorted(work, key=lambda event: (event.ts, event.event_id))


@steady
@given(scenes())
def test_each_launch_has_the_times_that_were_planted(scene: Scene) -> None:
    rows = {row["call_event"]: row for row in launch_events(scene.linked()).to_dicts()}
    planted = work_by_call(scene)
    assert rows.keys() == planted.keys()
    for number, work in planted.items():
        call, row, first = work[0].call, rows[number], in_order(work)[0]
        assert call is not None
        assert (row["api"], row["start_ns"], row["host_ns"]) == (call.name, call.ts, call.dur)
        assert (row["after_start_ns"], row["after_end_ns"]) == (first.ts - call.ts, first.ts - call.end)
        assert row["delay_ns"] == max(0, first.ts - call.end)
        assert (row["kernels"], row["device_ns"]) == (len(work), sum(event.dur for event in work))
        assert row["device_span_ns"] == max(event.end for event in work) - first.ts
        assert row["op"] == (call.op.name if call.op is not None else None)


@steady
@given(scenes())
def test_the_rows_of_launches_and_of_their_steps_add_up(scene: Scene) -> None:
    linked = scene.linked()
    events = launch_events(linked)
    for table in (launches(linked), launches(linked, per_step=True)):
        assert table.get_column("count").sum() == events.height
        for part in ("host_ns", "delay_ns", "device_ns", "kernels"):
            assert table.get_column(part).sum() == events.get_column(part).sum()


@steady
@given(scenes())
def test_at_every_moment_the_queue_holds_what_was_launched_and_has_not_started(scene: Scene) -> None:
    linked = scene.linked()
    series = queue_series(linked)
    for stream in scene.streams:
        work = [event for event in stream.work if event.call is not None]
        rows = series.filter(stream=str(stream.number)).to_dicts()
        last = {row["ts_ns"]: row for row in rows}
        for moment, row in last.items():
            waiting = [e for e in work if e.call is not None and e.call.ts <= moment < e.ts]
            assert row["length"] == len(waiting)
            assert row["launches"] == len({e.correlation for e in waiting})
        assert len(rows) == 2 * len(work)
    assert queue_lengths(linked, per_step=True).get_column("count").sum() == series.height


@steady
@given(scenes())
def test_the_time_at_full_length_is_that_of_the_series(scene: Scene) -> None:
    linked = scene.linked()
    series = queue_series(linked)
    table = full_queue(linked, max_queue_length=2)
    for row in table.to_dicts():
        changes = series.filter(stream=row["stream"]).to_dicts()
        full = sum(b["ts_ns"] - a["ts_ns"] for a, b in pairwise(changes) if a["launches"] >= 2)
        assert row["full_ns"] == full
        assert row["blocked"] <= row["launches"]
    by_step = full_queue(linked, per_step=True, max_queue_length=2)
    assert by_step.get_column("full_ns").sum() == table.get_column("full_ns").sum()


@steady
@given(scenes())
def test_stretches_are_those_that_a_plain_loop_finds(scene: Scene) -> None:
    linked = scene.linked()
    calls = sync_calls(linked).filter(~pl.col("kind").is_in(["query", "allocation"]))
    syncs_end = (calls.get_column("start_ns") + calls.get_column("host_ns")).to_list()
    expected = []
    for stream in scene.streams:
        for run in _runs(in_order(stream.work), syncs_end):
            if len({event.correlation for event, _ in run}) >= LEAST_LAUNCHES:
                idle = sum(gap for _, gap in run)
                end = max(event.end for event, _ in run)
                expected.append((str(stream.number), run[0][0].ts, end - run[0][0].ts, len(run), idle))
    table = launch_bound(linked)
    found = table.select("stream", "start_ns", "span_ns", "kernels", "idle_ns").rows()
    assert sorted(found) == sorted(expected)
    assert (table.get_column("device_ns") + table.get_column("idle_ns") == table.get_column("span_ns")).all()
    assert (table.get_column("gain_ns") <= table.get_column("idle_ns")).all()
    device_idle = breakdown(linked).filter(pl.col("step").is_null()).get_column("idle_ns").sum()
    gains = table.group_by("stream").agg(pl.col("gain_ns").sum())
    assert (gains.get_column("gain_ns") <= device_idle).all()


def _runs(work: list[Planted], syncs_end: list[int]) -> list[list[tuple[Planted, int]]]:
    runs: list[list[tuple[Planted, int]]] = []
    busy = 0
    for number, event in enumerate(work):
        before = work[number - 1] if number else None
        assert event.call is not None
        gap = max(event.ts - busy, 0)
        if before is not None and before.call is not None and _joins(before, event, busy, gap, syncs_end):
            runs[-1].append((event, gap))
        else:
            runs.append([(event, 0)])
        busy = max(busy, event.end)
    return runs


def _joins(before: Planted, event: Planted, busy: int, gap: int, syncs_end: list[int]) -> bool:
    assert before.call is not None
    assert event.call is not None
    if before.call is event.call:
        return True
    counts = [sum(end <= call.ts for end in syncs_end) for call in (before.call, event.call)]
    return busy <= event.call.end and gap < STALL_NS and counts[0] == counts[1]


@steady
@given(scenes())
def test_a_synchronised_stream_is_waited_for_until_its_last_work_ends(scene: Scene) -> None:
    linked = scene.linked()
    calls = sync_calls(linked)
    assert (
        calls.get_column("blocked_ns") + calls.get_column("other_ns") == calls.get_column("host_ns")
    ).all()
    assert (calls.get_column("blocked_ns") >= 0).all()
    ends = {event.event_id: event.end for stream in scene.streams for event in stream.work}
    for row in calls.filter(pl.col("waited_event").is_not_null()).to_dicts():
        end = row["start_ns"] + row["host_ns"]
        assert row["start_ns"] < ends[row["waited_event"]] <= end
        assert 0 < row["blocked_ns"] <= row["host_ns"]
    for table in (syncs(linked), syncs(linked, per_step=True)):
        assert table.get_column("blocked_ns").sum() == calls.get_column("blocked_ns").sum()
        assert table.get_column("count").sum() == calls.height


@steady
@given(scenes())
def test_recorded_synchronisations_wait_for_what_was_planted(scene: Scene) -> None:
    """Without waits between streams, through which one waits for another's work."""
    if scene.of("cudaStreamWaitEvent"):
        return
    rows = {row["call_event"]: row for row in sync_calls(scene.linked()).to_dicts()}
    for record in scene.of("Stream Sync"):
        (call,) = [c for c in scene.of("cudaStreamSynchronize") if c.correlation == record.correlation]
        before = [
            work
            for work in scene.stream(record.args["stream"]).work
            if work.call is not None and work.call.ts < call.ts and work.end > call.ts
        ]
        row = rows[call.event_id]
        if before:
            last = max(before, key=lambda work: work.end)
            assert (row["waited_event"], row["method"]) == (last.event_id, "recorded")
            assert row["blocked_ns"] == last.end - call.ts
        else:
            assert row["method"] in (None, "recorded", "inferred")


@steady
@given(scenes())
def test_copies_hold_what_was_copied(scene: Scene) -> None:
    planted = scene.of_category("gpu_memcpy", "gpu_memset")
    linked = scene.linked()
    for table in (copies(linked), copies(linked, per_step=True)):
        assert table.get_column("count").sum() == len(planted)
        assert table.get_column("total_ns").sum() == sum(event.dur for event in planted)
        assert table.get_column("bytes").sum() == sum(event.args["bytes"] for event in planted)
        # Planted at 4 bytes a ns, as the trace says too.
        rates = table.select("bandwidth_bytes_per_s", "kineto_max_bandwidth_bytes_per_s")
        assert all(abs(rate - 4e9) < 1 for row in rates.rows() for rate in row)


@steady
@given(scenes(device=False))
def test_without_a_device_nothing_is_launched(scene: Scene) -> None:
    linked = scene.linked()
    for analysis in (
        launches,
        launch_events,
        launch_bound,
        queue_lengths,
        queue_series,
        full_queue,
        copies,
        syncs,
    ):
        assert analysis(linked).is_empty()
