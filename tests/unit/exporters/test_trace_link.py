"""ET+ in the form of trace_link, and dependencies that nodes carry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, call, et_text, flattened, kernel, kineto_text, node, op, tensor, write
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tests.unit.linking.made import et_of, linked_of
from tests.unit.linking.test_dependencies import WAIT, WAITS, sync
from tracebraid import link, write_et_plus
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.exporters.et_plus import write_trace_link_et
from tracebraid.model.linked_trace import LinkedTrace

COLLECTIVE: Json = {
    "Collective name": "allreduce",
    "Process Group Name": "pg3",
    "Process Group Ranks": "[0, 1]",
    "In split size": "[]",
    "from tomorrow": {"a": [1]},
}

EVENTS = [
    op("outer", 100, 90, Record_function_id=51),
    op("mm", 110, 50, Record_function_id=52),
    op("other thread", 300, 10, tid=2, Record_function_id=53),
    call("launch", 120, 5, 7),
    kernel("gemm", 500.123, 9.001, 7, grid=[1, 2, 3]),
    kernel("nccl", 400, 20, 7, stream=20, **COLLECTIVE),
    kernel("lost", 50, 1, 99, cat="gpu_memset", bytes=64),
]

NODES = et_of(
    node(20, "outer", 1001, rf_id=51),
    node(21, "mm", 20, [tensor(3, 4, [2, 3]), ("Int", 5, [])], [tensor(6, 7, [2, 3])], rf_id=52),
    node(22, "unlinked", 20, rf_id=60),
    node(23, "other thread", 1002, rf_id=53, tid=2),
    threads=3,
)


@pytest.fixture
def made() -> LinkedTrace:
    return linked_of(EVENTS, NODES)


@pytest.fixture
def flat() -> LinkedTrace:
    return linked_of(EVENTS, [flattened(one) for one in NODES], schema="1.0.1")


@pytest.mark.parametrize("form", ["made", "flat"])
def test_linked_nodes_have_ts_and_dur_and_others_do_not(
    form: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Roots span what is linked on them; the peers read it."""
    found = exported(request.getfixturevalue(form), tmp_path)
    nodes = by_name(found)
    assert [times(nodes[name]) for name in ("outer", "mm", "unlinked")] == [
        (100, 90),
        (110, 50),
        (None, None),
    ]
    roots = {one["id"]: times(one) for one in found["nodes"]}
    assert [roots[root] for root in (1, 1001, 1002, 1003)] == [(100, 210), (100, 90), (300, 10), (None, None)]
    read_as_replay(found)
    check_trace_link(found)


def exported(linked: LinkedTrace, folder: Path) -> Json:
    write_trace_link_et(linked, folder / "et_plus.json")
    return load_et_plus(folder / "et_plus.json")


def by_name(found: Json) -> dict[str, Json]:
    return {one["name"]: one for one in found["nodes"]}


def times(one: Json) -> tuple[Any, Any]:
    return one.get("ts"), one.get("dur")


def test_a_flat_execution_trace_stays_flat(flat: LinkedTrace, tmp_path: Path) -> None:
    found = exported(flat, tmp_path)
    assert found["schema"] == "1.0.1"
    bare = [{k: v for k, v in one.items() if k not in ("ts", "dur")} for one in found["nodes"]]
    host = sorted(map(flattened, NODES), key=lambda one: one["id"])
    assert [one for one in bare if not is_device(one)] == host
    gemm = by_name(found)["gemm"]
    assert (gemm["parent"], gemm["tid"], gemm["input_types"]) == (21, 7, ["Tensor(float)", "Int"])
    assert not {"ctrl_deps", "op_schema", "rf_id", "inclusive_dur"} & gemm.keys()


