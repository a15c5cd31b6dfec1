"""Is an Execution Trace file read as a whole: header, rank, process groups, repeated ids?"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tracebraid.importers.execution_trace.reader as module
from tests.builders import et_text, kineto_text, node, op, process_node, tensor, thread_node, write
from tests.unit.importers.reading import codes, rows, trace_of
from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.importers.execution_trace.reader import read_execution_trace

NODES = [process_node(), thread_node(), node(3, "a", 2, [], [tensor(10, 100, [4])]), node(4, "b", 2)]
INIT = "## process_group:init ##"


def test_the_members_beside_the_nodes_are_the_header(tmp_path: Path) -> None:
    assert trace_of(tmp_path, []).header == {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 1,
        "time": "2023-11-14 22:13:20",
        "start_ts": 100,
        "finish_ts": 200,
    }


@pytest.mark.parametrize(("name", "rank"), [("torch_et_3.json", 3), ("trace.json", None)])
def test_the_rank_is_what_the_name_tells(tmp_path: Path, name: str, rank: int | None) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    trace = read_execution_trace(write(folder / name, et_text(NODES)))
    assert trace.rank == rank
    assert codes(trace.findings) == []


def test_gzip_and_standard_input_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = et_text(NODES)
    expected = read_execution_trace(write(tmp_path / "et.json", text))
    packed = read_execution_trace(write(tmp_path / "et.json.gz", text))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(gzip.compress(text.encode()))))
    piped = read_execution_trace("-")
    for other in (packed, piped):
        assert other.nodes.equals(expected.nodes)
        assert other.values.equals(expected.values)
        assert other.tensor_edges.equals(expected.tensor_edges)
    assert piped.path == "standard input"


def test_small_chunks_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [node(i, "n", 2, [tensor(i, i, [4])], [tensor(i + 1, i + 1, [4])], new=i) for i in range(3, 60)]
    path = write(tmp_path / "et.json", et_text([process_node(), thread_node(), *chain]))
    expected = read_execution_trace(path)
    assert expected.tensor_edges.height == len(chain) - 1
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1)
    pieced = read_execution_trace(path)
    for name in ("nodes", "values", "tensors", "tensor_uses", "tensor_edges", "extra_attrs"):
        assert getattr(pieced, name).equals(getattr(expected, name)), name


def test_process_groups_are_those_of_the_last_init_node(tmp_path: Path) -> None:
    first = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 2}]
    last = [*first, {"pg_name": "1", "pg_desc": "tp", "ranks": [1], "group_size": 1}]
    nodes = [
        node(i, INIT, 2, [("String", json.dumps(groups), [])], scope=7)
        for i, groups in ((3, first), (4, last))
    ]
    groups = trace_of(tmp_path, nodes).process_groups
    assert groups.select("pg_name", "ranks", "group_size").rows() == [("0", [], 2), ("1", [1], 1)]


@pytest.mark.parametrize("value", ["no json", 5, None, "[]", "[" * 5000])
def test_an_init_node_without_groups_gives_none(tmp_path: Path, value: object) -> None:
    trace = trace_of(tmp_path, [node(3, INIT, 2, [("String", value, [])])])
    assert trace.process_groups.is_empty()
    assert trace.nodes.height == 3


def test_of_nodes_with_one_id_only_the_first_is_in_any_table(tmp_path: Path) -> None:
    kept = node(3, "kept", 2, [("Int", 1, [])], [], collective_name="allreduce", new=1)
    dropped = node(
        3,
        "dropped",
        2,
        [("Int", 5, []), ("Int", 6, [])],
        [tensor(10, 100, [4])],
        pg_name="5",
        dtype="x",
        other=2,
    )
    trace = trace_of(tmp_path, [kept, dropped, node(4, "b", 2)])
    assert codes(trace.findings) == ["duplicate-id"]
    assert trace.values.select("node_id", "position", "value").rows() == [(3, 0, "1")]
    assert rows(trace.collectives) == [{"node_id": 3, "collective_name": "allreduce"}]
    assert trace.extra_attrs.select("node_id", "key").rows() == [(3, "new")]
    assert trace.tensor_uses.is_empty()


def test_a_kineto_trace_is_refused_as_such(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", kineto_text([op("a", 1, 2)]))
    with pytest.raises(WrongTraceError, match="this is a Kineto trace") as caught:
        read_execution_trace(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("nodes", ["[]", "[{}]", '[{"a": 1}]', "[5]", "[[]]"])
def test_a_file_without_a_node_is_refused(tmp_path: Path, nodes: str) -> None:
    path = write(tmp_path / "et.json", f'{{"schema": "1.1.1-chakra.0.0.4", "nodes": {nodes}}}')
    with pytest.raises(NotATraceError, match="no node"):
        read_execution_trace(path)
