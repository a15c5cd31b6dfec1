"""What becomes an event, in an export of Nsight Systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import et_text, node, process_node, thread_node, write
from tests.integration.command import succeed
from tests.unit.importers.nsys.nsys_file import (
    EPOCH_NS,
    Row,
    Text,
    call,
    copy,
    fill,
    global_id,
    graph,
    kernel,
    nvtx,
    sync,
    whole,
    write_export,
)
from tests.unit.importers.nsys.nsys_reading import ADD, STEP, names, read
from tests.unit.importers.reading import rows
from tracebraid import analyses
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.importers.nsys.reader import read_nsys
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.schema import KINETO_TABLES
from tracebraid.model.timeline import Timeline


@pytest.mark.slow
def test_a_step_becomes_events_in_the_order_of_their_starts_on_the_unix_clock(tmp_path: Path) -> None:
    timeline = read(tmp_path, *STEP)
    assert rows(timeline.events, "name", "category", "lane", "ts_ns", "dur_ns") == [
        {"name": name, "category": category, "lane": lane, "ts_ns": EPOCH_NS + start, "dur_ns": duration}
        for name, category, lane, start, duration in [
            ("train", "user_annotation", 0, 1000, 8000),
            ("aten::add", "cpu_op", 0, 2000, 2000),
            ("cudaLaunchKernel", "cuda_runtime", 0, 3000, 500),
            ("void add<float>(float*)", "kernel", 1, 5000, 1000),
            ("cudaMemcpyAsync", "cuda_runtime", 0, 5000, 500),
            ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 1, 7000, 500),
        ]
    ]
    assert timeline.events.get_column("event_id").to_list() == list(range(6))
    assert (timeline.rank, timeline.world_size, timeline.base_time_ns) == (0, None, EPOCH_NS)
    assert (timeline.device_names, timeline.findings) == (["NVIDIA H100"], ())
    assert timeline.header["schemaVersion"] == "nsys 3.16.1"


def test_all_tables_are_there_with_their_columns(tmp_path: Path) -> None:
    timeline = read(tmp_path, *STEP)
    assert {name: dict(table.schema) for name, table in timeline.tables.items()} == {
        table.name: dict(table.empty().schema) for table in KINETO_TABLES
    }
    assert timeline.process_groups.is_empty()


def test_lanes_are_threads_and_streams_with_their_names(tmp_path: Path) -> None:
    assert rows(read(tmp_path, *STEP).lanes) == [
        {
            "lane": 0,
            "pid": 77,
            "tid": 77,
            "process_name": "python",
            "process_labels": "CPU",
            "thread_name": "pt_main_thread",
        },
        {
            "lane": 1,
            "pid": 0,
            "tid": 7,
            "process_name": "python",
            "process_labels": "GPU 0",
            "thread_name": "stream 7",
        },
    ]


def test_a_kernel_has_its_launch_and_its_shape(tmp_path: Path) -> None:
    timeline = read(tmp_path, kernel("k", 5, 6, 41, graphNodeId=3, graphId=2))
    assert rows(timeline.device_work) == [
        {
            "event_id": 0,
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": 41,
            "registers_per_thread": 32,
            "shared_memory_bytes": 124,
            "grid": [4, 2, 1],
            "block": [128, 1, 1],
            "graph_id": 2,
            "graph_node_id": 3,
        }
    ]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (copy(1, 1, 2, 3), "Memcpy HtoD (Pageable -> Device)"),
        (copy(2, 1, 2, 3, srcKind=2, dstKind=1), "Memcpy DtoH (Device -> Pinned)"),
        (copy(8, 1, 2, 3, srcKind=2), "Memcpy DtoD (Device -> Device)"),
        (copy(10, 1, 2, 3, srcKind=None), "Memcpy PtoP"),
        (copy(99, 1, 2, 3, srcKind=7), "Memcpy Unknown"),
        (fill(1, 2, 3), "Memset (Device)"),
        (fill(1, 2, 3, memKind=None), "Memset"),
        (graph(5, 1, 2, 3), "CUDA graph 5"),
    ],
)
def test_copies_fills_and_graphs_are_device_work(tmp_path: Path, row: Row, name: str) -> None:
    timeline = read(tmp_path, row)
    (event,) = rows(timeline.of_role(tracebraid.model.category.Role.DEVICE_WORK), "name")
    (work,) = rows(timeline.device_work)
    size = {"CUPTI_ACTIVITY_KIND_MEMCPY": 4096, "CUPTI_ACTIVITY_KIND_MEMSET": 64}.get(row[0])
    assert (event["name"], work.get("size_bytes"), work["correlation"]) == (name, size, 3)
    assert work.get("graph_id") == (5 if "GRAPH" in row[0] else None)


@pytest.mark.parametrize(
    ("written", "name", "category"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "cuda_runtime"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC", "cuda_runtime"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel_ptsz", "cuda_runtime"),
        ("cuLaunchKernel", "cuLaunchKernel", "cuda_driver"),
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2", "cuda_driver"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch", "cuda_runtime"),
    ],
)
def test_a_call_loses_the_version_that_nsys_puts_behind_its_name(
    tmp_path: Path, written: str, name: str, category: str
) -> None:
    timeline = read(tmp_path, call(written, 1, 2, 3))
    assert names(timeline, category) == [name]
    assert rows(timeline.host_calls) == [{"event_id": 0, "correlation": 3}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ADD,
            {
                "name": "aten::add",
                "record_function_id": 12,
                "sequence_number": 4,
                "input_dims": "[[2, 2], [], [2]]",
            },
        ),
        (
            "aten::add, op_id = 12, seq = 4, sizes = [[2, 2], [2, 2]]",
            {
                "name": "aten::add",
                "record_function_id": 12,
                "sequence_number": 4,
                "input_dims": "[[2, 2], [2, 2]]",
            },
        ),
        ("aten::empty, op_id = 9", {"name": "aten::empty", "record_function_id": 9}),
        ("aten::detach, seq = 7", {"name": "aten::detach", "sequence_number": 7}),
        ("aten::zeros, sizes = []", {"name": "aten::zeros", "input_dims": "[]"}),
        ("aten::cat, op_id = 1, sizes = [[2, 3], [4", {"name": "aten::cat", "record_function_id": 1}),
        (
            "autograd::engine::evaluate_function: AddmmBackward0, seq = 0, op_id = 5",
            {
                "name": "autograd::engine::evaluate_function: AddmmBackward0",
                "record_function_id": 5,
                "sequence_number": 0,
            },
        ),
    ],
)
def test_a_range_of_emit_nvtx_is_an_op(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    timeline = read(tmp_path, nvtx(text, 1, 2))
    columns = ("name", "record_function_id", "sequence_number", "input_dims")
    assert rows(timeline.host_ops.join(timeline.events, on="event_id"), *columns) == [expected]
    assert names(timeline, "cpu_op") == [expected["name"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("forward", "forward"),
        ("step, of many", "step, of many"),
        ("load, sizes = large", "load, sizes = large"),
        ("ProfilerStep#3, op_id = 7", "ProfilerStep#3"),
        ("Optimizer.step#SGD.step, op_id = 8", "Optimizer.step#SGD.step"),
        ("", ""),
        ("größe\n2", "größe\n2"),
    ],
)
def test_any_other_range_is_an_annotation(tmp_path: Path, text: str, name: str) -> None:
    assert names(read(tmp_path, nvtx(text, 1, 2)), "user_annotation") == [name]


def test_the_ops_that_made_an_op_s_inputs_stay_reachable(tmp_path: Path) -> None:
    (row,) = rows(read(tmp_path, nvtx(ADD, 1, 2)).tables["extra_args"])
    assert (row["key"], json.loads(row["value"])) == ("input_op_ids", "[(0,-1), (11,0), (0,-1)]")


def test_a_range_has_the_text_that_it_is_registered_under(tmp_path: Path) -> None:
    timeline = read(
        tmp_path,
        nvtx(None, 1, 2, textId=Text("ncclAllReduce")),
        nvtx(None, 3, 4),
        nvtx(None, 5, 6, textId=99),
    )
    assert names(timeline, "user_annotation") == ["ncclAllReduce", "(no text)", "(no text)"]


def test_of_nvtx_only_ranges_are_events_and_marks_are_kept_beside(tmp_path: Path) -> None:
    timeline = read(
        tmp_path,
        nvtx("MPI", 1, None, eventType=75),
        nvtx("here", 2, None, eventType=34),
        nvtx("from a to b", 3, 4, eventType=60),
        nvtx("rank 0", 5, None, eventType=39),
    )
    assert names(timeline, "user_annotation") == ["from a to b"]
    (mark,) = rows(timeline.tables["other_events"])
    assert mark["phase"] == "i"
    assert json.loads(mark["json"]) == {
        "name": "here",
        "ph": "i",
        "ts_ns": EPOCH_NS + 2,
        "pid": 77,
        "tid": 77,
    }


def test_a_range_that_was_open_at_the_end_lasts_until_the_last_event(tmp_path: Path) -> None:
    timeline = read(tmp_path, nvtx("open", 10, None), nvtx("closed", 11, 12), kernel("k", 20, 90, 1))
    assert rows(timeline.host_ops.join(timeline.events, on="event_id"), "name", "dur_ns", "finished") == [
        {"name": "open", "dur_ns": 80, "finished": False},
        {"name": "closed", "dur_ns": 1},
    ]


def test_ranges_that_start_together_are_in_the_order_of_their_nesting(tmp_path: Path) -> None:
    timeline = read(tmp_path, nvtx("inner", 1, 5), nvtx("outer", 1, 9), nvtx("innermost", 1, 2))
    assert names(timeline, "user_annotation") == ["outer", "inner", "innermost"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaDeviceSynchronize_v3020", "Context Sync"),
        ("cudaStreamSynchronize_v3020", "Stream Sync"),
        ("cudaEventSynchronize_v3020", "Event Sync"),
        ("cudaStreamWaitEvent_v3020", "Stream Wait Event"),
        ("cuCtxSynchronize", "Context Sync"),
    ],
)
def test_a_synchronisation_is_what_its_call_waits_for(tmp_path: Path, name: str, kind: str) -> None:
    """Exports of 2023 and 2024 number cudaDeviceSynchronize 1, and label 1 as an event's synchronisation."""
    timeline = read(tmp_path, call(name, 1, 9, 5), sync(1, 2, 8, 5))
    (row,) = rows(timeline.tables["syncs"])
    assert row == {
        "event_id": 1,
        "kind": kind,
        "stream": -1,
        "correlation": 5,
        "device": 0,
        "context": 1,
        "wait_on_event_id": -1,
    }
    assert names(timeline, "cuda_sync") == [kind]


