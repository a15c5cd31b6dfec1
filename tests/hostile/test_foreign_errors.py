"""Do odd traces and files end in a trace, or in an error of ours?"""

from __future__ import annotations

import errno
import io
import json
import sqlite3
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
import tracebraid.importers.execution_trace.arrow as arrow_module
from tests.builders import et_text, kineto_text, node, op, process_node, thread_node, write
from tests.et_archives import archive, arrow, members
from tests.hostile.reading import refused
from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.paths import reading
from tracebraid.importers.execution_trace.arrow import survives_decoding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.op_schema import HEADER, RECORDED_TABLES

TABLES = {table.name: table for table in RECORDED_TABLES}


def error_of(read: Callable[[Path], object], path: Path) -> InputError | None:
    """The error of ours that reading ends in; None where it ends in a trace."""
    try:
        read(path)
    except InputError as error:
        return error
    return None


def pair(folder: Path, nodes: list[Any], events: list[Any]) -> tuple[Path, Path]:
    et = write(folder / "torch_et_0.json", et_text([process_node(), thread_node(), *nodes]))
    return et, write(folder / "kineto_trace_0.json", kineto_text(events))


@pytest.mark.parametrize("iteration", ["best", "median"])
def test_equal_annotations_that_start_together_are_matched(tmp_path: Path, iteration: Any) -> None:
    """Times are of whole microseconds, and of two annotations one is in the Execution Trace."""
    steps = [(f"ProfilerStep#{i}", 100 * i) for i in range(6)]
    events = [event for name, ts in steps for event in (op(name, ts, 90), op("a", ts + 10, 2))]
    events += [op("ProfilerStep#3", 300, 90, tid=2), op("b", 310, 5, tid=2)]
    nodes = [node(3, "ProfilerStep#3", 2, rf_id=0), node(4, "a", 3, rf_id=0)]
    et, kineto = pair(tmp_path, nodes, events)
    matching = tracebraid.Matching("approximate", iteration=iteration)
    assert tracebraid.link(et, kineto, matching=matching).matched is not None


def test_nodes_without_a_thread_are_aligned(tmp_path: Path) -> None:
    names = [f"op {i}" for i in range(30)]
    nodes = [node(i + 3, name, 2, rf_id=0, tid=None) for i, name in enumerate(names)]
    et, kineto = pair(tmp_path, nodes, [op(name, 10 * i, 5) for i, name in enumerate(names)])
    linked = tracebraid.link(et, kineto, matching="approximate")
    assert linked.host_links.get_column("node_id").to_list() == [i + 3 for i in range(30)]


def use(node_id: int | None) -> bytes:
    """The table of uses of tensors with a row of a node."""
    row = {
        "node_id": node_id,
        "is_output": False,
        "position": 0,
        "tensor_id": 5,
        "storage_id": 6,
        "device": "cpu",
        "shape": "[]",
    }
    return arrow(pl.DataFrame([row], schema=TABLES["tensor_uses"].polars_schema()))


@pytest.mark.full
@pytest.mark.parametrize(("node_id", "uses"), [(4, 1), (9, 0), (99, 0), (-5, 0), (None, 0)])
def test_uses_of_nodes_that_are_not_there_are_said_and_left_out(
    tmp_path: Path, node_id: int | None, uses: int
) -> None:
    et = tracebraid.read_execution_trace(archive(tmp_path, members(tensor_uses=use(node_id))))
    assert et.tensor_uses.height == uses
    assert [one.code for one in et.findings] == ([] if uses else ["rows-without-node"])


@pytest.mark.full
def test_nodes_in_columns_that_are_repeated_or_without_id_are_said(tmp_path: Path) -> None:
    rows = [{"node_id": node_id, "name": "a", "parent_id": None, "tid": None} for node_id in (4, 4, 5, None)]
    nodes = arrow(pl.DataFrame(rows, schema=TABLES["nodes"].polars_schema()))
    et = tracebraid.read_execution_trace(archive(tmp_path, members(nodes=nodes)))
    assert et.nodes.get_column("node_id").to_list() == [4, 5]
    codes = {one.code: one.count for one in et.findings}
    assert (codes[FindingCode.DUPLICATE_ID], codes[FindingCode.NODE_UNREADABLE]) == (1, 1)


@pytest.mark.parametrize("header", [b'{"schema": "\xff"}', b'{"schema": "\xc3"}', b"[" * 100_000])
def test_a_header_that_is_no_text_is_refused(tmp_path: Path, header: bytes) -> None:
    path = archive(tmp_path, members(header=header))
    assert isinstance(refused(lambda: tracebraid.read_execution_trace(path), path), NotATraceError)