def test_a_nested_one_has_what_chakra_reads_too(made: LinkedTrace, tmp_path: Path) -> None:
    found = exported(made, tmp_path)
    write_et_plus(made, tmp_path / "chakra.json")
    chakra = load_et_plus(tmp_path / "chakra.json")
    for ours, theirs in zip(found["nodes"], chakra["nodes"], strict=True):
        assert {key: ours[key] for key in theirs} == theirs
    assert {one["parent"] == one["ctrl_deps"] for one in found["nodes"] if is_device(one)} == {True}
    read_as_converter(found)


def test_device_nodes_are_their_events(made: LinkedTrace, tmp_path: Path) -> None:
    found = by_name(exported(made, tmp_path))
    for event in EVENTS[-3:]:
        assert {key: found[event["name"]][key] for key in event} == event
    assert (found["lost"]["parent"], found["lost"]["orphan"]) == (1, "no-call")
    assert {name: one["pg_name"] for name, one in found.items() if "pg_name" in one} == {"nccl": "pg3"}


def test_lanes_that_are_text_stay_text(tmp_path: Path) -> None:
    odd = {**kernel("odd", 1, 2, 99), "pid": "Spans", "tid": "PyTorch Profiler"}
    found = by_name(exported(linked_of([*EVENTS, odd], NODES), tmp_path))
    assert (found["odd"]["pid"], found["odd"]["tid"]) == ("Spans", "PyTorch Profiler")


@pytest.mark.full
def test_another_hash_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    et = write(tmp_path / "torch_et_0.json", et_text(NODES))
    code = (
        "import sys; from tracebraid import link; from tracebraid.exporters.et_plus import write_trace_link_et; "
        "write_trace_link_et(link(*sys.argv[1:3]), sys.argv[3])"
    )
    own, other = tmp_path / "own.json.gz", tmp_path / "other.json.gz"
    write_trace_link_et(link(et, kineto), own)
    command = [sys.executable, "-c", code, str(et), str(kineto), str(other)]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    assert own.read_bytes() == other.read_bytes()


def test_without_an_execution_trace_there_is_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="rank 0 has no Execution Trace"):
        write_trace_link_et(linked_of(EVENTS), tmp_path / "et_plus.json")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_error(made: LinkedTrace, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="its folder does not exist"):
        write_trace_link_et(made, tmp_path / "no" / "et.json")