def test_without_a_call_the_type_of_a_newer_export_tells_the_synchronisation(tmp_path: Path) -> None:
    table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    one = sync(3, 2, 8, 5, streamId=7, eventId=2)
    newer = read_nsys(write_export(tmp_path / "new.sqlite", whole(one)))
    older = read_nsys(write_export(tmp_path / "old.sqlite", whole(one), {table: "deprecatedSyncType"}))
    assert [names(timeline, "cuda_sync") for timeline in (newer, older)] == [
        ["Stream Sync"],
        ["Synchronization"],
    ]
    assert rows(newer.tables["syncs"], "stream", "wait_on_event_id") == [{"stream": 7, "wait_on_event_id": 2}]


# --- Links and answers from exports of Nsight Systems ------------------------------------------------


def two_processes() -> list[Row]:
    """Two ranks that torchrun started under one nsys: their correlations clash, their streams have one number."""
    return [
        row
        for pid, later in ((77, 0), (88, 100))
        for row in (
            nvtx(f"train {pid}", later + 1, later + 50, pid),
            call("cudaLaunchKernel_v7000", later + 10, later + 20, 5, pid),
            kernel(f"kernel {pid}", later + 30, later + 40, 5, pid),
            kernel("uncorrelated", later + 41, later + 42, 0, pid),
        )
    ]


