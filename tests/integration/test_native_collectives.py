"""Collectives that another thread ends, while the one that began them goes on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.native import (
    Json,
    assert_whole,
    differences,
    nodes_of,
    ops_of,
    parent_of,
    problems,
    record,
    record_both,
    the,
)
from tests.integration.native_columns import assert_same_trace, record_in_both_forms
from tests.integration.running import run_script

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.full, pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What both recorders wrote about two ranks."""
    place = tmp_path_factory.mktemp("gloo")
    done = run_script("native_gloo.py", place, place / "store")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-1000:]
    return place


UNDER = {
    "meanwhile": ("reduce",),
    "aten::mul": ("meanwhile",),
    "aten::sum": ("meanwhile", "aten::sum"),
    "c10d::": ("reduce", "thread]"),
    "reduce": ("thread]",),
    "gloo:": ("thread]",),
}
"""How names begin, and how those of the nodes around them do."""
GROUP_ATTRIBUTES = (
    "attr pg_name",
    "attr pg_desc",
    "attr pg_size",
    "attr pg_backend",
    "attr global_rank_start",
    "attr global_rank_stride",
)
"""What our recorder writes about the process group that an operator takes."""


def wrong_parents(nodes: list[Json]) -> list[str]:
    """Nodes that hang under something that they were not called from."""
    by_id = {node["id"]: node for node in nodes}
    found = []
    for node in ops_of(nodes):
        above = by_id.get(node["ctrl_deps"], {"name": "nothing"})["name"].split("|")[-1]
        starts = [start for start in UNDER if node["name"].startswith(start)]
        if above.startswith("gloo:") or (starts and not above.startswith(UNDER[starts[0]])):
            found.append(f"{node['name']} under {above}")
    return found


@pytest.mark.parametrize("rank", [0, 1])
def test_no_node_hangs_under_a_collective_that_it_is_not_part_of(folder: Path, rank: int) -> None:
    nodes = assert_whole(folder / f"ours_{rank}.json")
    assert wrong_parents(nodes)[:5] == []
    assert sum(node["name"].startswith("meanwhile") for node in nodes) == 1000
    assert sum(node["name"] == "c10d::allreduce_" for node in nodes) == 40
    assert sum(node["name"] == "gloo:all_reduce" for node in nodes) == 40
    assert [node["name"] for node in nodes if "tracebraid_end" in node["at"]] == []


def test_pytorchs_recorder_gets_some_wrong(folder: Path) -> None:
    wrong = []
    for rank in range(2):
        nodes = nodes_of(folder / f"theirs_{rank}.json")
        wrong += problems(nodes) + wrong_parents(nodes)
    assert wrong


@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize("rank", [0, 1])
def test_but_for_parents_and_gloos_threads_both_recorders_agree(folder: Path, rank: int) -> None:
    # Gloo's functions are made on the thread that asks for them, and run on another one. Ours says of which group.
    differ = differences(nodes_of(folder / f"theirs_{rank}.json"), nodes_of(folder / f"ours_{rank}.json"))
    differ = [one for one in differ if not one.startswith("gloo:")]
    assert {one.split(":")[-2].strip() for one in differ} == {"parent", *GROUP_ATTRIBUTES}


def test_futures_of_torchscript_end_in_their_own_order(tmp_path: Path) -> None:
    def work() -> None:
        with torch.profiler.record_function("around") as note:
            future = torch.futures.Future()
            note._call_end_callbacks_on_future(future)
            torch.ones(2)
        torch.zeros(2)
        future.set_result(1)
        torch.randn(2)

    nodes = record(tmp_path / "et.json", work)
    assert_whole(tmp_path / "et.json")
    (ones,) = [node for node in nodes if node["name"] == "aten::ones"]
    assert parent_of(nodes, ones)["name"] == "around"


# --- What collectives say of themselves, told by a program as NCCL's process group does --------------


Collective = Callable[[bytes], None]


@pytest.fixture(scope="module")
def all_to_all(tmp_path_factory: pytest.TempPathFactory) -> Collective:
    """Runs a collective in a group of that description."""
    from torch.utils import cpp_extension

    built = cpp_extension.load(
        "param_comms",
        [str(Path(__file__).parent / "scripts" / "param_comms.cpp")],
        extra_cflags=["-O0", "-DNDEBUG"],
        build_directory=str(tmp_path_factory.mktemp("built")),
        is_python_module=False,
    )
    function = ctypes.CDLL(built).all_to_all
    function.argtypes = [ctypes.c_char_p]
    return function


@pytest.mark.since_torch("2.8")
def test_all_that_a_collective_says_is_there(tmp_path: Path, all_to_all: Collective) -> None:
    theirs, ours = record_both(tmp_path, lambda: all_to_all(b"default_pg"))
    assert differences(theirs, ours) == []
    said = the(assert_whole(tmp_path / "ours.json"), "record_param_comms")["at"]
    said.pop("is_asynchronized_op", None)  # torch 2.8 does not say it
    assert {key: said[key] for key in list(said)[10:]} == {
        "collective_name": "all_to_all",
        "dtype": "Float",
        "in_msg_nelems": 8,
        "out_msg_nelems": 8,
        "in_split_size": "[3, 5]",
        "out_split_size": str([1] * 40),
        "global_rank_start": 4,
        "global_rank_stride": 2,
        "pg_name": "3",
        "pg_desc": "default_pg",
        "pg_size": 16,
    }


@pytest.mark.since_torch("2.8")
def test_columns_hold_it_too(tmp_path: Path, all_to_all: Collective) -> None:
    in_json, in_columns = record_in_both_forms(tmp_path, lambda: all_to_all(b'a "group"'))
    assert_same_trace(in_json, in_columns)
    assert in_columns.collectives.get_column("pg_desc").to_list() == ['a "group"']


@pytest.mark.since_torch("2.8")
def test_quotes_in_the_description_of_a_group(tmp_path: Path, all_to_all: Collective) -> None:
    nodes = record(tmp_path / "ours.json", lambda: all_to_all(b'a "\\\t\xff'))
    assert the(nodes, "record_param_comms")["at"]["pg_desc"] == 'a "\\\t\ufffd'


def test_a_collective_without_details_has_a_node(tmp_path: Path) -> None:
    def work() -> None:
        with torch.profiler.record_function("record_param_comms"):
            torch.ones(2)

    record(tmp_path / "et.json", work)
    assert "collective_name" not in the(nodes_of(tmp_path / "et.json"), "record_param_comms")["at"]
