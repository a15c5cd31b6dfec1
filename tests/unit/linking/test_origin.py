"""Two traces of different processes: found by what they say of these, and not linked by ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, et_text, kineto_text, node, op, write
from tests.unit.linking.made import et_of
from tracebraid.api import link
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.reason import OrphanReason

BASE_S = 1_700_000_000
"""2023-11-14 22:13:20 UTC."""
OPS = [("op_a", 51), ("op_b", 52), ("op_c", 53)]


def kineto(pid: int = 1, tid: int = 1, late_s: int = 0, info: Json | None = None, **header: Any) -> str:
    events = [
        {**op(name, 1000 * n + late_s * 1e6, 900, tid=tid, Record_function_id=rf_id), "pid": pid}
        for n, (name, rf_id) in enumerate(OPS)
    ]
    told = {"rank": 0, "world_size": 2, **(info or {})}
    return kineto_text(events, {"baseTimeNanoseconds": BASE_S * 10**9, "distributedInfo": told, **header})


def et(
    pid: int = 1,
    time: str = "2023-11-14 22:13:20",
    length_ms: int = 100,
    groups: list[Json] | None = None,
    comms: list[Any] | None = None,
) -> str:
    nodes = [node(20 + n, name, 1001, rf_id=rf_id) for n, (name, rf_id) in enumerate(OPS)]
    if groups is not None:
        nodes.append(
            node(30, "## process_group:init ##", 1001, [("String", json.dumps(groups), [])], rf_id=40)
        )
    if comms is not None:
        nodes.append(node(31, "record_param_comms", 1001, [("Int", value, []) for value in comms], rf_id=54))
    text = et_text(et_of(*nodes))
    for old, new in (
        ('"pid": 1', f'"pid": {pid}'),
        ("2023-11-14 22:13:20", time),
        ('"finish_ts": 200', f'"finish_ts": {100 + length_ms}'),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def linked_texts(folder: Path, et_file: str, kineto_file: str, matching: str = "exact") -> LinkedTrace:
    pair = write(folder / "torch_et_0.json", et_file), write(folder / "kineto_trace_0.json", kineto_file)
    return link(*pair, processes=1, matching=matching)


def origin(linked: LinkedTrace) -> list[str]:
    return [one.code for one in linked.findings if one.code.startswith("another")]


SAME = {
    "all the same": (et(), kineto()),
    "the zone of New York": (et(time="2023-11-14 17:13:20"), kineto()),
    "the zone of Nepal": (et(time="2023-11-15 03:58:20"), kineto()),
    "a Kineto trace late in a long Execution Trace": (et(length_ms=400_000), kineto(late_s=390)),
    "the main thread of a forked process whose number Kineto has not renewed": (et(pid=9), kineto(7, 9)),
    "a process with a made-up number": (et(pid=9), kineto(pid=1 << 40)),
    "times that are not on the unix clock": (
        et(time="2024-06-01 03:04:05"),
        kineto(baseTimeNanoseconds=0),
    ),
    "a time that is none": (et(time="yesterday"), kineto()),
    "an Execution Trace without an end": (et(time="2024-06-01 03:04:05", length_ms=-100), kineto()),
    "a group that holds the rank": (
        et(groups=[{"pg_name": "7", "pg_desc": "tp", "ranks": [0, 1], "group_size": 2}]),
        kineto(),
    ),
    "the rank of a root": (et(comms=[[], 1, ["0", "default_pg"], 1, "broadcast"]), kineto()),
    "the rank within another group": (et(comms=[[], 1, ["7", "tp"], 1, "allreduce"]), kineto()),
}

OTHER = {
    "another process of a world of two": (et(pid=9), kineto(), "another-rank"),
    "another process of a world of one": (et(pid=9), kineto(info={"world_size": 1}), "another-run"),
    "another process at another time": (et(pid=9, time="2023-11-14 22:20:20"), kineto(), "another-run"),
    "the same number in another container, minutes later": (
        et(time="2023-11-14 22:20:20"),
        kineto(),
        "another-run",
    ),
    "the same number and minute, days later": (et(time="2023-11-20 22:13:20"), kineto(), "another-run"),
    "a world of another size": (
        et(groups=[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4}]),
        kineto(),
        "another-run",
    ),
    "a group that does not hold the rank": (
        et(groups=[{"pg_name": "7", "pg_desc": "tp", "ranks": [2, 3], "group_size": 2}]),
        kineto(),
        "another-rank",
    ),
    "the rank of a collective": (
        et(comms=[[], 1, ["0", "default_pg"], 1, "allreduce"]),
        kineto(),
        "another-rank",
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_what_one_process_may_have_written_links_by_ids(tmp_path: Path, what: str) -> None:
    linked = linked_texts(tmp_path, *SAME[what])
    assert origin(linked) == []
    assert linked.coverage.host_ops.by_method == {"record_function_id": 3}


@pytest.mark.parametrize("what", OTHER)
def test_what_one_process_cannot_have_written_links_by_no_id(tmp_path: Path, what: str) -> None:
    et_file, kineto_file, code = OTHER[what]
    linked = linked_texts(tmp_path, et_file, kineto_file)
    assert origin(linked) == [code]
    assert linked.coverage.host_ops.linked == 0
    assert set(linked.host_links.get_column("reason").cast(str)) == {OrphanReason.ANOTHER_RUN.value}


@pytest.mark.parametrize("what", OTHER)
def test_it_links_by_alignment_and_says_so(tmp_path: Path, what: str) -> None:
    et_file, kineto_file, code = OTHER[what]
    linked = linked_texts(tmp_path, et_file, kineto_file, "auto")
    assert origin(linked) == [code]
    assert linked.coverage.host_ops.by_method == {"alignment": 3}
    assert linked.host_links.select(pl.col("confidence").max()).item() < 1.0
    assert linked.matched is not None


def test_devices_that_are_not_those_of_the_tensors_are_of_another_rank(tmp_path: Path) -> None:
    from tests.builders import call, kernel, tensor

    def pair(device: int) -> LinkedTrace:
        nodes = et_of(node(20, "mm", 1001, [tensor(3, 4, [2], device="cuda:1")], rf_id=51))
        work = kernel("k", 20, 5, 7)
        work["args"]["device"] = device
        events = [op("mm", 0, 10, Record_function_id=51), call("launch", 1, 2, 7), work]
        header = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
        return linked_texts(tmp_path, et_text(nodes), kineto_text(events, header))

    assert origin(pair(1)) == []
    assert origin(pair(0)) == ["another-rank"]


def with_ids(names: list[str], first: int) -> tuple[str, str]:
    """An Execution Trace of these ops, with ids from 51 on, and a Kineto trace of as many, with ids from another on."""
    nodes = et_of(*(node(20 + n, name, 1001, rf_id=51 + n) for n, name in enumerate(names)))
    ops = [op(f"op{n}", 100 * n, 50, Record_function_id=first + n) for n in range(len(names))]
    return et_text(nodes), kineto_text(ops)


def test_ids_that_stand_for_other_names_are_of_another_run(tmp_path: Path) -> None:
    """The same process ids and times, as in containers: what is left are names."""
    moved = [*(f"op{n}" for n in range(3, 30)), "op0", "op1", "op2"]
    assert origin(linked_texts(tmp_path, *with_ids(moved, 51), "auto")) == ["another-run"]
    assert origin(linked_texts(tmp_path, *with_ids([f"op{n}" for n in range(30)], 51), "auto")) == []


def test_ids_of_which_none_is_in_both_are_of_another_window(tmp_path: Path) -> None:
    linked = linked_texts(tmp_path, *with_ids([f"op{n}" for n in range(30)], 951), "auto")
    assert origin(linked) == ["another-window"]
    assert linked.coverage.host_ops.by_method == {"alignment": 30}
