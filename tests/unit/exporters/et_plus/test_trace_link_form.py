"""ET+ in the form of et_replay's trace_link."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, call, et_text, flattened, kernel, kineto_text, node, op, tensor, write
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tests.unit.linking.made import et_of, linked_of
from tracebraid.api import link, write_et_plus, write_trace_link_et
from tracebraid.errors import ArgumentError, OutputError
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


def exported(linked: LinkedTrace, folder: Path) -> Json:
    write_trace_link_et(linked, folder / "et_plus.json")
    return load_et_plus(folder / "et_plus.json")


def by_name(found: Json) -> dict[str, Json]:
    return {one["name"]: one for one in found["nodes"]}


def times(one: Json) -> tuple[Any, Any]:
    return one.get("ts"), one.get("dur")


@pytest.mark.parametrize("form", ["made", "flat"])
def test_linked_nodes_have_ts_and_dur_and_others_do_not(
    form: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    found = by_name(exported(request.getfixturevalue(form), tmp_path))
    assert [times(found[name]) for name in ("outer", "mm", "unlinked")] == [
        (100, 90),
        (110, 50),
        (None, None),
    ]


@pytest.mark.parametrize("form", ["made", "flat"])
def test_roots_span_what_is_linked_on_them(form: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = {one["id"]: times(one) for one in exported(request.getfixturevalue(form), tmp_path)["nodes"]}
    assert found[1] == (100, 210)
    assert [found[root] for root in (1001, 1002, 1003)] == [(100, 90), (300, 10), (None, None)]


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


@pytest.mark.parametrize("form", ["made", "flat"])
def test_the_peers_read_it(form: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = exported(request.getfixturevalue(form), tmp_path)
    read_as_replay(found)
    check_trace_link(found)


def test_device_nodes_are_their_events(made: LinkedTrace, tmp_path: Path) -> None:
    found = by_name(exported(made, tmp_path))
    for event in EVENTS[-3:]:
        mine = {key: found[event["name"]][key] for key in event}
        assert mine == event


def test_a_device_event_without_an_op_is_under_the_process_and_says_why(
    made: LinkedTrace, tmp_path: Path
) -> None:
    lost = by_name(exported(made, tmp_path))["lost"]
    assert lost["parent"] == 1
    assert lost["orphan"] == "no-call"


def test_collectives_name_their_process_group(made: LinkedTrace, tmp_path: Path) -> None:
    found = exported(made, tmp_path)["nodes"]
    assert {one["name"]: one["pg_name"] for one in found if "pg_name" in one} == {"nccl": "pg3"}


def test_lanes_that_are_text_stay_text(tmp_path: Path) -> None:
    odd = {**kernel("odd", 1, 2, 99), "pid": "Spans", "tid": "PyTorch Profiler"}
    found = by_name(exported(linked_of([*EVENTS, odd], NODES), tmp_path))
    assert (found["odd"]["pid"], found["odd"]["tid"]) == ("Spans", "PyTorch Profiler")


def test_another_hash_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    et = write(tmp_path / "torch_et_0.json", et_text(NODES))
    code = "import sys; from tracebraid import api; api.write_trace_link_et(api.link(*sys.argv[1:3]), sys.argv[3])"
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
    with pytest.raises(OutputError, match="its folder is not there"):
        write_trace_link_et(made, tmp_path / "no" / "et.json")


def test_what_is_written_links_again(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    write_trace_link_et(link(write(tmp_path / "et_0.json", et_text(NODES)), kineto), tmp_path / "plus.json")
    again = link(tmp_path / "plus.json", kineto)
    assert again.coverage.host_ops.linked == 3
