"""Memory of real traces: sums that hold in every file, and figures against plain walks over the files' own events."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.builders import Json
from tracebraid import link
from tracebraid.analyses import steps
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.memory.activations import activations
from tracebraid.analysis.memory.allocator import allocator
from tracebraid.analysis.memory.memory_growth import memory_growth, memory_kept
from tracebraid.analysis.memory.memory_use import allocations, memory_at_peak, memory_peak, memory_timeline
from tracebraid.model.analysis import Family
from tracebraid.model.linked_trace import LinkedTrace

ANALYSES = [found for found in all_analyses() if found.family is Family.MEMORY]

V100, H100, MI300X = "v100_rank1of2_54MB", "h100_qwen_stack_memory", "mi300x_qwen_stack_memory"
WITH_MEMORY = [V100, H100, MI300X]
KINETO = [
    *WITH_MEMORY,
    "a100_alexnet_cuda_sync",
    "a100_cupti_counters",
    "a100_ddp_nccl_rank0of2",
    "a100_event_sync",
    "a100_event_sync_multi_stream",
    "cpu_only_rank34",
    "mi250_minitoy_train",
    "mi300x_compile_triton",
    "mi300x_decode_graph_launch",
    "mtia_inference",
    "no_distributed_info",
    "sampled_2_of_128/sampled_rank-0",
    "sampled_2_of_128/sampled_rank-1",
    "triton_example",
]
PAIRS = ["linear_2080ti", "simple_add_a100", "dlrm_v100_8rank"]


@cache
def linked_of(folder: Path, name: str) -> LinkedTrace:
    if name in PAIRS:
        pair = folder / "pairs" / name
        return link(pair / "torch_et_0.json.gz", pair / "kineto_trace_0.json.gz")
    return link(None, folder / "kineto" / f"{name}.json.gz")


@cache
def events_of(folder: Path, name: str) -> list[Json]:
    """The events of a Kineto file in the order of time."""
    text = gzip.decompress((folder / "kineto" / f"{name}.json.gz").read_bytes())
    return sorted((e for e in json.loads(text)["traceEvents"] if "ts" in e), key=lambda event: event["ts"])


@cache
def instants_of(folder: Path, name: str) -> list[Json]:
    return [event for event in events_of(folder, name) if event["name"] == "[memory]"]


def device_of(args: Json) -> str:
    return "cpu" if args["Device Type"] == 0 else str(args["Device Id"])


@pytest.mark.parametrize("name", [*KINETO, *PAIRS])
def test_every_file_has_an_answer_of_the_declared_schema(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    for analysis in ANALYSES:
        for options in ({}, {"per_step": True}) if "per_step" in analysis.options else ({},):
            table = analysis.answer(linked, **options)
            assert dict(table.schema) == analysis.table.polars_schema()
            assert all(column.drop_nulls().is_finite().all() for column in table.select(pl.col(pl.Float64)))
            if name in KINETO and name not in WITH_MEMORY:
                assert table.is_empty() or analysis.name == "allocator_calls"


@pytest.mark.parametrize("name", [*WITH_MEMORY, *PAIRS])
@pytest.mark.parametrize("per_step", [False, True])
def test_what_is_alive_at_the_peak_adds_up_to_it(real_traces: Path, name: str, per_step: bool) -> None:
    linked = linked_of(real_traces, name)
    key = ["step", "device"]
    summed = memory_at_peak(linked, per_step=per_step).group_by(key).agg(pl.col("bytes", "share").sum())
    found = memory_peak(linked, per_step=per_step).join(summed, on=key, nulls_equal=True)
    assert found.height == memory_peak(linked, per_step=per_step).height
    assert found.height > 0 or (per_step and steps(linked).is_empty())
    assert found.get_column("bytes").to_list() == found.get_column("peak_bytes").to_list()
    assert found.get_column("share").to_list() == pytest.approx([1.0] * found.height)


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_the_peak_is_the_largest_total_of_the_files_own_events(real_traces: Path, name: str) -> None:
    totals: Counter[str] = Counter()
    for event in instants_of(real_traces, name):
        device = device_of(event["args"])
        totals[device] = max(totals[device], event["args"]["Total Allocated"])
    table = memory_peak(linked_of(real_traces, name))
    assert dict(table.select("device", "peak_bytes").iter_rows()) == totals


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_allocations_are_paired_as_a_plain_walk_pairs_them(real_traces: Path, name: str) -> None:
    held: dict[tuple[str, int], float] = {}
    expected: Counter[tuple[str, int, int]] = Counter()
    for event in instants_of(real_traces, name):
        args = event["args"]
        key = (device_of(args), args["Addr"])
        if args["Bytes"] > 0:
            held[key] = event["ts"]
        else:
            lifetime = round(1000 * (event["ts"] - held.pop(key)))
            expected[key[0], -args["Bytes"], lifetime] += 1
    assert held == {}
    table = allocations(linked_of(real_traces, name))
    rows = Counter(table.select("device", "size_bytes", "lifetime_ns").iter_rows())
    assert sum(rows.values()) == sum(expected.values())
    assert sum((rows - expected).values()) <= 0.01 * sum(rows.values()), "by 1 ns, which floats round away"


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_the_timeline_ends_where_the_file_does(real_traces: Path, name: str) -> None:
    last = {device_of(event["args"]): event["args"] for event in instants_of(real_traces, name)}
    table = memory_timeline(linked_of(real_traces, name))
    assert table.height == len(instants_of(real_traces, name))
    for device, args in last.items():
        row = table.filter(device=device).row(-1, named=True)
        assert row["allocated_bytes"] == args["Total Allocated"]
        assert (row["reserved_bytes"] or 0) == args["Total Reserved"]


def test_activations_of_the_v100_are_what_was_there_when_backward_began(real_traces: Path) -> None:
    """By a plain walk: parameters, gradients and state are from before the trace, and each step releases all else."""
    instants = [e for e in instants_of(real_traces, V100) if device_of(e["args"]) == "1"]
    peak = max(instants, key=lambda event: event["args"]["Total Allocated"])
    alive: dict[int, Json] = {}
    for event in instants[: instants.index(peak) + 1]:
        if event["args"]["Bytes"] > 0:
            alive[event["args"]["Addr"]] = event
        else:
            del alive[event["args"]["Addr"]]
    engine = (e["ts"] for e in events_of(real_traces, V100) if e["name"].startswith("autograd::engine"))
    began = next(ts for ts in engine if ts > min(event["ts"] for event in alive.values()))
    early = sum(event["args"]["Bytes"] for event in alive.values() if event["ts"] < began)
    late = sum(event["args"]["Bytes"] for event in alive.values() if event["ts"] >= began)
    linked = linked_of(real_traces, V100)
    at_peak = memory_at_peak(linked).filter(device="1").group_by("category").agg(pl.col("bytes").sum())
    before = peak["args"]["Total Allocated"] - early - late
    assert dict(at_peak.iter_rows()) == {"before-trace": before, "activations": early, "temporaries": late}
    assert min(early, late) > 10**9
    assert allocations(linked).filter(pl.col("released_ns").is_null()).is_empty()
    assert activations(linked).get_column("count").sum() == 1595


def test_the_v100_does_not_grow(real_traces: Path) -> None:
    linked = linked_of(real_traces, V100)
    growth = memory_growth(linked).filter(device="1").get_column("growth_bytes").drop_nulls()
    assert growth.unique().to_list() == [0]
    assert memory_kept(linked).is_empty()


def test_the_v100_reserves_nearly_twice_its_peak_and_asks_for_no_more(real_traces: Path) -> None:
    row = allocator(linked_of(real_traces, V100)).row(0, named=True)
    assert (row["peak_allocated_bytes"], row["reserved_at_peak_bytes"]) == (6_629_508_096, 12_782_141_440)
    assert row["fragmentation"] == pytest.approx(0.481, abs=0.001)
    assert (row["device_allocations"], row["retries"]) == (0, 0)


@pytest.mark.parametrize("name", [H100, MI300X])
def test_inference_passes_activations_between_modules(real_traces: Path, name: str) -> None:
    table = allocations(linked_of(real_traces, name)).filter(pl.col("device") != "cpu")
    assert set(table.get_column("category")) == {"activations", "temporaries"}
    of_ops = table.filter(pl.col("top_op").is_not_null())
    assert of_ops.get_column("module").null_count() == 0


def test_parameters_and_gradients_of_the_linear_pair_are_those_of_its_model(real_traces: Path) -> None:
    """21 layers of 1024 x 1024 with a bias, by the storages of the Execution Trace."""
    table = allocations(linked_of(real_traces, "linear_2080ti"))
    size = 21 * 4 * (1024 * 1024 + 1024)
    held = table.filter(pl.col("allocated_ns").is_null())
    sums = held.group_by("category").agg(pl.col("size_bytes").sum(), pl.len())
    assert {c: (b, n) for c, b, n in sums.iter_rows()}["parameters"] == (size, 42)
    zeroed = table.filter(rule="zeroed")
    assert (zeroed.get_column("size_bytes").sum(), zeroed.height) == (size, 42)


def test_the_embedding_tables_of_the_dlrm_are_parameters_and_their_state_is_as_large(
    real_traces: Path,
) -> None:
    table = allocations(linked_of(real_traces, "dlrm_v100_8rank")).filter(device="0")
    sums = dict(table.group_by("category").agg(pl.col("size_bytes").sum()).iter_rows())
    assert sums["parameters"] == sums["optimizer-state"] == 2_562_598_592 + 2_485_252
