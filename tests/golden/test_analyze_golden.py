"""Answers on real traces: against HTA on µs traces, against plain decimal arithmetic on ns ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.builders import Json
from tracebraid import link
from tracebraid.analyses import breakdown, counters, kernels, ops, steps
from tracebraid.analysis.device import device_events
from tracebraid.analysis.kernels.kernels import KERNELS
from tracebraid.analysis.time.breakdown import BREAKDOWN, Cover, cover_of
from tracebraid.analysis.time.step_times import STEPS
from tracebraid.model.answers.ops import OPS
from tracebraid.model.linked_trace import LinkedTrace

FILES = {
    "simple_add_a100": "pairs/simple_add_a100/kineto_trace_0.json.gz",
    "linear_2080ti": "pairs/linear_2080ti/kineto_trace_0.json.gz",
    "v100_rank1of2_54MB": "kineto/v100_rank1of2_54MB.json.gz",
    "sampled_2_of_128:0": "kineto/sampled_2_of_128/sampled_rank-0.json.gz",
    "sampled_2_of_128:1": "kineto/sampled_2_of_128/sampled_rank-1.json.gz",
    **{
        name: f"kineto/{name}.json.gz"
        for name in (
            "a100_alexnet_cuda_sync",
            "a100_event_sync",
            "a100_event_sync_multi_stream",
            "a100_ddp_nccl_rank0of2",
            "h100_qwen_stack_memory",
            "mi250_minitoy_train",
            "mi300x_compile_triton",
            "mi300x_decode_graph_launch",
            "mi300x_qwen_stack_memory",
            "mtia_inference",
            "cpu_only_rank34",
            "no_distributed_info",
            "a100_cupti_counters",
            "triton_example",
        )
    },
}


WITHOUT_KERNELS = "a100_cupti_counters"
"""A session of counters records no kernels."""


@cache
def linked_file(path: Path) -> LinkedTrace:
    linked = link(None, path)
    # What the host alone did adds up, too.
    return linked.judged_by(None) if WITHOUT_KERNELS in path.name else linked


def linked_of(folder: Path, name: str) -> LinkedTrace:
    return linked_file(folder / FILES[name])


def hta(folder: Path, name: str) -> dict[str, Any]:
    """HTA's temporal breakdown and overlap of a rank; name:row picks the row of a trace with several."""
    name, _, row = name.partition(":")
    of_rank = [
        pl.read_csv(folder / "expected/hta" / name / f"{table}.csv").row(int(row or 0), named=True)
        for table in ("temporal_breakdown", "comm_comp_overlap")
    ]
    return {key.removesuffix("(us)"): value for one in of_rank for key, value in one.items()}


def over_all(linked: LinkedTrace) -> dict[str, Any]:
    rows = breakdown(linked).filter(pl.col("step").is_null()).to_dicts()
    assert len(rows) == 1
    return rows[0]


def cover(events: pl.DataFrame) -> Cover:
    starts = events.get_column("ts_ns").to_numpy()
    return cover_of(starts, starts + events.get_column("dur_ns").to_numpy())


def as_hta(events: pl.DataFrame) -> dict[str, float | None]:
    """HTA's figures, by its formulas, from device events with kind, ts_ns and dur_ns; in µs."""
    busy = cover(events)
    compute, communication, either = (
        cover(events.filter(pl.col("kind").is_in(kinds))).length
        for kinds in (["compute"], ["communication"], ["compute", "communication"])
    )
    span = int(busy.ends[-1] - busy.starts[0])
    overlap = compute + communication - either
    return {
        "idle_time": (span - busy.length) / 1000,
        "compute_time": compute / 1000,
        "non_compute_time": (busy.length - compute) / 1000,
        "kernel_time": span / 1000,
        "comp_comm_overlap_pctg": round(100 * overlap / communication, 2) if communication else None,
    }


