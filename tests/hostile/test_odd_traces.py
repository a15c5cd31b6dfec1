"""Values of any type, size and depth cost no other event or node."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import Json, call, complete, et_text, flow, kernel, kineto_text, node, op, write
from tests.hostile.reading import ET, EVENTS, KINETO, NODES, codes, names, refused, timeline, trace
from tests.integration.command import run, write_pair
from tests.planted import Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.ops.ops import OpKey, ops
from tracebraid.api.reporting import chosen_steps
from tracebraid.chakra.et_plus import read_et_plus
from tracebraid.chakra.running.network import network_of_text
from tracebraid.errors import ArgumentError, InputError
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.linking.nesting import host_tree
from tracebraid.model.analysis import Family
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.timeline import Timeline
from tracebraid.reports.terminal import kernels_table

ODD_VALUES: list[Any] = [
    None,
    True,
    "",
    "x",
    "7",
    -1,
    1.5,
    10**30,
    -(10**30),
    2**63,
    [],
    [[1]],
    {},
    {"a": {}},
]


@pytest.mark.parametrize("member", ["pid", "tid", "ts", "dur", "name", "cat", "args", "ph", "id", "bp"])
def test_any_type_of_any_member_of_an_event_costs_no_other(tmp_path: Path, member: str) -> None:
    for value in ODD_VALUES:
        for odd in (op("odd", 3, 4, External_id=9), flow("s", 7, 3), kernel("odd", 3, 4, 5)):
            found = timeline(tmp_path, kineto_text([EVENTS[0], {**odd, member: value}, EVENTS[2]]))
            assert {"first", "third"} <= set(names(found)), (member, value)
            assert {1, 3} <= set(found.host_ops.get_column("external_id").to_list()), (member, value)


@pytest.mark.parametrize("member", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
def test_an_event_without_a_member_costs_no_other(tmp_path: Path, member: str) -> None:
    odd = op("odd", 3, 4)
    del odd[member]
    found = timeline(tmp_path, kineto_text([EVENTS[0], odd, EVENTS[2]]))
    assert {"first", "third"} <= set(names(found))
    lost = {
        "ph": "event-unreadable",
        "ts": "event-without-time",
        "dur": "event-duration",
        "cat": "category-unknown",
    }
    assert codes(found) == ([lost[member]] if member in lost else [])


@pytest.mark.parametrize("depth", [50, 500, *range(900, 1000, 4), 5000, 100_000])
def test_values_of_any_depth_cost_no_other_event(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    odd = [
        op("odd", 3, 4, External_id="x", new="@"),
        kernel("odd", 3, 4, 5, grid="@"),
        complete("odd", "z", 1, 1, 1, 1, {"y": "@"}),
    ]
    for one in odd:
        found = timeline(tmp_path, kineto_text([EVENTS[0], one, EVENTS[2]]).replace('"@"', deep))
        assert {"first", "third"} <= set(names(found))
    found_et = trace(tmp_path, ET.replace('"strides": [[]]', f'"strides": [{deep}]', 1))
    assert {3, 5} & set(found_et.nodes.get_column("node_id").to_list())


def test_deep_text_inside_a_text_costs_no_event(tmp_path: Path) -> None:
    args: Json = {"grid": "[" * 5000, "Process Group Ranks": "[" * 5000, "Collective name": "x"}
    found = timeline(tmp_path, kineto_text([EVENTS[0], kernel("k", 1, 2, 3, **args), EVENTS[2]]))
    assert names(found) == ["first", "k", "third"]


NODE_CHANGES: list[Json] = [
    {member: value}
    for member in ("id", "name", "ctrl_deps", "inputs", "outputs", "attrs")
    for value in ODD_VALUES
] + [
    {"attrs": [{"name": name, "type": "x", "value": value}]}
    for name in ("rf_id", "op_schema", "pg_size", "is_asynchronized_op", "in_split_size", "new")
    for value in ODD_VALUES
]


@pytest.mark.full
def test_any_type_of_any_member_of_a_node_costs_no_other(tmp_path: Path) -> None:
    for change in NODE_CHANGES:
        found = trace(tmp_path, et_text([*NODES[:3], {**NODES[3], **change}, NODES[4]]))
        kept = set(found.nodes.get_column("name").to_list())
        assert {"first", "third"} <= kept or change == {"id": True}, change
        assert (3, 5) in found.tensor_edges.select("producer", "consumer").rows() or "id" in change, change


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "kind", ["Tensor(float)", "GenericList[Tensor(float)]", "Tuple[Tensor(", "", "\ufffd"]
)
def test_any_value_of_an_input_costs_no_other_node(tmp_path: Path, kind: str) -> None:
    ids = [[10**30, 1, 2, 3, 4, "cpu"], [1, 10**30, 0, 2**63, -(2**63), "x"], [[[1, 2, 3, 4, 5, "cpu"]]]]
    for value in [*ODD_VALUES, *ids]:
        for shape in ([], [4], None, "x", 10**30):
            odd = node(4, "second", 2, [(kind, value, shape)], [(kind, value, shape)])
            found = trace(tmp_path, et_text([*NODES[:3], odd, NODES[4]]))
            assert found.nodes.height == 5
            assert (3, 5) in found.tensor_edges.select("producer", "consumer").rows()


def test_repeated_ids_missing_parents_and_cycles_are_all_said(tmp_path: Path) -> None:
    nodes = [
        *NODES,
        node(5, "again", 2),
        node(7, "orphan", 6),
        node(8, "a", 9),
        node(9, "b", 8),
        node(10, "self", 10),
    ]
    found = trace(tmp_path, et_text(nodes))
    assert found.nodes.get_column("node_id").to_list() == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    assert codes(found) == ["duplicate-id", "parent-missing", "parent-cycle"]
    assert [finding.where for finding in found.findings] == ["node 5", "node 7", "node 8"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "1" + "0" * 5000])
def test_numbers_that_are_none_cost_no_other_node(tmp_path: Path, number: str) -> None:
    for old in ('"id": 4', '"value": 4', '[10, 100, 0, 4, 4, "cpu"]', '"ctrl_deps": 2', '"start_ts": 100'):
        found = trace(tmp_path, number.join(ET.rsplit(old, 1)) if old in ET else ET)
        assert found.nodes.height >= 4


@pytest.mark.parametrize("pipe", [KINETO.encode(), gzip.compress(KINETO.encode()), KINETO.encode()[:300]])
def test_a_pipe_is_read_as_far_as_it_goes(pipe: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, pipe)
    os.close(writing)
    try:
        assert names(read_timeline(f"/dev/fd/{reading}"))[0] == "first"
    finally:
        os.close(reading)


# --- Traces that are sound JSON and plausible, but odd: what is wrong with them is no figure of ------


NOW_NS = 1_780_000_000_000_000_000


def timeline_of_events(folder: Path, events: list[Json], base_ns: int = NOW_NS) -> Timeline:
    return read_timeline(
        write(folder / "kineto_trace_0.json", kineto_text(events, {"baseTimeNanoseconds": base_ns}))
    )


def memory(size: int, total: int, reserved: int, ts: int = 1) -> Json:
    args = {"Bytes": size, "Addr": 7, "Device Id": 0, "Device Type": 1}
    totals = {"Total Allocated": total, "Total Reserved": reserved}
    return {**complete("[memory]", "cpu_instant_event", ts, 0, 1, 1, {**args, **totals}), "ph": "i"}


@pytest.mark.full
@pytest.mark.parametrize(
    "ask",
    [
        tracebraid.analyses.steps,
        tracebraid.analyses.collectives,
        tracebraid.metrics,
        lambda job: tracebraid.diff(job, job),
        lambda job: job.sql("select count(*) from events"),
        lambda job: list(job.take({"rank": lambda linked: linked.rank})),
        list,
        lambda job: [job[rank] for rank in job.ranks],
    ],
    ids=["steps", "collectives", "metrics", "diff", "sql", "take", "iteration", "ranks"],
)
def test_two_traces_of_one_rank_are_no_job(tmp_path: Path, ask: object) -> None:
    """Each would count twice: the second trace is named, whatever is asked."""
    for number in (0, 1):
        scene = Scene(rank=0, world_size=2)
        with scene.thread().step(1):
            pass
        write(tmp_path / f"kineto_trace_{number}.json", scene.text())
    with pytest.raises(InputError, match=r"kineto_trace_1\.json: it is of rank 0, as is another file here"):
        ask(tracebraid.open(tmp_path))  # type: ignore[operator]


@pytest.mark.parametrize("number", ["9" * 5_000, "1" + "0" * 5_000])
def test_numbers_of_thousands_of_digits_are_none(tmp_path: Path, number: str) -> None:
    """Python converts no text of so many digits, and says so with an error of its own."""
    for rank in (0, 1):
        groups = [{"pg_name": name, "pg_desc": "x", "ranks": []} for name in (number, "7")]
        info = {"rank": number, "world_size": number, "pg_config": groups}
        events = [op("gloo:all_reduce", 1, 2), op(f"ProfilerStep#{number}", 0, 9)]
        write(tmp_path / f"kineto_trace_{rank}.json", kineto_text(events, {"distributedInfo": info}))
    found = tracebraid.check(tmp_path)
    assert [checked.rank for checked in found.ranks] == [0, 1]
    assert tracebraid.open(tmp_path)[1].rank == 1
    with pytest.raises(ArgumentError, match="there is no step"):
        chosen_steps(pl.DataFrame({"step": [f"ProfilerStep#{number}"]}), "1-3")


@pytest.mark.parametrize("part", ["ring:" + "9" * 5_000, "ring:2," + "9" * 5_000])
def test_networks_of_thousands_of_digits_are_refused(part: str) -> None:
    with pytest.raises(ArgumentError):
        network_of_text(part)


def test_an_event_centuries_behind_the_base_keeps_its_own_time(tmp_path: Path) -> None:
    """No sum of times may pass the end of the clock, nor the moments that stand for never."""
    found = timeline_of_events(
        tmp_path, [op("a", 1, 2), op("far", 3e15, 9), op("b", 2, 1, cat="python_function")]
    )
    assert found.events.get_column("ts_ns").to_list() == [NOW_NS + 1_000, 3 * 10**18, NOW_NS + 2_000]
    (finding,) = [one for one in found.findings if one.code is FindingCode.BASE_TIME]
    assert "1 times" in str(finding)
    assert host_tree(found).height == 3


@pytest.mark.parametrize("base_ns", [2**62, 2**63 - 1])
def test_a_base_time_behind_all_others_is_none(tmp_path: Path, base_ns: int) -> None:
    found = timeline_of_events(tmp_path, [op("a", 1, 2)], base_ns)
    assert found.events.get_column("ts_ns").to_list() == [1_000]
    assert [finding.code for finding in found.findings] == [FindingCode.BASE_TIME]


def test_a_duration_of_years_is_none(tmp_path: Path) -> None:
    """A thousand of them could not be added up."""
    found = timeline_of_events(tmp_path, [op("a", 1, 9.9e12), op("b", 1, 1.1e13)])
    assert found.events.get_column("dur_ns").to_list() == [9_900_000_000_000_000, 0]
    assert [finding.code for finding in found.findings] == [FindingCode.EVENT_DURATION]


def test_sizes_that_no_device_holds_are_in_no_sum() -> None:
    linked = linked_of([memory(2**62, 2**62, 2**62, ts) for ts in (1, 2, 3)] + [memory(512, 512, 2048, 4)])
    assert tracebraid.analyses.memory_timeline(linked).get_column("size_bytes").to_list() == [512]
    assert linked.timeline.tables["extra_args"].height == 9


def test_less_reserved_than_allocated_is_no_fragmentation() -> None:
    row = tracebraid.analyses.allocator(linked_of([memory(4096, 4096, 1024)])).row(0, named=True)
    assert (row["unused_at_peak_bytes"], row["fragmentation"]) == (None, None)


def test_kernels_of_doubtful_work_alone_have_a_row_without_a_mean() -> None:
    """The launch's own kernel is missing: nothing that is left counts in means."""
    linked = linked_of([call("cudaLaunchKernel", 0, 5, 1), kernel("gemm", 8, 2, 2)])
    assert tracebraid.analyses.kernels(linked).is_empty()
    found = tracebraid.analyses.kernels(linked.judged_by(None))
    assert found.get_column("mean_ns").to_list() == [None]
    assert list(kernels_table(found, 5).columns[3].cells) == ["-"]