@pytest.mark.full
@pytest.mark.parametrize("value", ["{", "NaN", "1, 2", "[1\n", "1\n2", "", "Infinity", '"\x01"'])
def test_values_in_columns_that_are_no_json_are_refused(tmp_path: Path, value: str) -> None:
    """They would be written into ET+ as they stand."""
    row = {"node_id": 4, "is_output": False, "position": 0, "type": "Int", "value": value, "shape": "[]"}
    values = arrow(pl.DataFrame([row], schema=TABLES["values"].polars_schema()))
    path = archive(tmp_path, members(values=values))
    assert isinstance(refused(lambda: tracebraid.read_execution_trace(path), path), NotATraceError)


@pytest.mark.full
def test_et_plus_of_values_in_columns_is_json(tmp_path: Path) -> None:
    rows = [
        {"node_id": 4, "is_output": False, "position": i, "type": "Int", "value": value, "shape": "[]"}
        for i, value in enumerate(["[\n1 ]", "1e400", '"x"'])
    ]
    values = arrow(pl.DataFrame(rows, schema=TABLES["values"].polars_schema()))
    et = archive(tmp_path, members(values=values), "torch_et_0.arrow.zip")
    kineto = write(
        tmp_path / "kineto_trace_0.json", kineto_text([op("aten::add", 1, 2, Record_function_id=1)])
    )
    tracebraid.write_et_plus(tracebraid.link(et, kineto), tmp_path / "out.json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    written = json.loads((tmp_path / "out.json").read_text(), parse_constant=refuse)
    assert written["nodes"]


def test_what_ends_the_process_that_decodes_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path, members())
    monkeypatch.setattr(arrow_module, "survives_decoding", lambda contents: False)
    assert isinstance(refused(lambda: tracebraid.read_execution_trace(path), path), NotATraceError)


def absurd() -> bytes:
    """An Arrow file whose bytes are changed so that polars panics."""
    content = io.BytesIO()
    pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}).write_ipc(content)
    return content.getvalue()


@pytest.mark.full
def test_a_trial_tells_files_that_panic_from_those_that_do_not() -> None:
    whole = absurd()
    assert survives_decoding([whole, b"no Arrow file", b""])
    panics = 0
    for place in range(8, len(whole) - 20, 7):
        changed = whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4 :]
        if not decodes(changed):
            panics += 1
            assert not survives_decoding([whole, changed])
            break
    assert panics == 1


def decodes(content: bytes) -> bool:
    """Whether polars decodes or refuses a file in this process; not where it panics."""
    try:
        pl.read_ipc(io.BytesIO(content)).hash_rows()
    except (pl.exceptions.PolarsError, OSError):
        return True
    except pl.exceptions.PanicException:
        return False
    return True


@pytest.mark.full
def test_a_trial_runs_nothing_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("polars", "io", "contextlib", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert survives_decoding([absurd()])
    assert not (tmp_path / "ran").exists()


def test_without_a_second_process_files_are_decoded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_process(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    assert tracebraid.read_execution_trace(archive(tmp_path, members())).nodes.height == 4


@pytest.mark.parametrize("place", [b"odd", b"CREATE TABLE N", b"start integer"])
def test_an_export_whose_columns_are_no_text_ends_in_our_error_or_a_trace(
    tmp_path: Path, place: bytes
) -> None:
    path = tmp_path / "nsys_0.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE NVTX_EVENTS (start integer, end integer, odd text)")
    database.commit()
    database.close()
    data = path.read_bytes()
    begin = data.index(place)
    for shift in range(len(place)):
        path.write_bytes(data[: begin + shift] + b"\xc5" + data[begin + shift + 1 :])
        error = error_of(tracebraid.read_timeline, path)
        assert error is None or error.path == str(path)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: tracebraid.info(path / "kineto_trace_0.json"),
        lambda path: tracebraid.read_timeline(path / "kineto_trace_0.json"),
        lambda path: tracebraid.read_execution_trace(path / "torch_et_0.json"),
        tracebraid.open,
        tracebraid.check,
    ],
    ids=["info", "timeline", "execution trace", "open", "check"],
)
@pytest.mark.parametrize("raised", [PermissionError(13, "denied"), FileNotFoundError(2, "gone")], ids=str)
def test_what_the_file_system_refuses_is_an_error_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object], raised: OSError
) -> None:
    pair(tmp_path, [node(3, "a", 2)], [op("a", 1, 2)])

    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise raised

    for name in ("open", "iterdir", "stat"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, refuse)
            error = error_of(read, tmp_path)
        assert error is None or error.path.startswith(str(tmp_path))


def test_a_file_that_goes_while_it_is_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"), reading(tmp_path / "gone"):
        (tmp_path / "gone").read_bytes()
    with pytest.raises(InputError, match="cannot be read"), reading(tmp_path):
        tmp_path.read_bytes()


def test_the_members_of_the_test_s_archive_are_those_of_the_format(tmp_path: Path) -> None:
    with zipfile.ZipFile(archive(tmp_path, members())) as made:
        assert HEADER in made.namelist()
