"""`inter_thread_dep` and `sync_dep` of ET+ nodes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.builders import Json, call, kernel, node, op
from tests.unit.linking.dependencies.test_dependencies import WAIT, WAITS, sync
from tests.unit.linking.made import et_of, linked_of
from tracebraid.api import write_et_plus


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
