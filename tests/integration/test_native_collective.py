"""What collectives say of themselves, told by a program as NCCL's process group does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.integration.native import (
    assert_whole,
    differences,
    nodes_of,
    record,
    record_both,
    record_builtin,
    the,
)
from tests.integration.native_columns import assert_same_trace, record_in_both_forms

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

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


def test_all_that_a_collective_says_is_there(tmp_path: Path, all_to_all: Collective) -> None:
    theirs, ours = record_both(tmp_path, lambda: all_to_all(b"default_pg"))
    assert differences(theirs, ours) == []
    said = the(assert_whole(tmp_path / "ours.json"), "record_param_comms")["at"]
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
        "is_asynchronized_op": 1,
    }


def test_columns_hold_it_too(tmp_path: Path, all_to_all: Collective) -> None:
    in_json, in_columns = record_in_both_forms(tmp_path, lambda: all_to_all(b'a "group"'))
    assert_same_trace(in_json, in_columns)
    assert in_columns.collectives.get_column("pg_desc").to_list() == ['a "group"']


def test_quotes_in_the_description_of_a_group(tmp_path: Path, all_to_all: Collective) -> None:
    nodes = record(tmp_path / "ours.json", lambda: all_to_all(b'a "\\\t\xff'))
    assert the(nodes, "record_param_comms")["at"]["pg_desc"] == 'a "\\\t\ufffd'
    with pytest.raises(msgspec.DecodeError):
        record_builtin(tmp_path / "theirs.json", lambda: all_to_all(b'a "group"'))


def test_a_collective_without_details_has_a_node(tmp_path: Path) -> None:
    def work() -> None:
        with torch.profiler.record_function("record_param_comms"):
            torch.ones(2)

    record(tmp_path / "et.json", work)
    assert "collective_name" not in the(nodes_of(tmp_path / "et.json"), "record_param_comms")["at"]
