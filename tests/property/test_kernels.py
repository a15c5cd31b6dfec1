"""Kernels, launches and iterations of inference in any scene."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.planted import Scene, device_scene
from tests.planted.events import Planted
from tests.planted.random_scenes import scenes
from tracebraid.analyses import (
    batch_sizes,
    breakdown,
    copies,
    full_queue,
    graph_replays,
    inference_phases,
    kernel_durations,
    kernel_families,
    kernel_sequences,
    kernels,
    kernels_by_op,
    launch_bound,
    launch_events,
    launches,
    op_kernel_sequences,
    queue_lengths,
    queue_series,
    short_kernels,
    sync_calls,
    syncs,
    token_times,
)
from tracebraid.analysis.device import device_events, stream_gaps
from tracebraid.analysis.kernels.sequences import disjoint_sequences, maximal_repeats, separated, sequence_of
from tracebraid.analysis.launches.launch_bound import LEAST_LAUNCHES, STALL_NS
from tracebraid.linking.alignment.sequences import NONE, align, gaps
from tracebraid.model.device_peaks import COMMUNICATION

SOME = settings(deadline=None, derandomize=True, max_examples=25)
"""Each example is written, read and linked."""


@pytest.mark.full
@SOME
@given(scenes())
def test_the_parts_add_up_to_the_device_s_time(scene: Scene) -> None:
    linked = scene.linked()
    events = device_events(linked)
    total, count = events.get_column("dur_ns").sum(), len(events)
    for answer in (kernels, kernel_families, kernels_by_op):
        for per_step in (False, True):
            found = answer(linked, per_step=per_step)
            assert found.get_column("total_ns").sum() == total
            assert found.get_column("count").sum() == count
    launched = events.filter(pl.col("op_event").is_not_null())
    sequences = op_kernel_sequences(linked)
    assert sequences.get_column("device_ns").sum() == launched.get_column("dur_ns").sum()
    assert (sequences.get_column("length") * sequences.get_column("count")).sum() == len(launched)


@pytest.mark.full
@SOME
@given(scenes())
def test_short_kernels_are_the_lower_bins_of_the_histogram(scene: Scene) -> None:
    linked = scene.linked()
    bins = kernel_durations(linked).filter(pl.col("below_ns") <= 2_000)
    short = short_kernels(linked, max_ns=2_000)
    duration = pl.col("dur_ns").filter((pl.col("kind") == COMMUNICATION) & (pl.col("dur_ns") < 2_000))
    count, total = device_events(linked).select(duration.len().alias("n"), duration.sum()).row(0)
    assert short.get_column("count").sum() + count == bins.get_column("count").sum()
    assert short.get_column("total_ns").sum() + total == bins.get_column("total_ns").sum()


@SOME
@given(scenes())
def test_a_stream_is_busy_or_empty_between_its_first_event_and_its_last(scene: Scene) -> None:
    """Streams of these scenes run one event after the other."""
    for _, stream in stream_gaps(scene.linked()).group_by("lane"):
        starts = stream.get_column("ts_ns").to_numpy()
        span = int((starts + stream.get_column("dur_ns").to_numpy()).max() - starts.min())
        busy, before, after = (
            int(stream.get_column(name).fill_null(0).to_numpy().sum())
            for name in ("dur_ns", "gap_before_ns", "gap_after_ns")
        )
        assert busy + before == span
        assert before == after


@SOME
@given(scenes())
def test_sequences_take_no_more_than_the_device(scene: Scene) -> None:
    linked = scene.linked()
    streams = stream_gaps(linked)
    found = kernel_sequences(linked)
    assert found.select((pl.min_horizontal("count", "length") >= 2).all()).item()
    assert found.select((pl.col("complete") <= pl.col("count")).all()).item()
    assert (found.get_column("length") * found.get_column("count")).sum() <= len(streams)
    assert (found.get_column("device_ns") > 0).all()
    assert found.get_column("device_ns").sum() <= streams.get_column("dur_ns").sum()
    assert found.get_column("gap_ns").sum() <= streams.get_column("gap_before_ns").sum()


codes = st.lists(st.integers(0, 5), max_size=40).map(lambda found: np.array(found, dtype=np.int64))


@given(codes, codes)
def test_pairs_rise_and_are_of_equal_codes(one: np.ndarray, other: np.ndarray) -> None:
    found = align(one, other)
    for way in (found.first, found.last, found.unambiguous):
        matched = way != NONE
        assert np.all(np.diff(way[matched]) > 0)
        assert np.array_equal(one[matched], other[way[matched]])
    assert (found.first != NONE).sum() == (found.last != NONE).sum()


@given(codes)
def test_equal_sequences_are_sure_throughout(one: np.ndarray) -> None:
    assert np.array_equal(align(one, one.copy()).unambiguous, np.arange(len(one)))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_of_different_codes_all_that_is_there_is_found(kept: list[bool]) -> None:
    one = np.arange(len(kept))
    there = np.flatnonzero(kept)
    expected = np.full(len(kept), NONE)
    expected[there] = np.arange(len(there))
    assert np.array_equal(align(one, there).unambiguous, expected)


@given(st.integers(1, 20), st.integers(1, 20))
def test_of_equal_codes_none_is_sure_where_their_numbers_differ(many: int, few: int) -> None:
    sure = align(np.zeros(many, np.int64), np.zeros(few, np.int64)).unambiguous
    assert np.all(sure == NONE) == (many != few)


@given(codes, codes)
def test_gaps_are_what_is_left_on_both_sides(one: np.ndarray, other: np.ndarray) -> None:
    sure = align(one, other).unambiguous
    for left, right in gaps(sure, len(other)):
        assert np.all(sure[left] == NONE)
        assert not np.isin(np.arange(right.start, right.stop), sure).any()
        assert left.stop > left.start
        assert right.stop > right.start


def test_equal_codes_over_several_windows_rise() -> None:
    found = align(np.zeros(9000, np.int64), np.zeros(9500, np.int64))
    for way in (found.first, found.last):
        assert np.all(np.diff(way[way != NONE]) > 0)


@pytest.mark.parametrize(("many", "few"), [(1001, 1000), (1000, 1001), (4000, 1)])
def test_over_several_windows_too_nothing_is_sure_of_what_recurs(many: int, few: int) -> None:
    pattern = np.array([0, 1, 2, 1, 3], np.int64)
    assert np.all(align(np.tile(pattern, many), np.tile(pattern, few)).unambiguous == NONE)


@pytest.mark.parametrize("inserted", [0, 1, 500, 3000])
def test_long_sequences_over_many_windows(inserted: int) -> None:
    random = np.random.default_rng(inserted)
    steps = np.tile(random.integers(0, 60, 930), 40)
    kept = random.random(len(steps)) >= 0.01
    other = steps[kept]
    place = np.where(kept, np.cumsum(kept) - 1, NONE)
    if inserted:
        other = np.insert(other, 10_000, np.full(inserted, 99))
        place = np.where(place >= 10_000, place + inserted, place)
    sure = align(steps, other).unambiguous
    matched = sure != NONE
    assert (sure[matched] == place[matched]).mean() > 0.999
    assert (sure[place != NONE] == place[place != NONE]).mean() > 0.97


stretches = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=1, max_size=4)


def selected(parts: list[list[int]], shortest: int = 2) -> tuple[np.ndarray, list[tuple[np.ndarray, int]]]:
    """The sequence with its borders, and the selected sequences; at stake is the number of pairs of neighbours."""
    opens = np.concatenate([[True, *[False] * (len(part) - 1)] for part in parts])
    sequence, _ = separated(np.concatenate(parts).astype(np.int64), opens)
    repeats = maximal_repeats(sequence, shortest)
    found = (
        sequence_of(sequence, repeats.positions(row), int(repeats.length[row]), shortest)
        for row in range(len(repeats.length))
    )
    candidates = [candidate for candidate in found if candidate is not None]
    return sequence, disjoint_sequences(candidates, lambda at, length: (len(at) * (length - 1), length), 100)


@given(stretches, st.integers(2, 4))
def test_occurrences_are_alike_and_disjoint(parts: list[list[int]], shortest: int) -> None:
    sequence, found = selected(parts, shortest)
    taken: set[int] = set()
    for positions, length in found:
        assert len(positions) >= 2
        assert length >= shortest
        alike = {tuple(sequence[at : at + length].tolist()) for at in positions.tolist()}
        assert len(alike) == 1
        assert min(next(iter(alike))) >= 0, "no border lies in it"
        for at in positions.tolist():
            assert taken.isdisjoint(range(at, at + length))
            taken.update(range(at, at + length))


@given(stretches)
def test_what_is_at_stake_falls(parts: list[list[int]]) -> None:
    worth = [(len(at) * (length - 1), length) for at, length in selected(parts)[1]]
    assert worth == sorted(worth, reverse=True)


# Of few runs, the begun last run may make its part of all runs worth more than the whole runs.
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=6, unique=True), st.integers(4, 40), st.integers(0, 5)
)
def test_a_repetition_is_one_sequence_wherever_it_ends(part: list[int], runs: int, more: int) -> None:
    more = min(more, len(part) - 1)
    _, found = selected([[*part * runs, *part[:more]]])
    assert [(len(at), length) for at, length in found] == [(runs, len(part))]


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


@pytest.mark.full
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


steady_iterations = settings(deadline=None, derandomize=True, max_examples=25)
NAMES = ["step[DECODE bs=2]", "step[DECODE bs=1]", "step[EXTEND bs=1 toks=9]", "step[MIXED bs=3]", "other"]


@st.composite
def servers(draw: st.DrawFn) -> Scene:
    """Iterations one after another, with launches and replays whose work may outlast them.

    The graph of an iteration may hold no kernel: `validity` doubts a launch without work.
    """
    scene, host, stream = device_scene()
    parts = st.tuples(
        st.sampled_from(NAMES), st.integers(0, 9_000), st.lists(st.integers(1, 30_000), max_size=4)
    )
    for number, (name, ns, durations) in enumerate(draw(st.lists(parts, max_size=12))):
        with host.step(number, 1), host.annotation(name, ns):
            for kernel_ns in durations[1:]:
                host.launch(stream, "k", kernel_ns)
            host.replay(stream, [("g", kernel_ns) for kernel_ns in durations[:2]])
            if ns % 2:
                host.synchronize(stream)
        host.spend(ns)
    return scene


@pytest.mark.full
@steady_iterations
@given(servers())
def test_iterations_are_those_planted(scene: Scene) -> None:
    planted, linked = [event for name in NAMES[:-1] for event in scene.of(name)], scene.linked()
    assume(not linked.hidden)
    found = inference_phases(linked)
    assert sorted(found.get_column("event_id").to_list()) == sorted(event.event_id for event in planted)
    for row in found.to_dicts():
        work = [e for e in scene.of_category("kernel") if scene.events[row["event_id"]] in e.ancestors()]
        assert (row["kernels"], row["device_ns"]) == (len(work), sum(e.dur for e in work))
        assert row["graph_ns"] == sum(e.dur for e in work if e.name == "g")
        ends = [row["start_ns"] + row["host_ns"], *(e.end for e in work)]
        assert row["start_ns"] + row["span_ns"] == max(ends)


@pytest.mark.full
@steady_iterations
@given(servers())
def test_answers_add_up_to_the_iterations(scene: Scene) -> None:
    linked = scene.linked()
    assume(not linked.hidden)
    phases, times, sizes = (answer(linked) for answer in (inference_phases, token_times, batch_sizes))
    for column in ("iterations", "device_ns", "requests"):
        by_phase = phases.group_by("phase").agg(
            pl.len().alias("iterations"), pl.col("device_ns", "requests").sum()
        )
        expected = dict(by_phase.select("phase", column).iter_rows())
        assert dict(times.select("phase", column).iter_rows()) == expected
    assert sizes.get_column("iterations").sum() == phases.height
    by_step = token_times(linked, per_step=True)
    assert by_step.get_column("device_ns").sum() == times.get_column("device_ns").sum()


@pytest.mark.full
@steady_iterations
@given(servers())
def test_covered_time_is_the_union_of_the_spans(scene: Scene) -> None:
    linked = scene.linked()
    phases = inference_phases(linked)
    for row in token_times(linked).to_dicts():
        spans = phases.filter(phase=row["phase"]).select("start_ns", "span_ns").rows()
        moments = sorted({moment for start, span in spans for moment in (start, start + span)})
        covered = sum(
            later - earlier
            for earlier, later in itertools.pairwise(moments)
            if any(start <= earlier and later <= start + span for start, span in spans)
        )
        assert row["covered_ns"] == covered


@pytest.mark.full
@steady_iterations
@given(servers())
def test_replays_are_those_planted(scene: Scene) -> None:
    linked = scene.linked()
    assume(not linked.hidden)  # A graph without a kernel is launched: its work is missing.
    found = graph_replays(linked)
    assert found.get_column("replays").sum() == len(scene.of("cudaGraphLaunch"))
    assert found.get_column("kernels").sum() == len(scene.of("g"))
    assert found.get_column("device_ns").sum() == sum(event.dur for event in scene.of("g"))
    shares = found.get_column("share").drop_nulls()
    assert all(0 <= share <= 1 for share in shares)