def test_several_processes_are_kept_apart(tmp_path: Path) -> None:
    timeline = read(tmp_path, *two_processes())
    assert [(one.code, "2 processes (pid 77, 88)" in one.message) for one in timeline.findings] == [
        ("several-processes", True)
    ]
    assert rows(timeline.lanes, "pid", "tid", "thread_name", "process_name") == [
        {"pid": 77, "tid": 77, "thread_name": "pt_main_thread", "process_name": "python"},
        {"pid": 0, "tid": 7, "thread_name": "stream 7 of process 77", "process_name": "python"},
        {"pid": 88, "tid": 88},
        {"pid": 0, "tid": 7, "thread_name": "stream 7 of process 88"},
    ]
    assert timeline.device_work["correlation"].to_list() == [5, 0, 5 + 2**32, 0]
    assert launches(timeline) == {"kernel 77": "train 77", "kernel 88": "train 88", "uncorrelated": None}


def test_work_of_an_unknown_process_is_linked_only_where_there_is_one(tmp_path: Path) -> None:
    one = read(tmp_path, *STEP, without={"CUPTI_ACTIVITY_KIND_KERNEL": "globalPid"})
    assert launches(one)["void add<float>(float*)"] == "aten::add"
    (tmp_path / "two").mkdir()
    two = read(tmp_path / "two", *two_processes(), without={"CUPTI_ACTIVITY_KIND_KERNEL": "globalPid"})
    assert launches(two) == {"kernel 77": None, "kernel 88": None, "uncorrelated": None}