def test_what_is_written_links_again(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    write_trace_link_et(link(write(tmp_path / "et_0.json", et_text(NODES)), kineto), tmp_path / "plus.json")
    again = link(tmp_path / "plus.json", kineto)
    assert again.coverage.host_ops.linked == 3


def nodes_of(events: list[Json], nodes: list[Json], folder: Path) -> dict[str, Json]:
    """The nodes of the ET+ file by name."""
    write_et_plus(linked_of(events, nodes), folder / "et_plus.json")
    return {one["name"]: one for one in json.loads((folder / "et_plus.json").read_text())["nodes"]}


def linked_op(
    name: str, ts: float, dur: float, rf_id: int, tid: int = 1, cat: str = "cpu_op", **args: int
) -> Json:
    return op(name, ts, dur, tid, cat, Record_function_id=rf_id, **args)


TURNS = [
    linked_op("forward", 0, 500, 51, Sequence_number=3),
    linked_op("loss", 500, 100, 52),
    linked_op("MmBackward0", 700, 300, 53, tid=2, Sequence_number=3, Fwd_thread_id=1),
    linked_op("Accumulate", 1000, 500, 54, tid=2),
    linked_op("step", 1600, 200, 55),
]

TURN_NODES = et_of(
    node(20, "forward", 1001, rf_id=51),
    node(21, "loss", 1001, rf_id=52),
    node(22, "MmBackward0", 1002, rf_id=53, tid=2),
    node(23, "Accumulate", 1002, rf_id=54, tid=2),
    node(24, "step", 1001, rf_id=55),
    threads=2,
)


def test_a_hand_over_is_carried_by_the_first_node_of_the_turn(tmp_path: Path) -> None:
    found = nodes_of(TURNS, TURN_NODES, tmp_path)
    assert {name: one["inter_thread_dep"] for name, one in found.items() if "inter_thread_dep" in one} == {
        "MmBackward0": 21,
        "step": 23,
    }
    assert [name for name, one in found.items() if "sync_dep" in one] == []


def test_an_end_that_waits_is_carried_by_the_node_that_comes_next(tmp_path: Path) -> None:
    around = op("## backward ##", 610, 920, cat="user_annotation", Record_function_id=56)
    nodes = et_of(
        *TURN_NODES[2:-2],
        node(24, "## backward ##", 1001, rf_id=56),
        node(25, "step", 1001, rf_id=55),
        threads=2,
    )
    found = nodes_of([*TURNS, around], nodes, tmp_path)
    assert (found["MmBackward0"]["inter_thread_dep"], found["step"]["inter_thread_dep"]) == (24, 23)


SYNC = [
    linked_op("mm", 0, 10, 51),
    call("cudaLaunchKernel", 2, 5, 1),
    linked_op("item", 12, 60, 52),
    call("cudaStreamSynchronize", 14, 50, 2),
    kernel("gemm", 20, 40, 1),
    linked_op("next", 80, 10, 53),
]

SYNC_NODES = et_of(
    node(20, "mm", 1001, rf_id=51), node(21, "item", 1001, rf_id=52), node(22, "next", 1001, rf_id=53)
)


def test_the_node_after_a_blocking_call_waits_for_the_device(tmp_path: Path) -> None:
    """Chakra's converter reads `sync_dep` and encodes none of it: the free place is used as well."""
    found = nodes_of(SYNC, SYNC_NODES, tmp_path)
    gemm = found["gemm"]["id"]
    assert (found["next"]["sync_dep"], found["next"]["inter_thread_dep"]) == ([gemm], gemm)
    assert "sync_dep" not in found["item"]
    assert "sync_dep" not in found["mm"]


def test_a_hand_over_keeps_its_place_before_a_synchronisation(tmp_path: Path) -> None:
    events = [*TURNS, call("cudaLaunchKernel", 10, 5, 1), kernel("gemm", 20, 1500, 1)]
    events += [call("cudaDeviceSynchronize", 1510, 80, 2)]
    found = nodes_of(events, TURN_NODES, tmp_path)
    assert (found["step"]["inter_thread_dep"], found["step"]["sync_dep"]) == (23, [found["gemm"]["id"]])


def test_a_dependency_that_closed_a_cycle_moves_to_the_first_node_where_it_does_not(tmp_path: Path) -> None:
    """Device work of an op comes after all that is inside that op, and so does what waits for it."""
    outer = linked_op("outer", 0, 200, 54, cat="user_annotation")
    nodes = et_of(
        node(19, "outer", 1001, rf_id=54),
        node(21, "item", 19, rf_id=52),
        node(22, "next", 19, rf_id=53),
        node(23, "behind", 1001, rf_id=55),
    )
    events = [outer, *SYNC[1:], linked_op("behind", 210, 10, 55)]
    found = nodes_of(events, nodes, tmp_path)
    assert found["gemm"]["ctrl_deps"] == 19
    assert {name for name, one in found.items() if "sync_dep" in one} == {"behind"}


def test_what_nothing_linked_follows_is_left_out(tmp_path: Path) -> None:
    found = nodes_of(SYNC[:-1], SYNC_NODES, tmp_path)
    assert [name for name, one in found.items() if "sync_dep" in one] == []


def test_device_work_that_waits_for_an_event_says_for_what(tmp_path: Path) -> None:
    found = nodes_of([*WAIT, sync("Stream Wait Event", 12, 1, 5, **WAITS)], et_of(), tmp_path)
    assert found["waiting"]["sync_dep"] == [found["last"]["id"]]
    assert "inter_thread_dep" not in found["waiting"]
