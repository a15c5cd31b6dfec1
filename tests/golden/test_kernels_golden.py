"""Answers about kernels on real traces: families, HTA's kernels and delays of ops, what must hold of all."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.golden.test_analyze_golden import FILES, linked_file, linked_of
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.device import device_events, stream_gaps
from tracebraid.analysis.kernels.graphs import LEAST_AGREEMENT, agreement, graph_kernels
from tracebraid.analysis.kernels.kernels import device_work, kernel_families, kernels, kernels_by_op
from tracebraid.analysis.kernels.sequences import kernel_sequences, op_kernel_sequences
from tracebraid.analysis.time.step_times import steps
from tracebraid.model.analysis import Family
from tracebraid.model.kernel_family import family_of_kernel_name, family_of_op
from tracebraid.model.linked_trace import LinkedTrace

ANALYSES = [found for found in all_analyses() if found.family is Family.KERNELS]

PAIRS = {f"dlrm_v100:{rank}": f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz" for rank in range(4)}
EVERY = {**FILES, **PAIRS}

IN_MICROSECONDS = (
    "simple_add_a100",
    "linear_2080ti",
    "v100_rank1of2_54MB",
    "sampled_2_of_128:0",
    "sampled_2_of_128:1",
    "a100_alexnet_cuda_sync",
    "a100_event_sync",
    "a100_event_sync_multi_stream",
)


# --- HTA's kernels ----------------------------------------------------------------------------------


def as_hta(linked: LinkedTrace) -> dict[str, dict[str, float]]:
    """The figures of each kernel in µs, of what HTA counts: all that was launched before the last of several steps."""
    found = kernels(linked, per_step=True)
    if len(steps(linked)) > 1:
        last = steps(linked).get_column("step").to_list()[-1]
        found = found.filter(pl.col("step").is_null() | (pl.col("step") != last))
    deviation = pl.col("std_ns").fill_null(0) ** 2 * (pl.col("count") - 1)
    rows = found.group_by("name").agg(
        pl.col("count", "total_ns").sum(),
        pl.col("min_ns").min(),
        pl.col("max_ns").max(),
        (deviation + pl.col("count") * pl.col("mean_ns") ** 2).sum().alias("squares"),
    )
    return {row["name"]: figures(row) for row in rows.rows(named=True)}


def figures(row: dict[str, Any]) -> dict[str, float]:
    count, mean = row["count"], row["total_ns"] / row["count"]
    squares = max(0.0, row["squares"] - count * mean**2)
    return {
        "sum (us)": row["total_ns"] / 1000,
        "max (us)": row["max_ns"] / 1000,
        "min (us)": row["min_ns"] / 1000,
        "mean (us)": mean / 1000,
        "stddev": math.sqrt(squares / (count - 1)) / 1000 if count > 1 else 0.0,
    }


def of_hta(folder: Path, name: str) -> list[dict[str, Any]]:
    """HTA's rows of a rank, without the row that sums up the rest."""
    name, _, rank = name.partition(":")
    table = pl.read_csv(folder / "expected/hta" / name / "gpu_kernel_breakdown.1.csv")
    ranks = table.get_column("rank").unique().sort()
    return table.filter((pl.col("rank") == ranks[int(rank or 0)]) & (pl.col("name") != "others")).rows(
        named=True
    )


def is_summed_twice(row: dict[str, Any]) -> bool:
    """HTA groups the kernels of a type that has many once more: every figure is that of the sums."""
    return bool(row["sum (us)"] == row["max (us)"] == row["min (us)"] == row["mean (us)"])


@pytest.mark.parametrize("name", IN_MICROSECONDS)
def test_the_kernels_are_htas_on_traces_in_microseconds(real_traces: Path, name: str) -> None:
    found, expected = as_hta(linked_of(real_traces, name)), of_hta(real_traces, name)
    assert expected
    for row in expected:
        keys = ["sum (us)"] if is_summed_twice(row) else list(found[row["name"]])
        assert [found[row["name"]][key] for key in keys] == pytest.approx(
            [row[key] for key in keys], rel=1e-6
        )


