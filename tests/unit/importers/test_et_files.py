"""Is an Execution Trace file read as a whole: header, rank, process groups, repeated ids?"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import tracebraid
import tracebraid.importers.execution_trace.reader as module
from tests.builders import et_text, kineto_text, node, op, process_node, tensor, thread_node, write
from tests.et_archives import SCHEMA, archive, arrow, members
from tests.unit.importers.reading import codes, rows, trace_of
from tracebraid.errors import InputError, NotATraceError, WrongTraceError
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.frames import findings_of, groups_of_kineto, groups_of_text, process_groups
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.finding import Issue
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.op_schema import RECORDED_TABLES
from tracebraid.model.schema import PROCESS_GROUPS

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
    with pytest.raises(NotATraceError, match="no readable node"):
        read_execution_trace(path)


# --- Execution Traces in columns: read, found in folders, and refused where they are none ------------


@pytest.mark.slow
def test_it_is_read(tmp_path: Path) -> None:
    et = tracebraid.read_execution_trace(archive(tmp_path, members()))
    assert (et.schema, et.rank, et.header["pid"], et.findings) == (SCHEMA, 3, 5, ())
    assert et.op_nodes.get_column("name").to_list() == ["aten::add", "record_param_comms"]
    assert et.nodes.get_column("parent_id").to_list() == [None, 1, 2, 2]
    assert et.collectives.select("pg_name", "pg_size", "dtype").rows() == [("0", 2, None)]
    assert et.extra_attrs.select("key", "value").rows() == [("dtype", "5"), ("other", '"x"')]


@pytest.mark.full
@pytest.mark.slow
def test_a_folder_pairs_it_with_its_kineto_trace(tmp_path: Path) -> None:
    archive(tmp_path, members())
    write(tmp_path / "kineto_trace_3.json", kineto_text([op("aten::add", 1, 2, Record_function_id=1)]))
    job = tracebraid.open(tmp_path)
    assert job[3].host_links.get_column("node_id").to_list() == [4]
    assert tracebraid.info(tmp_path / "torch_et_3.arrow.zip").schema == SCHEMA


@pytest.mark.full
@pytest.mark.slow
def test_one_of_a_schema_that_is_not_known_is_read_and_says_so(tmp_path: Path) -> None:
    et = tracebraid.read_execution_trace(archive(tmp_path, members(header=b'{"schema": "9"}')))
    assert [one.code for one in et.findings] == ["schema-unknown"]
    assert et.nodes.height == 4


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"nodes": None}, "it is no Execution Trace in columns"),
        ({"header": None}, "it is no Execution Trace in columns"),
        ({"header": b"{"}, "it is damaged"),
        ({"header": b"[]"}, "it is damaged"),
        ({"nodes": b"nothing"}, "nodes.arrow in it is no Arrow file"),
        (
            {"nodes": arrow(pl.DataFrame({"node_id": [1]}))},
            "nodes.arrow in it has other columns than expected",
        ),
        (
            {
                "attrs": arrow(
                    pl.DataFrame({"node_id": [1], "key": ["pg_name"], "type": [""], "value": [1.5]})
                )
            },
            "attrs.arrow in it has other columns than expected",
        ),
    ],
)
def test_an_archive_of_something_else_is_refused(tmp_path: Path, others: Any, said: str) -> None:
    with pytest.raises(NotATraceError, match=said):
        tracebraid.read_execution_trace(archive(tmp_path, members(**others)))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04", b"\x1f\x8b"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "et.arrow.zip"
    path.write_bytes(content)
    with pytest.raises(NotATraceError, match="it is damaged"):
        tracebraid.read_execution_trace(path)


def test_what_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        tracebraid.read_execution_trace(tmp_path / "et.arrow.zip")
    (tmp_path / "folder.arrow.zip").mkdir()
    with pytest.raises(InputError, match="this is a folder"):
        tracebraid.read_execution_trace(tmp_path / "folder.arrow.zip")


@pytest.mark.full
@pytest.mark.slow
def test_one_cut_or_changed_anywhere_is_refused_or_read_whole(tmp_path: Path) -> None:
    path = archive(tmp_path, members())
    whole = path.read_bytes()
    for place in range(0, len(whole), 17):
        changed = whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
        for content in (whole[:place], changed):
            path.write_bytes(content)
            try:
                assert tracebraid.read_execution_trace(path).nodes.height == 4
            except InputError:
                continue


@pytest.mark.full
@pytest.mark.slow
def test_an_attribute_that_is_no_json_is_refused(tmp_path: Path) -> None:
    attrs = next(table for table in RECORDED_TABLES if table.name == "attrs")
    row = {"node_id": 8, "key": "pg_name", "type": "string", "value": "{"}
    damaged = arrow(pl.DataFrame([row], schema=attrs.polars_schema()))
    with pytest.raises(NotATraceError, match="it is damaged"):
        tracebraid.read_execution_trace(archive(tmp_path, members(attrs=damaged)))


# --- Which process groups do the two traces tell -----------------------------------------------------


GROUP = {
    "pg_name": "0",
    "pg_desc": "default_pg",
    "backend_config": "cuda:nccl",
    "ranks": [0, 1],
    "pg_size": 2,
}
ROW = ("0", "default_pg", "cuda:nccl", [0, 1], 2)


def test_the_groups_of_a_kineto_header_are_rows() -> None:
    groups = [GROUP, {**GROUP, "pg_name": "1"}]
    table = groups_of_kineto({"distributedInfo": {"rank": 0, "pg_config": groups}})
    assert table.rows() == [ROW, ("1", *ROW[1:])]


@pytest.mark.parametrize(
    "info", [None, [], "x", {}, {"pg_config": None}, {"pg_config": {}}, {"pg_config": [1]}]
)
def test_a_header_without_groups_gives_an_empty_table(info: object) -> None:
    table = groups_of_kineto({"distributedInfo": info})
    assert table.is_empty()
    assert dict(table.schema) == PROCESS_GROUPS.polars_schema()


def test_ranks_may_be_text() -> None:
    assert process_groups([{**GROUP, "ranks": "[0, 3]"}]).get_column("ranks").to_list() == [[0, 3]]


def test_the_init_node_of_an_execution_trace_names_its_size_otherwise() -> None:
    text = json.dumps([{"pg_name": "0", "pg_desc": "d", "ranks": [], "group_size": 2, "group_count": 1}])
    assert groups_of_text(text).rows() == [("0", "d", None, [], 2)]
    assert groups_of_text(json.dumps(text)).rows() == [("0", "d", None, [], 2)]


@pytest.mark.parametrize(
    "text", ["", "[", "5", "{}", '"x"', '"[]"', "null", '[{"a"', "[" * 100_000], ids=range(9)
)
def test_text_that_lists_no_groups_gives_an_empty_table(text: str) -> None:
    assert groups_of_text(text).is_empty()


@pytest.mark.parametrize(
    "odd",
    [
        {"ranks": [2**70]},
        {"ranks": [0, 2**70]},
        {"ranks": [0, "x", 1.5, None]},
        {"ranks": {"a": 1}},
        {"ranks": "[0, 1, ...]"},
        {"pg_size": 2**70},
        {"pg_size": "2"},
        {"pg_size": [2]},
        {"pg_name": 7},
        {"pg_name": ["7", "x"]},
        {"pg_name": None},
        {"backend_config": {"cpu": "gloo"}},
    ],
)
def test_odd_members_of_a_group_cost_no_group(odd: dict[str, Any]) -> None:
    for groups, good in (([{**GROUP, **odd}, GROUP], 1), ([GROUP, {**GROUP, **odd}], 0)):
        table = process_groups(groups)
        assert table.height == 2
        assert table.row(good) == ROW
        assert dict(table.schema) == PROCESS_GROUPS.polars_schema()


def test_ranks_that_were_cut_short_are_not_all_ranks() -> None:
    """No ranks means: all of them."""
    ranks = process_groups([{**GROUP, "ranks": "[2, 3, ...]"}]).get_column("ranks").to_list()
    assert ranks != [[]]


# --- Are issues gathered to one finding for each kind, with its first places -------------------------


BROKEN, ODD = FindingCode.EVENT_UNREADABLE, FindingCode.EVENT_DURATION


def file_of(folder: Path) -> ArrayFile:
    return open_array(open_source(write(folder / "t.json", kineto_text([]))))


def test_a_sound_file_has_no_findings(tmp_path: Path) -> None:
    assert findings_of(file_of(tmp_path), []) == []


def test_issues_of_a_kind_are_one_finding_with_the_first_places(tmp_path: Path) -> None:
    issues = [Issue.of(BROKEN, byte, error=f"at {byte}") for byte in (5000, 10, 7, 12000, 9)]
    issues.append(Issue(ODD, 3))
    found = findings_of(file_of(tmp_path), issues)
    assert [(f.code, f.details, f.where, f.count) for f in found] == [
        (BROKEN, {"error": "at 7"}, "bytes 7, 9, 10, ...", 5),
        (ODD, {}, "byte 3", 1),
    ]
    assert str(found[0]) == f"{tmp_path / 't.json'}, bytes 7, 9, 10, ...: {found[0].message} (5 times)"


def test_damage_of_the_file_itself_comes_first(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    file.source.damage.append(Issue.of(FindingCode.COMPRESSION_DAMAGED, 77, compression="gzip"))
    file.problems.append(Issue(FindingCode.TRUNCATED, 1234))
    found = findings_of(file, [Issue(ODD, 3)])
    assert [finding.code for finding in found] == ["compression-damaged", "truncated", ODD]
    assert [finding.where for finding in found[:2]] == ["byte 77", "byte 1,234"]