# --- HTA, on µs traces ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["simple_add_a100", "linear_2080ti"])
def test_the_breakdown_is_htas_on_traces_in_microseconds(real_traces: Path, name: str) -> None:
    row, expected = over_all(linked_of(real_traces, name)), hta(real_traces, name)
    assert row["idle_ns"] == 1000 * expected["idle_time"]
    assert row["compute_ns"] == 1000 * expected["compute_time"]
    assert row["exposed_communication_ns"] + row["exposed_memory_ns"] == 1000 * expected["non_compute_time"]
    assert row["span_ns"] == 1000 * expected["kernel_time"]


@pytest.mark.parametrize("name", ["v100_rank1of2_54MB", "sampled_2_of_128:0", "sampled_2_of_128:1"])
def test_the_breakdown_is_htas_where_it_leaves_out_the_last_step(real_traces: Path, name: str) -> None:
    """HTA leaves out what was launched in the last ProfilerStep or after it; we leave out nothing."""
    linked = linked_of(real_traces, name)
    last = steps(linked).get_column("start_ns").max()
    calls = linked.timeline.events.filter(pl.col("ts_ns") < last).select(
        pl.col("event_id").alias("call_event")
    )
    counted = device_events(linked).join(calls, on="call_event", how="semi")
    expected = hta(real_traces, name)
    found = as_hta(counted)
    assert found == {key: expected[key] for key in found}


def test_htas_figures_of_the_v100_are_these(real_traces: Path) -> None:
    """The yardstick itself, so that a changed file does not pass for an agreement."""
    expected = hta(real_traces, "v100_rank1of2_54MB")
    figures = [expected[f"{key}_time"] for key in ("idle", "compute", "non_compute", "kernel")]
    assert figures == [643_612, 496_485, 256_572, 1_396_669]


@pytest.mark.parametrize(
    "name", ["a100_event_sync", "a100_event_sync_multi_stream", "a100_alexnet_cuda_sync"]
)
def test_the_breakdown_is_htas_where_it_counts_synchronisation_as_work(real_traces: Path, name: str) -> None:
    """HTA counts `cuda_sync` entries on a stream as kernels that are no compute; to us they are no work."""
    linked = linked_of(real_traces, name)
    syncs = linked.timeline.events.join(
        linked.timeline.tables["syncs"].filter(pl.col("stream") >= 0), on="event_id", how="semi"
    ).select(pl.lit("sync").alias("kind"), "ts_ns", "dur_ns")
    assert not syncs.is_empty()
    work = device_events(linked).select("kind", "ts_ns", "dur_ns")
    expected = hta(real_traces, name)
    found = as_hta(pl.concat([work, syncs]))
    assert found == {key: expected[key] for key in found}


# --- plain arithmetic, on ns traces -----------------------------------------------------------------

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events")


def events_of(path: Path) -> list[Json]:
    return json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]


def kind_of(event: Json) -> str:
    name = event["name"]
    if event["cat"] in ("gpu_memcpy", "gpu_memset") or name == "dma_request":
        return "memory"
    if name in ("event_wait", "event_record"):
        return "wait"
    communicates = "Collective name" in event["args"] or "nccl" in name.lower()
    return "communication" if communicates else "compute"


def union_us(spans: Iterable[tuple[Decimal, Decimal]]) -> Decimal:
    """Length of a union, by sorting and merging; Decimal all the way."""
    length, reach = Decimal(0), None
    for start, end in sorted(spans):
        begin = start if reach is None or start > reach else reach
        length += max(Decimal(0), end - begin)
        reach = end if reach is None else max(reach, end)
    return length


