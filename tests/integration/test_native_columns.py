"""A recording in columns is the same Execution Trace as in JSON."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.native import native
from tests.integration.native_columns import assert_same_trace, record_in_both_forms
from tests.integration.test_native_agrees import CLEAN, launch_kernels
from tests.integration.test_native_tensors import KINDS
from tracebraid.errors import CaptureError
from tracebraid.model.et_arrow import RECORDED_TABLES, member_of

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def odd_names() -> None:
    for name in ('"quotes" \\ and \n lines', "\x00\x07", "\udcff no UTF-8", "häß 🧵", "", "x" * 3000):
        with torch.profiler.record_function(name.encode("utf-8", "surrogateescape").decode("latin-1")):
            torch.ones(1)


def lists_of_tensors() -> None:
    parts = torch.ones(6, 2).split([1, 2, 3])
    torch.cat([*parts, torch.zeros(0, 2)])
    torch.stack([torch.ones(2), torch.zeros(2)])
    torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))


def ends_badly() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    torch.profiler.record_function("never ended").__enter__()


def many_nodes() -> None:
    one = torch.ones(2)
    for _ in range(70_000):
        torch.neg(one)


WORK: list[Any] = [
    *CLEAN,
    *KINDS,
    launch_kernels,
    odd_names,
    lists_of_tensors,
    ends_badly,
    pytest.param(many_nodes, marks=pytest.mark.slow),
    pytest.param(lambda: None, id="nothing"),
]


@pytest.mark.parametrize("work", WORK)
def test_both_forms_are_the_same_trace(tmp_path: Path, work: Any) -> None:
    in_json, in_columns = record_in_both_forms(tmp_path, work)
    assert_same_trace(in_json, in_columns)


def test_ranges_of_integers_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE", "1")
    in_json, in_columns = record_in_both_forms(tmp_path, lambda: torch.arange(5) + torch.arange(5))
    assert_same_trace(in_json, in_columns)
    assert in_columns.extra_attrs.filter(pl.col("value").str.contains("[0,4]", literal=True)).height > 0


def test_its_tables_can_be_read_by_anybody(tmp_path: Path) -> None:
    with native(tmp_path / "et.arrow.zip"):
        torch.ones(3)
    with zipfile.ZipFile(tmp_path / "et.arrow.zip") as archive:
        for table in RECORDED_TABLES:
            with archive.open(member_of(table)) as member:
                assert list(pl.read_ipc(member.read()).schema) == [column.name for column in table.columns]


def test_pytorchs_recorder_writes_no_columns(tmp_path: Path) -> None:
    observer = tracebraid.ExecutionTraceObserver("torch")
    with pytest.raises(CaptureError, match=r"PyTorch's recorder writes .json or .json.gz, and no .arrow.zip"):
        observer.register_callback(tmp_path / "et.arrow.zip")
    assert not observer.is_registered
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "et.arrow.zip"
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(target)
    target.mkdir()
    (target / "x").touch()
    with pytest.raises(tracebraid.OutputError, match=r"et\.arrow\.zip"):
        observer.unregister_callback()
    assert [one.name for one in tmp_path.iterdir()] == [target.name]


FORKS = """
import os, sys, torch, tracebraid
observer = tracebraid.ExecutionTraceObserver("native", follow_forks=True)
observer.register_callback(sys.argv[1] + "/et.arrow.zip")
observer.start()
torch.ones(2)
child = os.fork()
if child == 0:
    torch.zeros(2)
    sys.exit()
os.waitpid(child, 0)
observer.unregister_callback()
"""


def test_the_process_and_its_forks_write_one_each(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    names = [set(tracebraid.read_execution_trace(file).op_nodes.get_column("name")) for file in files]
    assert "aten::ones" in names[0] - names[1]
    assert "aten::zeros" in names[1] - names[0]
    assert files[1].name.startswith("et_pid")
    assert files[1].name.endswith(".arrow.zip")