# --- Do odd values in ET+ end in nodes, or in an error that names the file ---------------------------


def written(folder: Path, *nodes: dict[str, Any]) -> Path:
    path = folder / "et_plus_0.json"
    timed = {"name": "a", "ctrl_deps": 1, "ts": 1, "dur": 2}
    path.write_text(
        json.dumps({"schema": "1.1.1", "nodes": [{"id": 2, **timed}, *({**timed, **n} for n in nodes)]})
    )
    return path


@pytest.mark.parametrize("odd", [2**63, -(2**63) - 1, 2**64])
def test_an_id_beyond_int64_costs_its_node(tmp_path: Path, odd: int) -> None:
    found = read_et_plus(written(tmp_path, {"id": odd}, {"id": 3}))
    assert found.nodes.get_column("node_id").to_list() == [2, 3]
    assert [(one.code, one.loss) for one in found.findings] == [(FindingCode.NODE_UNREADABLE, Loss(1, 1))]


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63)])
def test_a_size_beyond_int64_is_unknown(tmp_path: Path, count: int) -> None:
    attrs = [{"name": "in_msg_nelems", "value": count}, {"name": "dtype", "value": "Float"}]
    found = read_et_plus(written(tmp_path, {"id": 3, "attrs": attrs}))
    assert found.nodes.get_column("in_bytes").to_list() == [None, None]