@pytest.mark.parametrize(
    "name",
    [
        "a100_ddp_nccl_rank0of2",
        "h100_qwen_stack_memory",
        "mi250_minitoy_train",
        "mi300x_compile_triton",
        "mi300x_decode_graph_launch",
        "mi300x_qwen_stack_memory",
        "mtia_inference",
        "triton_example",
    ],
)
def test_the_breakdown_is_exact_to_the_ns(real_traces: Path, name: str) -> None:
    spans: dict[str, list[tuple[Decimal, Decimal]]] = {}
    for event in events_of(real_traces / FILES[name]):
        if event.get("cat") in DEVICE_CATEGORIES:
            bounds = (Decimal(event["ts"]), Decimal(event["ts"]) + Decimal(event["dur"]))
            spans.setdefault(kind_of(event), []).append(bounds)
    spans.pop("wait", None)
    compute, communication, memory = (spans.get(k, []) for k in ("compute", "communication", "memory"))
    every = [*compute, *communication, *memory]
    span = max(end for _, end in every) - min(start for start, _ in every)
    expected = {
        "span_ns": span,
        "compute_ns": union_us(compute),
        "communication_ns": union_us(communication),
        "memory_ns": union_us(memory),
        "overlap_ns": union_us(compute) + union_us(communication) - union_us([*compute, *communication]),
        "exposed_communication_ns": union_us([*compute, *communication]) - union_us(compute),
        "exposed_memory_ns": union_us(every) - union_us([*compute, *communication]),
        "idle_ns": span - union_us(every),
    }
    row = over_all(linked_of(real_traces, name))
    assert {key: Decimal(row[key]) for key in expected} == {key: 1000 * us for key, us in expected.items()}


EXACT_IDLE_US = {
    "a100_ddp_nccl_rank0of2": "503050.991",
    "mi250_minitoy_train": "8762.845",
    "mi300x_decode_graph_launch": "463977.017",
    "mi300x_compile_triton": "0.011",
    "mtia_inference": "20984.794",
}


@pytest.mark.parametrize(("name", "us"), EXACT_IDLE_US.items())
def test_idle_time_is_not_rounded(real_traces: Path, name: str, us: str) -> None:
    assert over_all(linked_of(real_traces, name))["idle_ns"] == int(1000 * Decimal(us))


# --- every file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_the_parts_add_up_to_the_span_in_every_row(real_traces: Path, name: str) -> None:
    table = breakdown(linked_of(real_traces, name))
    total = pl.sum_horizontal("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
    assert table.height > 0
    assert (table.select(total == pl.col("span_ns")).to_series()).all()
    assert (table.select(pl.col("overlap_ns") + pl.col("exposed_communication_ns")).to_series()).equals(
        table.get_column("communication_ns"), check_names=False
    )
    assert table.select(pl.min_horizontal(pl.col("^.*_ns$")).min()).item() >= 0


@pytest.mark.parametrize("name", FILES)
def test_kernels_hold_all_device_time_and_ops_all_that_is_attributed(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    total_ns, attributed_ns = linked.coverage.gpu_time_ns
    assert kernels(linked).get_column("total_ns").sum() == total_ns
    assert kernels(linked, per_step=True).get_column("total_ns").sum() == total_ns
    assert ops(linked).get_column("device_self_ns").sum() == attributed_ns
    assert ops(linked, per_step=True).get_column("device_self_ns").sum() == attributed_ns


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"mtia_inference"}))
def test_host_self_times_add_up_to_the_time_in_which_an_op_ran(real_traces: Path, name: str) -> None:
    """On each thread; but for MTIA's, where annotations run past each other's ends."""
    linked = linked_of(real_traces, name)
    tree = linked.host_tree.filter(pl.col("op_exclusive_ns").is_not_null()).join(
        linked.timeline.events.select("event_id", "lane", "ts_ns"), on="event_id"
    )
    covered = 0
    for (_,), lane in tree.group_by("lane"):
        starts = lane.get_column("ts_ns").to_numpy()
        covered += cover_of(starts, starts + lane.get_column("inclusive_ns").to_numpy()).length
    own = ops(linked).select(pl.col("host_self_ns").sum()).item()
    assert abs(own - covered) <= 0.001 * covered