def launches(timeline: Timeline) -> dict[str, str | None]:
    """The range around the launching call of each device event."""
    name = timeline.events.select("event_id", pl.col("name").cast(pl.String))
    links = link_traces(timeline).device_links.select("event_id", "op_event").join(name, on="event_id")
    ops = name.rename({"event_id": "op_event", "name": "op"})
    return dict(links.join(ops, on="op_event", how="left").select("name", "op").iter_rows())


def test_kernels_belong_to_the_range_around_their_launch(tmp_path: Path) -> None:
    assert launches(read(tmp_path, *STEP)) == {
        "void add<float>(float*)": "aten::add",
        "Memcpy HtoD (Pageable -> Device)": "train",
    }


def test_a_launch_on_another_thread_has_no_range(tmp_path: Path) -> None:
    other = call("cudaLaunchKernel_v7000", 20, 30, 1, globalTid=global_id(77, 78))
    assert launches(read(tmp_path, nvtx("train", 1, 99), other, kernel("k", 40, 50, 1))) == {"k": None}


def test_an_execution_trace_links_by_the_op_ids_of_emit_nvtx(tmp_path: Path) -> None:
    nodes = [process_node(), thread_node(), node(3, "aten::add", 2, rf_id=12)]
    text = (
        et_text(nodes)
        .replace('"pid": 1,', '"pid": 77,')
        .replace("2023-11-14 22:13:20", "2023-10-04 04:13:59")
    )
    et = write(tmp_path / "torch_et_0.json", text)
    write_export(tmp_path / "nsys_0.sqlite", whole(*STEP))
    linked = tracebraid.open(tmp_path)[0]
    assert linked.et is not None
    assert linked.et.path == str(et)
    linked_nodes = linked.host_links.filter(pl.col("node_id") == 3)
    assert linked_nodes["method"].cast(pl.String).to_list() == ["record_function_id"]


def test_the_questions_have_their_answers(tmp_path: Path) -> None:
    path = write_export(
        tmp_path / "nsys_0.sqlite", whole(*STEP, nvtx("ProfilerStep#1, op_id = 1", 500, 9500))
    )
    linked = link_traces(read_timeline(path))
    (all_time, step) = analyses.breakdown(linked).select("step", "compute_ns", "memory_ns").iter_rows()
    assert (all_time, step) == ((None, 1000, 500), ("ProfilerStep#1", 1000, 500))
    assert set(analyses.kernels(linked)["name"]) == {
        "void add<float>(float*)",
        "Memcpy HtoD (Pageable -> Device)",
    }
    added = analyses.ops(linked).filter(name="aten::add")
    assert added.select("input_dims", "kernels", "device_self_ns").row(0) == ("[[2, 2], [], [2]]", 1, 1000)
    info = tracebraid.info(path)
    assert (info.kind, info.torch) == ("nsys-export", "")
    assert (info.devices, info.rank, info.start_ns) == (("NVIDIA H100",), 0, EPOCH_NS + 500)
    assert (info.size_bytes, info.steps) == (path.stat().st_size, ("ProfilerStep#1",))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "info", "summary", "link"])
def test_the_commands_take_it(tmp_path: Path, command: str) -> None:
    steps = [nvtx(f"ProfilerStep#{n}, op_id = {n}", 500 + n, 9500 + n) for n in (1,)]
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP, *steps))
    succeed(command, path)


def test_progress_rises_to_1(tmp_path: Path) -> None:
    told: list[float] = []
    read_timeline(write_export(tmp_path / "nsys_0.sqlite", whole(*STEP)), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
