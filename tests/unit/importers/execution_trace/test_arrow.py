"""Execution Traces in columns: read, found in folders, and refused where they are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, op, write
from tests.et_archives import SCHEMA, archive, arrow, members
from tracebraid.errors import InputError, NotATraceError
from tracebraid.model.et_arrow import RECORDED_TABLES


def test_it_is_read(tmp_path: Path) -> None:
    et = tracebraid.read_execution_trace(archive(tmp_path, members()))
    assert (et.schema, et.rank, et.header["pid"], et.findings) == (SCHEMA, 3, 5, ())
    assert et.op_nodes.get_column("name").to_list() == ["aten::add", "record_param_comms"]
    assert et.nodes.get_column("parent_id").to_list() == [None, 1, 2, 2]
    assert et.collectives.select("pg_name", "pg_size", "dtype").rows() == [("0", 2, None)]
    assert et.extra_attrs.select("key", "value").rows() == [("dtype", "5"), ("other", '"x"')]


def test_a_folder_pairs_it_with_its_kineto_trace(tmp_path: Path) -> None:
    archive(tmp_path, members())
    write(tmp_path / "kineto_trace_3.json", kineto_text([op("aten::add", 1, 2, Record_function_id=1)]))
    job = tracebraid.open(tmp_path)
    assert job[3].host_links.get_column("node_id").to_list() == [4]
    assert tracebraid.info(tmp_path / "torch_et_3.arrow.zip").schema == SCHEMA


def test_one_of_a_schema_that_is_not_known_is_read_and_says_so(tmp_path: Path) -> None:
    et = tracebraid.read_execution_trace(archive(tmp_path, members(header=b'{"schema": "9"}')))
    assert [one.code for one in et.findings] == ["schema-unknown"]
    assert et.nodes.height == 4


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


def test_an_attribute_that_is_no_json_is_refused(tmp_path: Path) -> None:
    attrs = next(table for table in RECORDED_TABLES if table.name == "attrs")
    row = {"node_id": 8, "key": "pg_name", "type": "string", "value": "{"}
    damaged = arrow(pl.DataFrame([row], schema=attrs.polars_schema()))
    with pytest.raises(NotATraceError, match="it is damaged"):
        tracebraid.read_execution_trace(archive(tmp_path, members(attrs=damaged)))