def test_durations_whose_sum_is_beyond_int64_are_converted(tmp_path: Path) -> None:
    path = written(tmp_path, *({"id": number, "ts": number, "dur": 9e15} for number in range(3, 6)))
    tracebraid.chakra.convert(path, tmp_path / "x.0.et")
    durations = tracebraid.chakra.read(tmp_path / "x.0.et").nodes.get_column("duration_micros")
    assert durations.to_list() == [2, 9 * 10**15, 9 * 10**15, 9 * 10**15]


@pytest.mark.parametrize("member", ["ctrl_deps", "inter_thread_dep", "sync_dep"])
def test_a_node_that_waits_for_an_id_beyond_int64_is_kept(tmp_path: Path, member: str) -> None:
    found = read_et_plus(written(tmp_path, {"id": 3, member: 2**63}))
    assert found.nodes.get_column("node_id").to_list() == [2, 3]
    assert found.waits == []


def test_the_first_of_nodes_that_share_an_id_counts(tmp_path: Path) -> None:
    path = tmp_path / "et_plus_0.json"
    path.write_text(
        json.dumps({"nodes": [{"id": 2, "name": "a"}, {"id": 2, "name": "b", "ts": 1, "dur": 1}]})
    )
    assert "no node has a time" in refused(lambda: read_et_plus(path), path).problem


