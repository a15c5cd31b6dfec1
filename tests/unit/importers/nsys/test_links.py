"""Links and answers from exports of Nsight Systems."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import tracebraid
from tests.builders import et_text, node, process_node, thread_node, write
from tests.unit.importers.nsys.nsys_file import (
    EPOCH_NS,
    Row,
    call,
    global_id,
    kernel,
    nvtx,
    whole,
    write_export,
)
from tests.unit.importers.nsys.nsys_reading import STEP, read
from tests.unit.importers.reading import rows
from tracebraid import api
from tracebraid.cli.commands import app
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.timeline import Timeline


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
    (all_time, step) = api.breakdown(linked).select("step", "compute_ns", "memory_ns").iter_rows()
    assert (all_time, step) == ((None, 1000, 500), ("ProfilerStep#1", 1000, 500))
    assert set(api.kernels(linked)["name"]) == {"void add<float>(float*)", "Memcpy HtoD (Pageable -> Device)"}
    added = api.ops(linked).filter(name="aten::add")
    assert added.select("input_dims", "kernels", "device_self_ns").row(0) == ("[[2, 2], [], [2]]", 1, 1000)
    info = api.info(path)
    assert (info.kind, info.torch) == ("nsys-export", "")
    assert (info.devices, info.rank, info.start_ns) == (("NVIDIA H100",), 0, EPOCH_NS + 500)
    assert (info.size_bytes, info.steps) == (path.stat().st_size, ("ProfilerStep#1",))


@pytest.mark.parametrize("command", ["check", "info", "summary", "link"])
def test_the_commands_take_it(tmp_path: Path, command: str) -> None:
    steps = [nvtx(f"ProfilerStep#{n}, op_id = {n}", 500 + n, 9500 + n) for n in (1,)]
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*STEP, *steps))
    result = CliRunner().invoke(app, [command, str(path)])
    assert result.exit_code == 0, result.output


def test_progress_rises_to_1(tmp_path: Path) -> None:
    told: list[float] = []
    read_timeline(write_export(tmp_path / "nsys_0.sqlite", whole(*STEP)), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