@pytest.mark.parametrize("name", FILES)
def test_every_answer_has_its_declared_schema(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    answers = [(breakdown(linked), BREAKDOWN), (steps(linked), STEPS)]
    answers += [(kernels(linked, per_step), KERNELS) for per_step in (False, True)]
    answers += [(ops(linked, per_step), OPS) for per_step in (False, True)]
    assert [dict(table.schema) == declared.polars_schema() for table, declared in answers] == [True] * 6


def test_the_kernels_of_the_v100_are_counted_in_full(real_traces: Path) -> None:
    table = kernels(linked_of(real_traces, "v100_rank1of2_54MB"))
    assert table.get_column("count").sum() == 22_290
    communication = table.filter(kind="communication")
    assert communication.get_column("count").sum() == 2020
    assert set(communication.get_column("name").str.contains("(?i)nccl")) == {True}


def test_mtia_waits_are_counted_as_kernels_and_not_as_busy(real_traces: Path) -> None:
    linked = linked_of(real_traces, "mtia_inference")
    waits = kernels(linked).filter(kind="wait")
    assert dict(waits.select("name", "count").iter_rows()) == {"event_record": 291, "event_wait": 48}


@pytest.mark.parametrize("name", ["cpu_only_rank34", "no_distributed_info", "a100_cupti_counters"])
def test_a_trace_without_device_work_is_broken_down_by_its_host_ops(real_traces: Path, name: str) -> None:
    linked = linked_of(real_traces, name)
    table = breakdown(linked)
    assert set(table.get_column("device")) == {"cpu"}
    name_of, category = pl.col("name").cast(pl.String), pl.col("category").cast(pl.String)
    communicates = name_of.str.contains("^(nccl:|gloo:|c10d::|record_param_comms)")
    host = linked.timeline.events.filter(category == "cpu_op", ~communicates)
    assert over_all(linked)["compute_ns"] == cover(host).length


def test_a_session_of_counters_says_nothing_of_the_device_but_counters(real_traces: Path) -> None:
    linked = link(None, real_traces / FILES[WITHOUT_KERNELS])
    assert [found.finding.code.value for found in linked.gaps] == ["device-events-missing"]
    assert breakdown(linked).is_empty()
    assert ops(linked).is_empty()
    assert not counters(linked).is_empty()


# --- the bundled traces: counts, not times ----------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demo_has_three_steps_on_the_cpu(demo: Path, rank: int) -> None:
    linked = link(None, demo / f"kineto_trace_{rank}.json.gz")
    assert steps(linked).get_column("step").to_list() == [f"ProfilerStep#{i}" for i in (3, 4, 5)]
    table = breakdown(linked)
    assert table.select("device", "step").rows() == [
        ("cpu", None),
        *(("cpu", f"ProfilerStep#{i}") for i in (3, 4, 5)),
    ]
    assert (table.get_column("communication_ns") > 0).all()
    assert (table.get_column("memory_ns") == 0).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_each_step_of_the_demo_runs_the_same_ops(demo: Path, rank: int) -> None:
    linked = link(None, demo / f"kineto_trace_{rank}.json.gz")
    counts = {
        (step, name): count
        for step, name, count in ops(linked, per_step=True)
        .group_by("step", "name")
        .agg(pl.col("count").sum())
        .iter_rows()
    }
    expected = {"## forward ##": 1, "## backward ##": 1, "## optimizer ##": 1, "aten::addmm": 7}
    for number in (3, 4, 5):
        assert {name: counts[f"ProfilerStep#{number}", name] for name in expected} == expected


@pytest.mark.parametrize("rank", [0, 1])
def test_the_ops_of_the_demo_are_all_counted(demo: Path, rank: int) -> None:
    linked = link(None, demo / f"kineto_trace_{rank}.json.gz")
    assert ops(linked).get_column("count").sum() == linked.coverage.host_ops.total
    assert kernels(linked).is_empty()
    assert np.all(ops(linked).get_column("device_total_ns").to_numpy() == 0)
