"""The table of benchmarks and its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest

from benchmarks.__main__ import _OPTIONS, BENCHMARKS, GROUPS, main
from benchmarks.measure import ROOT


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_is_a_function(name: str) -> None:
    module, function = BENCHMARKS[name].function.split(":")
    if module in ("recording", "match", "whatif"):
        pytest.importorskip("torch")
    if module == "page_frames":
        pytest.importorskip("playwright")
    assert callable(getattr(import_module(f"benchmarks.{module}"), function))
    assert BENCHMARKS[name].options.keys() <= _OPTIONS.keys()


def test_groups_name_benchmarks() -> None:
    assert {name for names in GROUPS.values() for name in names} <= BENCHMARKS.keys()


def test_without_a_name_benchmarks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert len(capsys.readouterr().out.splitlines()) == len(BENCHMARKS)


@pytest.mark.full
def test_several_benchmarks_make_one_table() -> None:
    words = ["graph_job", "chakra", "--ranks", "2", "--nodes", "300", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = json.loads(done.stdout)
    assert {row["benchmark"] for row in rows} == {"graph_job", "chakra"}
    assert all(row["seconds"] > 0 for row in rows)


def test_a_path_that_nothing_takes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["read", "et", "trace.json"])
    assert stopped.value.code == 2
    assert "et: takes no PATH" in capsys.readouterr().err