def test_htas_mean_of_a_kernel_may_be_its_sum(real_traces: Path) -> None:
    """A kernel of 1,130 runs, the longest of which takes 95 us: HTA's longest, shortest and mean are 23,705 us."""
    found = as_hta(linked_of(real_traces, "v100_rank1of2_54MB"))
    wrong = [row for row in of_hta(real_traces, "v100_rank1of2_54MB") if is_summed_twice(row)]
    assert len(wrong) == 10
    assert (wrong[0]["max (us)"], found[wrong[0]["name"]]["max (us)"]) == (23_705.0, 95.0)


def test_the_delays_of_ops_are_htas(real_traces: Path) -> None:
    expected = pl.read_csv(real_traces / "expected/hta/simple_add_a100/aten_op_kernels_and_delay.rank0.csv")
    found = op_kernel_sequences(linked_of(real_traces, "simple_add_a100"))
    rows = found.select("op", "count", pl.col("op_launch_delay_ns", "runtime_delay_ns") / 1000).rows()
    columns = ("aten_op_name", "occurrence_count", "avg_aten_op_launch_delay", "avg_runtime_delay")
    assert sorted(rows) == sorted(expected.select(columns).rows())


# --- families ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in EVERY if name != "mtia_inference"])
def test_every_kernel_has_a_family(real_traces: Path, name: str) -> None:
    other = device_work(linked_file(real_traces / EVERY[name])).filter(family="other")
    assert set(other.get_column("name")) <= {"at::cuda::(anonymous namespace)::spin_kernel(long)"}


def test_what_an_mtia_queue_runs_is_of_no_family(real_traces: Path) -> None:
    found = kernel_families(linked_of(real_traces, "mtia_inference"))
    assert set(found.get_column("family")) == {"wait", "other", "copy"}
    other = kernels(linked_of(real_traces, "mtia_inference")).filter(family="other")
    assert set(other.get_column("name")) == {"merge", "pe_exe", "remote"}


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("v100_rank1of2_54MB", ["gemm", "communication", "elementwise"]),
        ("a100_ddp_nccl_rank0of2", ["communication", "convolution", "normalisation"]),
        ("sampled_2_of_128:0", ["communication", "embedding", "gemm"]),
        ("mi300x_decode_graph_launch", ["gemm", "attention", "normalisation"]),
    ],
)
def test_the_families_that_take_the_most_time(real_traces: Path, name: str, families: list[str]) -> None:
    found = kernel_families(linked_of(real_traces, name))
    assert set(found.get_column("family").to_list()[:3]) == set(families)


