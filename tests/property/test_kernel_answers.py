"""What holds of the answers about kernels in every trace."""

from __future__ import annotations

from itertools import product

import polars as pl
from hypothesis import given, settings

from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.device.stream_gaps import stream_gaps
from tracebraid.analysis.kernels.catalog import ANALYSES
from tracebraid.analysis.kernels.kernel_durations import kernel_durations
from tracebraid.analysis.kernels.kernel_families import kernel_families
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.kernels.kernels_by_op import kernels_by_op
from tracebraid.analysis.kernels.sequences.kernel_sequences import kernel_sequences
from tracebraid.analysis.kernels.sequences.op_kernel_sequences import op_kernel_sequences
from tracebraid.analysis.kernels.short_kernels import short_kernels
from tracebraid.model.device_kind import COMMUNICATION

SOME = settings(deadline=None, derandomize=True, max_examples=25)
"""Each example is written, read and linked."""


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
    total, events = device_events(linked).get_column("dur_ns").sum(), len(device_events(linked))
    for row in kernel_sequences(linked).rows(named=True):
        assert row["count"] >= 2
        assert row["length"] >= 2
        assert row["complete"] <= row["count"]
        assert row["length"] * row["count"] <= events
        assert 0 < row["device_ns"] <= total


@SOME
@given(scenes())
def test_the_times_of_sequences_add_up_to_no_more_than_the_device_s(scene: Scene) -> None:
    linked = scene.linked()
    streams = stream_gaps(linked)
    found = kernel_sequences(linked)
    assert (found.get_column("length") * found.get_column("count")).sum() <= len(streams)
    assert found.get_column("device_ns").sum() <= streams.get_column("dur_ns").sum()
    assert found.get_column("gap_ns").sum() <= streams.get_column("gap_before_ns").sum()


@SOME
@given(scenes(device=False))
def test_a_trace_without_a_device_has_empty_answers(scene: Scene) -> None:
    linked = scene.linked()
    for analysis, per_step in product(ANALYSES, (False, True)):
        assert analysis.answer(linked, per_step=per_step).equals(analysis.table.empty())


@SOME
@given(scenes())
def test_every_answer_has_its_schema_and_no_nan_and_is_the_same_each_time(scene: Scene) -> None:
    linked, again = scene.linked(), scene.linked()
    for analysis, per_step in product(ANALYSES, (False, True)):
        found = analysis.answer(linked, per_step=per_step)
        assert dict(found.schema) == analysis.table.polars_schema()
        assert not any(column.is_nan().any() for column in found.select(pl.selectors.float()))
        assert found.equals(analysis.answer(again, per_step=per_step))
