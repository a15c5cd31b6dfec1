"""Launches, queues, copies, synchronisation and counters of real traces: against HTA, and what holds of every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.golden.test_analyze_golden import FILES, linked_of
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.device import device_events
from tracebraid.analysis.launches.copies import bandwidth_changes, copies, copy_bandwidth
from tracebraid.analysis.launches.launch_bound import LEAST_LAUNCHES, counters, launch_bound
from tracebraid.analysis.launches.launched_work import launched_work
from tracebraid.analysis.launches.launches import launch_events, launches
from tracebraid.analysis.launches.queues import (
    full_queue,
    queue_changes,
    queue_lengths,
    queue_series,
    summary_of_queues,
)
from tracebraid.analysis.launches.sync_calls import sync_calls, syncs
from tracebraid.analysis.time.step_times import steps
from tracebraid.model.analysis import Family
from tracebraid.model.linked_trace import LinkedTrace

ANALYSES = [found for found in all_analyses() if found.family is Family.LAUNCHES]

IN_US = [
    "v100_rank1of2_54MB",
    "sampled_2_of_128:0",
    "sampled_2_of_128:1",
    "linear_2080ti",
    "simple_add_a100",
    "a100_alexnet_cuda_sync",
    "a100_event_sync",
    "a100_event_sync_multi_stream",
]
IN_NS = ["a100_ddp_nccl_rank0of2", "mtia_inference"]
RANKS = {"v100_rank1of2_54MB": 1}
STATISTICS = ["count", "mean", "std", "min", "p25", "p50", "p75", "max"]
_MTIA_LAUNCH = "runFunction - job_prep_and_submit_for_execution"


def hta_file(folder: Path, name: str, table: str) -> Path:
    return folder / "expected/hta" / name.partition(":")[0] / f"{table}.csv"


def rank_of(name: str) -> int:
    return RANKS.get(name, int(name.partition(":")[2] or 0))


def launch_statistics(folder: Path, name: str) -> pl.DataFrame:
    """HTA's launches of a rank by correlation, times in µs."""
    return pl.read_csv(hta_file(folder, name, f"cuda_kernel_launch_stats.rank{rank_of(name)}")).sort(
        "correlation"
    )


def described(folder: Path, name: str, table: str) -> dict[str, dict[str, float | None]]:
    """HTA's statistics of a rank by stream or name."""
    lines = hta_file(folder, name, table).read_text().splitlines()[3:]
    rows = [line.split(",") for line in lines]
    return {
        row[1]: dict(zip(STATISTICS, (float(v) if v else None for v in row[2:]), strict=True))
        for row in rows
        if int(row[0]) == rank_of(name)
    }


def last_step(linked: LinkedTrace) -> int | None:
    """Where the last of several steps starts: HTA leaves out what was launched from then on; we leave out nothing."""
    starts = steps(linked).get_column("start_ns").to_list()
    return max(starts) if len(starts) > 1 else None


def before_the_last_step(linked: LinkedTrace, frame: pl.DataFrame, column: str) -> pl.DataFrame:
    last = last_step(linked)
    return frame if last is None else frame.filter(pl.col(column) < last)


def of_hta(linked: LinkedTrace, name: str) -> pl.DataFrame:
    """Our launches that HTA has: of four runtime calls, and one of MTIA."""
    found = before_the_last_step(linked, launch_events(linked), "start_ns")
    known = ["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync", _MTIA_LAUNCH]
    return found.filter(pl.col("api").is_in(known)).sort("correlation")


# --- HTA --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_US)
def test_launch_statistics_are_htas_on_traces_in_microseconds(real_traces: Path, name: str) -> None:
    expected = launch_statistics(real_traces, name)
    found = of_hta(linked_of(real_traces, name), name)
    assert found.get_column("correlation").to_list() == expected.get_column("correlation").to_list()
    for ours, theirs in (
        ("host_ns", "cpu_duration"),
        ("device_ns", "gpu_duration"),
        ("delay_ns", "launch_delay"),
    ):
        assert (found.get_column(ours) == 1000 * expected.get_column(theirs)).all(), ours