def test_inputs_that_are_no_text_list_no_group(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": 3, "name": "## process_group:init ##", "inputs": {"values": ["[]"]}})
    path.write_bytes(path.read_bytes().replace(b'"values"', b'"value\xe4s"'))
    found = read_et_plus(path)
    assert (found.nodes.height, found.groups) == (2, {})


# --- Ops, annotations, modules and Python functions of events that make no sense: an answer, ne ------


ANALYSES = [found for found in all_analyses() if found.family is Family.OPS]

NAMES = [
    "aten::mm",
    "ProfilerStep#1",
    "ProfilerStep#2",
    "nn.Module: A_0",
    "nn.Module: ",
    "autograd::engine::evaluate_function: X",
    "a.py(3): f",
    "torch/nn/modules/module.py(1): _call_impl",
    "<built-in x at 0x12>",
    "",
    None,
    3,
]
CATEGORIES = [
    "cpu_op",
    "user_annotation",
    "python_function",
    "cuda_runtime",
    "kernel",
    "gpu_user_annotation",
    "cuda_sync",
    None,
]
KEYS = [
    "External id",
    "Sequence number",
    "Fwd thread id",
    "correlation",
    "Input Dims",
    "Call stack",
    "Module Hierarchy",
    "Python id",
    "Python parent id",
]
VALUES: list[Any] = [
    0,
    1,
    2,
    -1,
    None,
    "x",
    [[2]],
    "TOP(A)::f.b(C)::g",
    "n.py(3): f;torch/nn/modules/module.py(3): _call_impl;x.py(3): y",
    2**63,
    1e300,
]


def event(drawn: random.Random) -> Json:
    return {
        "ph": "X",
        "cat": drawn.choice(CATEGORIES),
        "name": drawn.choice(NAMES),
        "pid": drawn.choice([0, 1, 1, "x"]),
        "tid": drawn.choice([1, 1, 2, 7]),
        "ts": drawn.randrange(100),
        "dur": drawn.choice([0, 1, 5, 50, 100, -5, 10**9]),
        "args": {key: drawn.choice(VALUES) for key in KEYS if drawn.random() < 0.4},
    }


@pytest.mark.parametrize("seed", range(25))
def test_odd_events_have_answers(seed: int) -> None:
    drawn = random.Random(seed)
    linked = linked_of([event(drawn) for _ in range(drawn.randrange(40))])
    answers = [
        analysis.answer(linked, per_step=per_step) for analysis in ANALYSES for per_step in (False, True)
    ]
    for found in [*answers, *(ops(linked, by=key.value) for key in OpKey)]:
        floats = [column for column in found.get_columns() if column.dtype == pl.Float64]
        assert not any(column.is_nan().any() for column in floats)


# --- A rank whose header is nested deeply, around what no column holds, ends no command over it ------


DEEP = '{"ph": [' * 300 + "9" * 30 + "]}" * 300


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("odd", [DEEP, "9" * 400], ids=["deep", "beyond all floats"])
def test_an_odd_header_of_either_kind_ends_no_command_over_the_folder(tmp_path: Path, odd: str) -> None:
    write_pair(tmp_path, 0)
    for file in write_pair(tmp_path, 1):
        text = file.read_text().lstrip()
        file.write_text(f'{{"odd": {odd}, {text[1:]}')
    for line in (("info",), ("analyze", "breakdown"), ("critical-path",), ("export",)):
        to = ("--to", "perfetto", "-o", tmp_path / "out") if line == ("export",) else ()
        done = run(*line, tmp_path, *to)
        assert "Traceback" not in done.stderr
        assert done.returncode == 0, (line, done)
    linked = tracebraid.open(tmp_path)[1]
    assert linked.et is not None
    for read in (linked.timeline, linked.et):
        assert FindingCode.HEADER_UNREADABLE in [finding.code for finding in read.findings]
