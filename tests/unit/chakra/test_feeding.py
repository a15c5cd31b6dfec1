"""`Feeder`: nodes in turn, each when all that it waits for is done."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracebraid import Feeder
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.errors import ArgumentError, InputError, NotATraceError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.schema.chakra import CHAKRA_NODES


def file_of(folder: Path, ids: list[int], data: dict[int, list[int]], ctrl: dict[int, list[int]]) -> Path:
    """An `.et` file of nodes with these ids, and what each waits for by its id."""
    frame = pl.DataFrame({"node_id": ids, "name": [f"node {node}" for node in ids], "type": "COMP_NODE"})
    frame = frame.with_columns(duration_micros=pl.lit(5))
    path = folder / "a.0.et"
    rank = ChakraRank(
        0, "0.0.4", (), CHAKRA_NODES.conform(frame, fill_missing=True), _deps(ids, data), _deps(ids, ctrl)
    )
    write_rank(path, rank, overwrite=True)
    return path


def _deps(ids: list[int], named: dict[int, list[int]]) -> NodeDeps:
    lists = [named.get(node, []) for node in ids]
    first = np.concatenate([[0], np.cumsum([len(entry) for entry in lists])])
    return NodeDeps(
        first.astype(np.int64), np.array([node for entry in lists for node in entry], dtype=np.int64)
    )


def test_nodes_come_when_all_that_they_wait_for_is_done(tmp_path: Path) -> None:
    path = file_of(tmp_path, [30, 10, 20, 40], {40: [30, 10]}, {20: [10]})
    feeder = Feeder(path)
    assert (len(feeder), feeder.ready(), feeder.version) == (4, 2, "0.0.4")
    first, second = feeder.take(), feeder.take()
    assert [first["node_id"], second["node_id"], feeder.ready()] == [30, 10, 0]
    assert (first["name"], first["type"], first["duration_micros"]) == ("node 30", "COMP_NODE", 5)
    feeder.finish(30)
    assert feeder.ready() == 0, "node 40 waits for node 10, too"
    feeder.put_back(10)
    assert feeder.take()["node_id"] == 10
    feeder.finish(10)
    third = feeder.take()
    assert (third["node_id"], third["ctrl_deps"]) == (20, [10])
    assert feeder.take()["data_deps"] == [30, 10]
    for node in (20, 40):
        feeder.finish(node)
    assert (len(feeder), feeder.ready()) == (0, 0)


def test_control_dependencies_are_left_out_where_asked_for(tmp_path: Path) -> None:
    path = file_of(tmp_path, [1, 2], {}, {1: [2]})
    assert [node["node_id"] for node in Feeder(path)] == [2, 1]
    assert [node["node_id"] for node in Feeder(path, ctrl_deps=False)] == [1, 2]


def test_all_nodes_of_many_blocks_come_once_in_an_order_that_holds(tmp_path: Path) -> None:
    count = 5000
    ids = list(range(count))
    data = {node: [(node * 7919) % node, node // 2] for node in ids if node}
    feeder = Feeder(file_of(tmp_path, ids, data, {}))
    done: set[int] = set()
    for node in feeder:
        assert done.issuperset(node["data_deps"])
        done.add(node["node_id"])
    assert len(done) == count


def test_a_step_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    feeder = Feeder(file_of(tmp_path, [1, 2], {2: [1]}, {}))
    with pytest.raises(ArgumentError, match="node 1 "):
        feeder.finish(1)
    with pytest.raises(ArgumentError, match="node 9 "):
        feeder.put_back(9)
    assert feeder.take()["node_id"] == 1
    with pytest.raises(ArgumentError, match="1 are taken"):
        feeder.take()


@pytest.mark.parametrize(
    ("ids", "data", "named"),
    [
        ([1, 2, 3], {2: [99]}, "node 2 .* 99"),
        ([1, 2, 3], {1: [3], 3: [2], 2: [1]}, "circle: [123], [123], [123]$"),
        ([1, 2, 3], {2: [2]}, "themselves: 2"),
        ([1, 2, 2], {}, "one id: 2"),
    ],
)
def test_nodes_that_could_never_run_are_refused_by_name(
    tmp_path: Path, ids: list[int], data: dict[int, list[int]], named: str
) -> None:
    with pytest.raises(InputError) as caught:
        Feeder(file_of(tmp_path, ids, data, {}))
    assert re.search(named, caught.value.problem), caught.value.problem
    assert caught.value.where.startswith("byte ")


def test_files_that_cannot_be_fed_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, [1, 2], {}, {})
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match="cut off"):
        Feeder(path)
    path.write_bytes(content + b"\x02\x0f\x0f")
    with pytest.raises(InputError, match="no node"):
        Feeder(path)
    path.write_bytes(b"{}")
    with pytest.raises(NotATraceError):
        Feeder(path)