@pytest.mark.parametrize("name", IN_NS)
def test_launch_statistics_are_htas_within_its_rounding_on_traces_in_ns(real_traces: Path, name: str) -> None:
    """It rounds starts and durations to whole µs: a delay is off by less than 2 µs."""
    expected = launch_statistics(real_traces, name)
    found = of_hta(linked_of(real_traces, name), name)
    assert found.get_column("correlation").to_list() == expected.get_column("correlation").to_list()
    for ours, theirs in (
        ("host_ns", "cpu_duration"),
        ("device_ns", "gpu_duration"),
        ("delay_ns", "launch_delay"),
    ):
        off = (found.get_column(ours) - 1000 * expected.get_column(theirs)).abs()
        assert off.max() < 2_000, ours


@pytest.mark.parametrize(
    ("name", "apis"),
    [
        ("triton_example", {"cuLaunchKernel"}),
        ("mi250_minitoy_train", {"hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyWithStream"}),
    ],
)
def test_launches_that_hta_does_not_know_are_there(real_traces: Path, name: str, apis: set[str]) -> None:
    assert launch_statistics(real_traces, name).is_empty()
    assert set(launch_events(linked_of(real_traces, name)).get_column("api")) == apis


def summaries(linked: LinkedTrace, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Statistics of HTA's queues with ours, and with the opposite order of changes at one moment."""
    work = before_the_last_step(linked, launched_work(linked), "called_ns")
    if name == "mtia_inference":
        work = work.filter(pl.col("api") == _MTIA_LAUNCH)
    columns = [
        pl.lit(None, dtype=pl.String).alias("step"),
        pl.lit(True).alias("in_means"),
        pl.lit(1, dtype=pl.Int64).alias("lasted_ns"),
    ]
    changes = queue_changes(work)
    key = ["device", "stream", "ts_ns"]
    ties = changes.with_columns((pl.col("length").diff().fill_null(1)).over("device", "stream").alias("by"))
    opposite = ties.sort(*key, "by").with_columns(
        pl.col("by").cum_sum().over("device", "stream").alias("length")
    )
    ours, lower = (summary_of_queues(frame.with_columns(columns)) for frame in (changes, opposite))
    return ours, lower


@pytest.mark.parametrize("name", [*IN_US, "mtia_inference"])
def test_queue_lengths_are_htas(real_traces: Path, name: str) -> None:
    """HTA leaves the order of changes at one µs to an unstable sort: its mean lies between both orders'."""
    expected = described(real_traces, name, "queue_length_summary")
    ours, lower = (frame.to_dicts() for frame in summaries(linked_of(real_traces, name), name))
    assert [row["stream"] for row in ours] == list(expected)
    for row, least in zip(ours, lower, strict=True):
        theirs = expected[row["stream"]]
        exact = ("count", "p25", "p50", "p75", "max")
        assert [row[key] for key in exact] == [theirs[key] for key in exact]
        assert least["mean"] - 1e-9 <= theirs["mean"] <= row["mean"] + 1e-9
        if least["mean"] == row["mean"]:
            assert row["std"] == pytest.approx(theirs["std"], rel=1e-9)
            assert row["min"] == theirs["min"]


def test_the_order_at_one_moment_matters_on_few_files(real_traces: Path) -> None:
    same = []
    for name in [*IN_US, "mtia_inference"]:
        ours, lower = summaries(linked_of(real_traces, name), name)
        same.append(ours.get_column("mean").equals(lower.get_column("mean")))
    assert sum(same) >= 6


def test_the_queue_series_is_htas(real_traces: Path) -> None:
    expected = pl.read_csv(hta_file(real_traces, "simple_add_a100", "queue_length_time_series.rank0"))
    found = queue_series(linked_of(real_traces, "simple_add_a100"))
    times = found.get_column("ts_ns") - found.get_column("ts_ns")[0]
    theirs = 1000 * (expected.get_column("ts") - expected.get_column("ts")[0])
    assert times.to_list() == theirs.to_list()
    assert found.get_column("length").to_list() == expected.get_column("queue_length").to_list()


@pytest.mark.parametrize(
    "name", [name for name in IN_US if name != "simple_add_a100"] + ["a100_ddp_nccl_rank0of2"]
)
def test_the_bandwidth_of_copies_is_htas(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    expected = described(real_traces, name, "memory_bw_summary")
    last = last_step(linked)
    if last is None:
        found = {row["name"]: row for row in copy_bandwidth(linked).to_dicts()}
    else:
        kept = [step for step, start in steps(linked).select("step", "start_ns").iter_rows() if start < last]
        found = _bandwidths_of(linked, kept)
    assert list(found) == list(expected)
    for sort, theirs in expected.items():
        assert found[sort]["count"] == theirs["count"]
        for key in STATISTICS[1:]:
            ours, value = found[sort][f"{key}_bytes_per_s"], theirs[key]
            assert ours is None if value is None else ours == pytest.approx(1e9 * value, rel=1e-9)


def _bandwidths_of(linked: LinkedTrace, kept: list[str]) -> dict[str, Any]:
    changes = bandwidth_changes(linked).filter(pl.col("step").is_in(kept), pl.col("bytes_per_s") > 0)
    rate = pl.col("bytes_per_s")
    rows = changes.group_by("name").agg(
        pl.len().alias("count"),
        rate.mean().alias("mean_bytes_per_s"),
        rate.std().alias("std_bytes_per_s"),
        rate.min().alias("min_bytes_per_s"),
        *(rate.quantile(q / 100, "linear").alias(f"p{q}_bytes_per_s") for q in (25, 50, 75)),
        rate.max().alias("max_bytes_per_s"),
    )
    return {row["name"]: row for row in rows.sort("name").to_dicts()}


# --- single files -----------------------------------------------------------------------------------


def test_what_a_call_waited_for_is_recorded(real_traces: Path) -> None:
    rows = sync_calls(linked_of(real_traces, "a100_event_sync")).filter(pl.col("blocked_ns") > 0).to_dicts()
    assert [(row["api"], row["method"], row["blocked_ns"]) for row in rows] == [
        ("cudaMemcpyAsync", "launched", 20_000),
        ("cudaEventSynchronize", "recorded", 26_000),
    ]
    assert rows[0]["top_op"] == "aten::is_nonzero"
    assert "spin_kernel" in rows[1]["waited_name"]


def test_a_copy_of_half_a_second_waited_for_the_kernel_before_it(real_traces: Path) -> None:
    (row,) = syncs(linked_of(real_traces, "mi300x_decode_graph_launch")).to_dicts()
    assert (row["api"], row["op"]) == ("hipMemcpyWithStream", "aten::copy_")
    assert (row["host_ns"], row["blocked_ns"]) == (463_063_750, 463_047_341)
    assert not row["waited_name"].startswith("Memcpy")


def test_a_graph_of_rocm_is_one_launch_of_544_kernels(real_traces: Path) -> None:
    found = launches(linked_of(real_traces, "mi300x_decode_graph_launch")).filter(api="hipGraphLaunch")
    assert found.select("count", "kernels").rows() == [(1, 544)]


def test_queries_of_the_v100_wait_for_nothing(real_traces: Path) -> None:
    found = syncs(linked_of(real_traces, "v100_rank1of2_54MB")).filter(kind="query")
    assert found.select("api", "count", "waits", "blocked_ns").rows() == [("cudaEventQuery", 3977, 0, 0)]


def test_sizes_of_rocm_copies_are_taken_from_their_calls(real_traces: Path) -> None:
    (row,) = copies(linked_of(real_traces, "mi250_minitoy_train")).to_dicts()
    assert (row["count"], row["bytes"], row["host_wait"], row["awaited"]) == (2, 5120, "complete", 2)


def test_the_nth_range_of_counters_is_the_nth_launch(real_traces: Path) -> None:
    """HTA's rule, against the intervals of the file's ops."""
    linked = linked_of(real_traces, "a100_cupti_counters")
    table = counters(linked)
    assert (table.height, table.get_column("range_event").n_unique()) == (77 * 9, 77)
    events = linked.timeline.events.with_columns(pl.col("name", "category").cast(pl.String)).with_columns(
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    calls = events.filter(name="cudaLaunchKernel").sort("ts_ns")
    ops = events.filter(category="cpu_op").sort("ts_ns", pl.col("dur_ns") * -1)
    stacks = [
        ops.filter(
            pl.col("lane") == call["lane"],
            pl.col("ts_ns") <= call["ts_ns"],
            pl.col("end_ns") >= call["end_ns"],
        )
        .get_column("name")
        .to_list()
        for call in calls.to_dicts()
    ]
    found = table.unique("range_event", maintain_order=True).get_column("op_stack")
    assert [json.loads(stack) for stack in found] == stacks


# --- every file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_answer_keeps_its_schema_and_says_the_same_again(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    for analysis in ANALYSES:
        for options in [{}, {"per_step": True}] if "per_step" in analysis.options else [{}]:
            table = analysis.answer(linked, **options)
            assert dict(table.schema) == analysis.table.polars_schema(), analysis.name
            floats = table.select(pl.col(pl.Float64))
            assert all(np.isfinite(column.drop_nulls().to_numpy()).all() for column in floats), analysis.name
            assert table.equals(analysis.answer(linked, **options)), analysis.name


@pytest.mark.parametrize("name", FILES)
def test_launches_hold_all_work_whose_call_is_known(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    known = device_events(linked).filter(pl.col("call_event").is_not_null())
    events = launch_events(linked)
    assert events.get_column("kernels").sum() == known.height
    assert events.get_column("device_ns").sum() == known.get_column("dur_ns").sum()
    assert (
        events.get_column("call_event").n_unique()
        == events.height
        == known.get_column("call_event").n_unique()
    )
    for per_step in (False, True):
        table = launches(linked, per_step=per_step)
        assert table.get_column("count").sum() == events.height
        for part in ("host_ns", "delay_ns", "device_ns", "kernels"):
            assert table.get_column(part).sum() == events.get_column(part).sum()


@pytest.mark.parametrize("name", FILES)
def test_queues_are_empty_in_the_end_and_never_less(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    series = queue_series(linked)
    known = device_events(linked).filter(pl.col("call_event").is_not_null()).height
    assert series.height == queue_lengths(linked, per_step=True).get_column("count").sum() == 2 * known
    assert not (series.get_column("length") < series.get_column("launches")).any()
    assert not (series.get_column("launches") < 0).any()
    last = series.group_by("device", "stream").last()
    assert last.select((pl.col("length", "launches") == 0).all()).row(0) == (True, True)
    assert full_queue(linked).get_column("full_ns").sum() == 0


@pytest.mark.parametrize("name", FILES)
def test_launch_bound_stretches_add_up_and_do_not_overlap(real_traces: Path, name: str) -> None:
    table = launch_bound(linked_of(real_traces, name))
    assert (table.get_column("device_ns") + table.get_column("idle_ns") == table.get_column("span_ns")).all()
    assert (
        (table.get_column("gain_ns") >= 0) & (table.get_column("gain_ns") <= table.get_column("idle_ns"))
    ).all()
    assert (table.get_column("launches") >= LEAST_LAUNCHES).all()
    assert (table.get_column("kernels") >= table.get_column("launches")).all()
    ordered = table.sort("device", "stream", "start_ns")
    ends = (pl.col("start_ns") + pl.col("span_ns")).shift(1).over("device", "stream")
    # Kernels of one stream may overlap by rounding, in traces in µs.
    assert ordered.filter(pl.col("start_ns") < ends - 1_000).is_empty()


@pytest.mark.parametrize("name", FILES)
def test_synchronising_calls_are_blocked_for_no_longer_than_they_last(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    calls = sync_calls(linked)
    assert (
        calls.get_column("blocked_ns") + calls.get_column("other_ns") == calls.get_column("host_ns")
    ).all()
    assert not ((calls.get_column("blocked_ns") < 0) | (calls.get_column("other_ns") < 0)).any()
    assert calls.filter((pl.col("blocked_ns") > 0) != pl.col("waited_event").is_not_null()).is_empty()
    for per_step in (False, True):
        table = syncs(linked, per_step=per_step)
        assert table.get_column("count").sum() == calls.height
        assert table.get_column("host_ns").sum() == calls.get_column("host_ns").sum()
        assert table.get_column("blocked_ns").sum() == calls.get_column("blocked_ns").sum()


@pytest.mark.parametrize("name", FILES)
def test_copies_hold_all_device_time_of_kind_memory(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    memory = device_events(linked).filter(kind="memory")
    for per_step in (False, True):
        table = copies(linked, per_step=per_step)
        assert table.get_column("count").sum() == memory.height
        assert table.get_column("total_ns").sum() == memory.get_column("dur_ns").sum()
        copied = table.filter(kind="copy")
        assert copied.get_column("direction").null_count() == 0
