"""The generator of large traces: what it repeats is the trace again, later and with ids of its own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.repeat_trace import main, repeat_pair, repeat_trace
from tests.builders import (
    Json,
    call,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    process_node,
    tensor,
    thread_node,
    write,
)
from tracebraid import read_execution_trace, read_timeline
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.timeline import Timeline

NO_ID = 2**32 - 1


def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def nodes_of(path: Path) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = json.loads(path.read_text())["nodes"]
    return nodes


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def linked_pair(et: Path, kineto: Path) -> LinkedTrace:
    return link_traces(read_timeline(kineto), read_execution_trace(et))


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    """An op that launches a kernel, with all its ids, a mark that is no id, and text that looks like members."""
    events = [
        {"ph": "M", "name": "process_name", "ts": 10, "pid": 1, "tid": 0, "args": {"name": "python"}},
        op("ProfilerStep#7", 10.5, 80, cat="user_annotation", External_id=1, Record_function_id=4),
        op('say "ts": 5', 11.25, 50, External_id=2, Record_function_id=0, Ev_Idx=0, Sequence_number=0),
        call("cudaLaunchKernel", 12, 5, correlation=31),
        call("cudaStreamSynchronize", 60, 5, correlation=0),
        kernel("gemm", 20.125, 30, correlation=31, stream=NO_ID, **Json({"External id": 2})),
        flow("s", 31, 12),
        flow("f", 31, 20.125, pid=0, tid=7),
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 95.5},
    ]
    return write(tmp_path / "kineto_trace_0.json", kineto_text(events))


@pytest.mark.parametrize("name", ["kineto_trace_0.json.gz", "torch_et_0.json.gz"])
def test_once_is_the_trace_byte_for_byte(demo: Path, tmp_path: Path, name: str) -> None:
    assert repeat_trace(demo / name, tmp_path / "one.json", times=1) == 1
    assert (tmp_path / "one.json").read_bytes() == unpacked(demo / name)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["kineto_trace_0.json.gz", "torch_et_0.json.gz"])
def test_three_times_begins_as_the_trace_and_keeps_its_layout(demo: Path, tmp_path: Path, name: str) -> None:
    repeat_trace(demo / name, tmp_path / "three.json.gz", times=3)
    one, three = unpacked(demo / name), unpacked(tmp_path / "three.json.gz")
    assert three[: len(one) * 9 // 10] == one[: len(one) * 9 // 10]
    assert three.endswith(one[-40:])
    assert 2.9 < three.count(b"\n") / one.count(b"\n") < 3.1


@pytest.mark.slow
def test_every_table_of_a_timeline_has_three_times_its_rows(demo: Path, tmp_path: Path) -> None:
    one, three = timelines(demo / "kineto_trace_0.json.gz", tmp_path, 3)
    heights = {name: table.height * (1 if name == "lanes" else 3) for name, table in one.tables.items()}
    assert {name: table.height for name, table in three.tables.items()} == heights
    assert one.tables["lanes"].equals(three.tables["lanes"])
    assert three.header == one.header
    assert not three.findings


@pytest.mark.slow
def test_each_repetition_is_the_trace_again_after_the_one_before(demo: Path, tmp_path: Path) -> None:
    one, three = timelines(demo / "kineto_trace_0.json.gz", tmp_path, 3)
    rows = one.events.height
    starts = three.events.get_column("ts_ns").to_numpy().reshape(3, rows)
    shift = starts[1, 0] - starts[0, 0]
    first = one.events.get_column("ts_ns").to_numpy()
    ends = first + one.events.get_column("dur_ns").to_numpy()
    assert shift > ends.max() - first.min()
    assert (starts == first + shift * np.arange(3)[:, None]).all()
    names = [
        name for name in one.events.get_column("name").cast(pl.String) if not name.startswith("ProfilerStep")
    ]
    found = three.events.get_column("name").cast(pl.String)
    assert [name for name in found if not name.startswith("ProfilerStep")] == names * 3


@pytest.mark.slow
def test_profiler_steps_go_on(demo: Path, tmp_path: Path) -> None:
    _, three = timelines(demo / "kineto_trace_0.json.gz", tmp_path, 3)
    names = three.events.get_column("name").cast(pl.String)
    steps = (
        names.filter(names.str.starts_with("ProfilerStep#")).str.strip_prefix("ProfilerStep#").cast(pl.Int64)
    )
    assert sorted(steps) == list(range(steps.min(), steps.min() + len(steps)))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_pair_links_three_times_as_much_and_names_agree(demo: Path, tmp_path: Path, rank: int) -> None:
    pair = demo / f"torch_et_{rank}.json.gz", demo / f"kineto_trace_{rank}.json.gz"
    one, three = linked_pair(*pair), linked_pair(*repeat_pair(*pair, tmp_path, 3))
    assert three.coverage.host_ops.linked == 3 * one.coverage.host_ops.linked > 0
    assert three.coverage.host_ops.by_method == {"record_function_id": 3 * one.coverage.host_ops.linked}
    assert three.et is not None
    names = three.timeline.events.select("event_id", pl.col("name").cast(pl.String))
    node_names = three.et.nodes.select("node_id", pl.col("name").cast(pl.String).alias("node_name"))
    pairs = three.host_links.drop_nulls("node_id").join(names, on="event_id").join(node_names, on="node_id")
    assert pairs.filter(pl.col("name") != pl.col("node_name")).is_empty()
    assert pairs.get_column("node_id").is_unique().all()


@pytest.mark.full
@pytest.mark.slow
def test_an_execution_trace_has_three_times_its_graph_under_the_same_roots(
    demo: Path, tmp_path: Path
) -> None:
    source = demo / "torch_et_0.json.gz"
    repeat_trace(source, tmp_path / "et.json", times=3, beside=[demo / "kineto_trace_0.json.gz"])
    one, three = read_execution_trace(source), read_execution_trace(tmp_path / "et.json")
    roots = one.nodes.filter("is_root")
    assert three.nodes.filter("is_root").equals(roots)
    assert three.nodes.height - roots.height == 3 * (one.nodes.height - roots.height)
    for name in ("values", "tensors", "tensor_uses", "tensor_edges"):
        assert getattr(three, name).height == 3 * getattr(one, name).height
    assert [finding.code for finding in three.findings] == [finding.code for finding in one.findings]
    assert nodes_of(tmp_path / "et.json")[-1]["id"] == 1


def test_ids_are_fresh_and_agree_as_before(launch: Path, tmp_path: Path) -> None:
    repeat_trace(launch, tmp_path / "two.json", times=2)
    step, operator, launching, waiting, work, begin, end, _ = events_of(tmp_path / "two.json")[9:]
    assert step["args"] == {"External id": 101, "Record function id": 104}
    assert operator["args"] == {
        "External id": 102,
        "Record function id": 0,
        "Ev Idx": 100,
        "Sequence number": 100,
    }
    assert launching["args"]["correlation"] == work["args"]["correlation"] == begin["id"] == end["id"] == 131
    assert waiting["args"]["correlation"] == 0
    assert work["args"]["External id"] == 102
    assert work["args"]["stream"] == NO_ID


def test_what_is_no_id_and_no_time_stays(launch: Path, tmp_path: Path) -> None:
    repeat_trace(launch, tmp_path / "two.json", times=2)
    events = events_of(tmp_path / "two.json")
    assert [event["name"] for event in events if event["ph"] == "M"] == ["process_name"]
    again = events[9:]
    assert again[0]["name"] == "ProfilerStep#8"
    assert again[1]["name"] == 'say "ts": 5'
    before = events[1:9]
    assert {later["ts"] - first["ts"] for first, later in zip(before, again, strict=True)} == {1086}
    assert [later.get("dur") for later in again] == [first.get("dur") for first in before]


@pytest.mark.parametrize("flat", [False, True])
def test_the_ids_of_an_execution_trace_shift_together(tmp_path: Path, flat: bool) -> None:
    used = tensor(5, 6, [2])
    nodes = [
        thread_node(),
        node(4, "aten::add", 3, [used, ("String", '[5,6,0,2,4,"cpu"] "rf_id": 3', [])], [tensor(7, 6, [2])]),
        node(3, "ProfilerStep#1", 2, rf_id=9, fw_parent=2, seq_id=0),
        process_node(),
    ]
    if flat:
        nodes = [flattened(one) for one in nodes]
    source = write(tmp_path / "torch_et_0.json", et_text(nodes, "1.0.1" if flat else "1.1.1-chakra.0.0.4"))
    repeat_trace(source, tmp_path / "two.json", times=2)
    before, after = nodes_of(source), nodes_of(tmp_path / "two.json")
    assert [one["id"] for one in after] == [2, 4, 3, 14, 13, 1]
    add, step = (one if flat else flattened(one) for one in after[3:5])
    assert (add["parent"], add["rf_id"], add["seq_id"]) == (13, 14, -1)
    assert add["inputs"] == [[15, 16, 0, 2, 4, "cpu"], '[5,6,0,2,4,"cpu"] "rf_id": 3']
    assert add["outputs"] == [[17, 16, 0, 2, 4, "cpu"]]
    assert (step["name"], step["parent"], step["fw_parent"], step["rf_id"], step["seq_id"]) == (
        "ProfilerStep#2",
        2,
        2,
        19,
        10,
    )
    assert [after[0], after[5]] == [before[0], before[3]]


def test_it_goes_on_until_the_size(launch: Path, tmp_path: Path) -> None:
    size = 50 * launch.stat().st_size
    times = repeat_trace(launch, tmp_path / "large.json", size_bytes=size)
    written = (tmp_path / "large.json").stat().st_size
    assert size <= written < 1.1 * size
    assert len(events_of(tmp_path / "large.json")) == 1 + 8 * times


def test_a_real_trace_repeats_as_well(real_traces: Path, tmp_path: Path) -> None:
    pair = [
        real_traces / "pairs" / "simple_add_a100" / name
        for name in ("torch_et_0.json.gz", "kineto_trace_0.json.gz")
    ]
    three = linked_pair(*repeat_pair(pair[0], pair[1], tmp_path, 3))
    assert (three.coverage.host_ops.linked, three.coverage.gpu_events.linked) == (108, 12)


def test_the_command_line_writes_and_says_so(
    launch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json.gz"
    main([str(launch), str(out), "--times", "2"])
    assert capsys.readouterr().out.startswith(f"{out}: 2 times")
    assert len(json.loads(unpacked(out))["traceEvents"]) == 17


@pytest.mark.parametrize("amount", [["--times", "0"], ["--size-gb", "-1"], []])
def test_an_amount_is_needed(launch: Path, tmp_path: Path, amount: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(launch), str(tmp_path / "out.json"), *amount])
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"traceEvents": []}',
        '{"traceEvents": [{"ph": "M"}]}',
        '{"traceEvents": [{"ph": "X", "ts": -5, "dur": 1}]}',
        '{"a": {"traceEvents": [{"ph": "M"}]}, "traceEvents": [{"ph": "X", "ts": 5, "dur": 1}]}',
    ],
)
def test_what_cannot_be_repeated_is_refused(tmp_path: Path, text: str) -> None:
    source = write(tmp_path / "kineto_trace_0.json", text)
    with pytest.raises(SystemExit):
        main([str(source), str(tmp_path / "out.json"), "--times", "2"])


def timelines(source: Path, folder: Path, times: int) -> tuple[Timeline, Timeline]:
    repeat_trace(source, folder / "kineto_trace_0.json", times=times)
    return read_timeline(source), read_timeline(folder / "kineto_trace_0.json")


def flattened(one: dict[str, Any]) -> dict[str, Any]:
    """A node as schema 1.0.1 has it."""
    attrs = {attr["name"]: attr["value"] for attr in one["attrs"]}
    sides = {
        f"{side[:-1]}_{part}": one[side][part]
        for side in ("inputs", "outputs")
        for part in ("shapes", "types")
    }
    values = {side: one[side]["values"] for side in ("inputs", "outputs")}
    return {"name": one["name"], "id": one["id"], "parent": one["ctrl_deps"], **attrs, **values, **sides}