@pytest.mark.parametrize("name", ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"])
def test_without_its_op_a_kernel_has_the_family_that_it_has_with_it(real_traces: Path, name: str) -> None:
    """In these the launches of half the kernels are missing: the same model on two devices."""
    found = kernels_by_op(linked_of(real_traces, name))
    by_op = found.filter(family_by="op").select("name", "family").unique()
    by_name = found.filter(family_by="name").select("name", pl.col("family").alias("shown")).unique()
    both = by_op.join(by_name, on="name")
    assert not both.is_empty()
    assert both.get_column("family").to_list() == both.get_column("shown").to_list()


# --- graphs and sequences ---------------------------------------------------------------------------


def test_the_kernels_of_a_graph_launch_without_a_capture(real_traces: Path) -> None:
    linked = linked_of(real_traces, "mi300x_decode_graph_launch")
    found = graph_kernels(linked)
    assert (len(found), found.get_column("graph").n_unique(), found.get_column("launches").max()) == (
        544,
        1,
        1,
    )
    assert set(found.get_column("method")) == {"no-capture"}
    assert found.get_column("op").null_count() == 544
    assert found.get_column("share").sum() == pytest.approx(1.0)


def test_the_layers_of_a_model_are_found_in_its_graph(real_traces: Path) -> None:
    """36 layers: a sequence of kernels comes back 35 or 36 times."""
    found = kernel_sequences(linked_of(real_traces, "mi300x_decode_graph_launch"))
    layer = found.filter(pl.col("count").is_in([35, 36])).sort("length", descending=True)
    assert layer.get_column("length")[0] == 15


def test_the_layers_of_a_model_are_found_once(real_traces: Path) -> None:
    """Of the repeats of a stack of equal layers the layer is said, and nothing that overlaps it."""
    found = kernel_sequences(linked_of(real_traces, "h100_qwen_stack_memory"))
    assert found.select("length", "count").row(0) == (49, 34)
    assert found.get_column("length").max() == 49


def launched_by_runs(linked: LinkedTrace, op: str) -> Counter[tuple[str, ...]]:
    """What each run of an op launched, of two and more, in the order of starts: by the intervals of runs and calls."""
    events = linked.timeline.events
    runs = events.filter(pl.col("name").cast(pl.String) == op).sort("ts_ns")
    calls = events.select(
        pl.col("event_id").alias("call_event"), pl.col("lane").alias("thread"), pl.col("ts_ns").alias("call")
    )
    work = device_events(linked).join(calls, on="call_event").sort("ts_ns", "event_id")
    found: Counter[tuple[str, ...]] = Counter()
    for lane, start, dur in runs.select("lane", "ts_ns", "dur_ns").iter_rows():
        inside = work.filter((pl.col("thread") == lane) & pl.col("call").is_between(start, start + dur))
        found[tuple(inside.get_column("name"))] += 1
    return Counter({names: count for names, count in found.items() if len(names) > 1 and count > 1})


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("v100_rank1of2_54MB", "aten::addmm"),
        ("linear_2080ti", "autograd::engine::evaluate_function: AddmmBackward0"),
        ("a100_ddp_nccl_rank0of2", "autograd::engine::evaluate_function: ConvolutionBackward0"),
        ("linear_2080ti", "aten::linear"),
        ("a100_ddp_nccl_rank0of2", "aten::conv2d"),
        ("h100_qwen_stack_memory", "aten::linear"),
        ("dlrm_v100:0", "aten::linear"),
    ],
)
def test_the_complete_sequences_of_an_op_are_what_its_runs_launched(
    real_traces: Path, name: str, op: str
) -> None:
    """These are the rows of HTA's get_frequent_cuda_kernel_sequences that came back."""
    linked = linked_file(real_traces / EVERY[name])
    found = kernel_sequences(linked, op=op).filter(pl.col("complete") > 1)
    rows = {
        tuple(json.loads(pattern)): count
        for pattern, count in found.select("pattern", "complete").iter_rows()
    }
    assert rows == launched_by_runs(linked, op)
    assert rows


@pytest.mark.parametrize("name", EVERY)
def test_the_op_of_a_kernel_and_its_name_agree_as_a_capture_must(real_traces: Path, name: str) -> None:
    work = device_work(linked_file(real_traces / EVERY[name])).filter(kind="compute", op_category="cpu_op")
    share = agreement(work.get_column("name").to_list(), work.get_column("op_name").to_list())
    known = [
        op
        for op, kernel in work.select("op_name", "name").iter_rows()
        if family_of_op(op) and family_of_kernel_name(kernel)
    ]
    assert (share is None) == (not known)
    assert share is None or share > LEAST_AGREEMENT


# --- every trace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_every_answer_on_every_trace(real_traces: Path, name: str) -> None:
    linked = linked_file(real_traces / EVERY[name])
    total = device_events(linked).get_column("dur_ns").sum()
    for analysis in ANALYSES:
        for per_step in (False, True):
            found = analysis.answer(linked, per_step=per_step)
            assert dict(found.schema) == analysis.table.polars_schema()
            assert not any(column.is_nan().any() for column in found.select(pl.selectors.float()))
    for answer in (kernels, kernel_families, kernels_by_op):
        for per_step in (False, True):
            assert answer(linked, per_step=per_step).get_column("total_ns").sum() == total
    sequences, gaps = kernel_sequences(linked), stream_gaps(linked)
    assert sequences.get_column("gap_ns").sum() <= gaps.get_column("gap_before_ns").sum()
    assert sequences.get_column("device_ns").sum() <= total
