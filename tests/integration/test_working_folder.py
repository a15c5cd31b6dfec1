"""The processes that work for this one run nothing of the folder that the user is in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import kineto_text, op, write
from tests.fake_compiler import one_that_works
from tests.integration.captured import QUIET
from tests.integration.hostile_folder import make_hostile_folder, ran
from tests.waiting import HANG_S

ASK = """
import os, sys
sys.path[:0] = {first!r}
import polars
import tracebraid

def asked(linked):
    return polars.DataFrame({{"events": [linked.timeline.events.height], "pid": [os.getpid()]}})

found = polars.concat(tracebraid.open(".", engine="pool").each(asked))
print(found["events"].to_list(), os.getpid() not in found["pid"])
"""
BUILD = "from tracebraid.recorders.native.library import build; print(build())"
RECORD = """
import torch
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.importers.execution_trace.reader import read_execution_trace
observer = ExecutionTraceObserver(backend="native").register_callback("et.arrow.zip")
observer.start()
torch.ones(2) + 1
observer.unregister_callback()
print(read_execution_trace("et.arrow.zip").op_nodes.height > 0)
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = make_hostile_folder(tmp_path / "received")
    write_two_ranks(folder)
    return folder


def write_two_ranks(folder: Path) -> None:
    for rank in range(2):
        events = [op(f"op {number}", number, 1) for number in range(300)]
        text = kineto_text(events, {"distributedInfo": {"rank": rank}})
        write(folder / f"kineto_trace_{rank}.json", text)


def run_in(folder: Path, code: str, *options: str, **env: str | None) -> subprocess.CompletedProcess[str]:
    """Run a script that lies elsewhere, in a folder."""
    script = folder.parent / "script" / "script.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(code)
    whole = {**os.environ, **QUIET, **{key: value for key, value in env.items() if value is not None}}
    whole = {key: value for key, value in whole.items() if key not in env or env[key] is not None}
    return subprocess.run(
        [sys.executable, *options, str(script)],
        cwd=folder,
        env=whole,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.full
def test_the_hostile_folder_leaves_markers_where_it_is_on_the_path(hostile: Path) -> None:
    # What measures coverage has imported it already.
    code = "import sys; sys.modules.pop('json', None); import json"
    done = subprocess.run([sys.executable, "-c", code], cwd=hostile, capture_output=True, check=False)
    assert done.returncode == 1
    assert "json" in ran(hostile)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("first", [[], [""], ["."], ["./."], ["..", "x"]], ids=str)
def test_a_worker_answers_and_nothing_of_the_folder_runs(hostile: Path, first: list[str]) -> None:
    # What the script itself imports must be there before the folder comes first.
    loaded = "import tracebraid.engine.pool, tracebraid.importers.kineto.reader, polars, json\n"
    code = loaded + ASK.format(first=first)
    done = run_in(hostile, code)
    assert (done.stdout, done.stderr, done.returncode) == ("[300, 300] True\n", "", 0)
    assert ran(hostile) == []


@pytest.mark.full
@pytest.mark.parametrize("given", [None, "", ":", ".", "{folder}", "::/nonexistent:."])
def test_a_module_path_of_the_environment_does_not_bring_the_folder_into_the_worker(
    hostile: Path, given: str | None
) -> None:
    """The program itself keeps clear of the folder; what the environment says is for its children to read."""
    value = "None" if given is None else repr(given.format(folder=hostile))
    code = f"import os\nif {value} is not None: os.environ['PYTHONPATH'] = {value}\n" + ASK.format(first=[])
    done = run_in(hostile, code, PYTHONPATH=None)
    assert (done.stdout, done.stderr, done.returncode) == ("[300, 300] True\n", "", 0)
    assert ran(hostile) == []


@pytest.mark.full
def test_what_a_customisation_prints_does_not_reach_the_columns(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    write_two_ranks(folder)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("print('customised', flush=True)\n")
    done = run_in(folder, ASK.format(first=[]), PYTHONPATH=str(theirs))
    assert (done.stdout, done.returncode) == ("customised\n[300, 300] True\n", 0), done.stderr


@pytest.mark.full
@pytest.mark.torch
def test_the_recorder_is_built_and_nothing_of_the_folder_runs(hostile: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    compiler = one_that_works(tmp_path / "bin", Path(str(torch._C.__file__)))
    cache = str(tmp_path / "cache")
    done = run_in(hostile, BUILD, TRACEBRAID_CACHE=cache, CXX=str(compiler.path))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_file()
    assert ran(hostile) == []


@pytest.mark.full
@pytest.mark.torch
def test_the_recorder_is_built_into_a_cache_with_a_relative_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    compiler = one_that_works(tmp_path / "bin", Path(str(torch._C.__file__)))
    done = run_in(tmp_path, BUILD, TRACEBRAID_CACHE="cache", CXX=str(compiler.path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / done.stdout.strip()).is_file()


@pytest.mark.full
@pytest.mark.torch
def test_columns_are_written_and_nothing_of_the_folder_runs(hostile: Path) -> None:
    pytest.importorskip("torch")
    done = run_in(hostile, RECORD)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert (hostile / "et.arrow.zip").is_file()
    assert ran(hostile) == []
