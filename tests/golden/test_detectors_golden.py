"""Detectors of communication, products, tensors and ranks on real traces: what is known to be in them."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.golden.graphs import JOBS, graph_of
from tests.golden.test_analyze_golden import FILES
from tracebraid import link
from tracebraid.analysis.antipatterns.catalog import job_detectors, rank_detectors
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.inference.graph_replays import graph_replays
from tracebraid.analysis.inference.phases import batch_sizes, inference_phases, token_times
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.analysis import Family
from tracebraid.model.answers import RANK
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace

pytestmark = pytest.mark.traces

V100, QWEN, DDP = "v100_rank1of2_54MB", "h100_qwen_stack_memory", "a100_ddp_nccl_rank0of2"


@cache
def linked(path: Path) -> LinkedTrace:
    return link(None, path)


@cache
def found(path: Path) -> dict[str, pl.DataFrame]:
    return {detector.name: detector.detect(linked(path)) for detector in rank_detectors()}


def kineto(folder: Path, name: str) -> Path:
    return folder / "kineto" / f"{name}.json.gz"


@pytest.mark.full
def test_evidence_of_every_trace_fits(real_traces: Path) -> None:
    paths = [*real_traces.glob("kineto/**/*.json.gz"), *real_traces.glob("pairs/*/kineto_trace_*.json.gz")]
    assert paths
    for path in paths:
        for rows in found(path).values():
            saving = rows.get_column("saving_ns")
            assert (saving > 0).all()
            assert (saving <= rows.get_column("end_ns") - rows.get_column("start_ns")).all()


def test_a_training_in_fp32_with_an_optimizer_by_parameter_is_told_so(real_traces: Path) -> None:
    rows = found(kineto(real_traces, V100))
    assert rows["unfused-optimizer"].get_column("step").n_unique() == 5
    products = rows["full-precision-products"].get_column("subject")
    assert products.str.contains("sgemm").all()
    assert rows["small-collectives"].height > 100
    assert rows["unaligned-products"].is_empty()


def test_a_prefill_in_bfloat16_copies_layouts_for_its_attention(real_traces: Path) -> None:
    rows = found(kineto(real_traces, QWEN))
    copies = rows["layout-copies"]
    assert copies.height == 96
    assert copies.get_column("call_site").str.contains("sdpa_attention").all()
    for name in ("dtype-bounces", "unaligned-products", "tiny-products", "eager-attention"):
        assert rows[name].is_empty()


def test_convolutions_in_nchw_are_laid_out_anew(real_traces: Path) -> None:
    rows = found(kineto(real_traces, DDP))
    assert rows["layout-copies"].get_column("subject").str.contains("(?i)nchw|nhwc").all()
    assert rows["unfused-optimizer"].is_empty()
    assert rows["hidable-communication"].is_empty()


def test_evidence_between_the_dlrm_ranks_fits_their_collectives(real_traces: Path) -> None:
    paths = sorted((real_traces / "pairs" / "dlrm_v100_8rank").glob("kineto_trace_*.json.gz"))
    gathers = {gather for detector in job_detectors() for gather in detector.gathers}
    parts = [
        RankParts(
            rank_facts(linked(path)),
            members(linked(path)),
            {gather: gather(linked(path)) for gather in gathers},
        )
        for path in paths
    ]
    ranks = link_ranks(parts)
    for detector in job_detectors():
        rows = detector.detect(ranks)
        assert (rows.get_column("saving_ns") <= rows.get_column("end_ns") - rows.get_column("start_ns")).all()


# --- Inference in real traces: what is known of them, and nothing in those of training ---------------


ANALYSES = [found for found in all_analyses() if found.family is Family.INFERENCE]


SERVING = ("mi300x_decode_graph_launch", "h100_qwen_stack_memory", "mi300x_qwen_stack_memory")


def only_row(table: pl.DataFrame) -> dict[str, Any]:
    assert table.height == 1
    return table.row(0, named=True)


def test_a_decode_step_of_a_server_is_a_graph(real_traces: Path) -> None:
    trace = linked(real_traces / "kineto" / "mi300x_decode_graph_launch.json.gz")
    phase = only_row(inference_phases(trace))
    assert (phase["phase"], phase["requests"], phase["tokens"], phase["confidence"]) == (
        "decode",
        32,
        32,
        1.0,
    )
    assert (phase["host_ns"], phase["kernels"]) == (465_716_634, 558)
    replay = only_row(graph_replays(trace))
    assert (replay["api"], replay["replays"], replay["kernels"]) == ("hipGraphLaunch", 1, 544)
    assert replay["device_ns"] == phase["graph_ns"]
    assert replay["share"] == replay["device_ns"] / phase["device_ns"]


@pytest.mark.parametrize("name", ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"])
def test_reading_prompts_is_known_by_shapes(real_traces: Path, name: str) -> None:
    trace = linked(real_traces / "kineto" / f"{name}.json.gz")
    phase = only_row(inference_phases(trace))
    assert (phase["phase"], phase["requests"], phase["tokens"]) == ("prefill", 16, 16 * 559)
    assert (phase["step"], phase["evidence"]) == ("ProfilerStep#6", "shapes")
    times = only_row(token_times(trace))
    assert times["covered_ns"] == phase["span_ns"]
    assert only_row(batch_sizes(trace))["tokens"] == times["tokens"]


@pytest.mark.full
def test_other_traces_claim_nothing(real_traces: Path) -> None:
    files = sorted([*real_traces.glob("kineto/**/*.json.gz"), *real_traces.glob("pairs/*/kineto_*.json.gz")])
    assert len(files) > len(SERVING)
    for path in files:
        if path.name.removesuffix(".json.gz") not in SERVING:
            trace = link(None, path)
            for analysis in ANALYSES:
                found = analysis.answer(trace)
                assert found.is_empty(), (path, analysis.name)
                assert dict(found.schema) == analysis.table.polars_schema()
                assert RANK in analysis.table.columns


# --- What the sweep and straggler metrics promise, on every real trace -------------------------------


@pytest.mark.parametrize("name", sorted([*FILES, *JOBS]))
def test_gains_are_bounded_and_metrics_are_numbers(real_traces: Path, name: str) -> None:
    graph = graph_of(real_traces, name)
    swept = tracebraid.sweep(graph)
    steps = graph.steps.get_column("step").unique().len()
    gains = [pl.col(f"gain_{percent}_ns") for percent in (10, 50, 100)]
    bounded = swept.filter(gains[0].is_not_null()).select(
        low=(gains[0] >= 0) & (gains[0] <= gains[1]) & (gains[1] <= gains[2]),
        path=(gains[2] * steps).round() <= pl.col("on_path_ns"),
        total=pl.col("on_path_ns") <= pl.col("total_ns"),
    )
    assert bounded.select(pl.all_horizontal(pl.all()).all()).item()
    metrics = tracebraid.straggler_metrics(graph)
    for column in ("value", "step_ns", "ideal_ns"):
        assert all(math.isfinite(value) for value in metrics.get_column(column).drop_nulls())
    assert metrics.filter(pl.col("metric") == "S").height == 1
