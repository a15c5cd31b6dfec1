"""Inference in real traces: what is known of them, and nothing in those of training."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracebraid.analysis.inference.batch_sizes import batch_sizes
from tracebraid.analysis.inference.catalog import ANALYSES
from tracebraid.analysis.inference.graph_replays import graph_replays
from tracebraid.analysis.inference.inference_phases import inference_phases
from tracebraid.analysis.inference.token_times import token_times
from tracebraid.api import link
from tracebraid.model.answers.columns import RANK
from tracebraid.model.linked_trace import LinkedTrace

pytestmark = pytest.mark.traces

SERVING = ("mi300x_decode_graph_launch", "h100_qwen_stack_memory", "mi300x_qwen_stack_memory")


@cache
def linked(path: Path) -> LinkedTrace:
    return link(None, path, processes=1)


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


def test_other_traces_claim_nothing(real_traces: Path) -> None:
    files = sorted([*real_traces.glob("kineto/**/*.json.gz"), *real_traces.glob("pairs/*/kineto_*.json.gz")])
    assert len(files) > len(SERVING)
    for path in files:
        if path.name.removesuffix(".json.gz") not in SERVING:
            trace = link(None, path, processes=1)
            for analysis in ANALYSES:
                found = analysis.answer(trace)
                assert found.is_empty(), (path, analysis.name)
                assert dict(found.schema) == analysis.table.polars_schema()
                assert RANK in analysis.table.columns
