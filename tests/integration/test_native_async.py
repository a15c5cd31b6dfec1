"""Collectives that another thread ends, while the one that began them goes on."""

from __future__ import annotations

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
)
from tests.integration.running import run_script

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


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


@pytest.mark.parametrize("rank", [0, 1])
def test_but_for_parents_and_gloos_threads_both_recorders_agree(folder: Path, rank: int) -> None:
    # Gloo's functions are made on the thread that asks for them, and run on another one.
    differ = differences(nodes_of(folder / f"theirs_{rank}.json"), nodes_of(folder / f"ours_{rank}.json"))
    differ = [one for one in differ if not one.startswith("gloo:")]
    assert {one.split(":")[-2] for one in differ} == {" parent"}


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
