"""What is asked of many ranks is pure: each command answers the same bytes where its questions run elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import threading
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import tracebraid
from tests.engines import PickledFromTheLast, opened_by
from tests.integration.command import Done, run
from tests.planted import write_ranks
from tests.unit.reports.runs import planted_scene
from tracebraid.engine.pool import ProcessPool
from tracebraid.model.engine import Engine, InProcess
from tracebraid.model.export_format import ExportFormat

ENGINES: dict[str, Engine] = {"here": InProcess(), "elsewhere": PickledFromTheLast()}

COMMANDS = [
    *("demo --json", "summary DEMO --json", "advise DEMO --json", "report DEMO --json"),
    *("link DEMO -o out", "link DEMO -o out --align-clocks --json", "analyze stragglers DEMO --json"),
    *("export DEMO --to perfetto -o out", "export DEMO --to parquet -o out"),
    *("summary PATH", "advise PATH --json", "report PATH -o out.html --rank 1", "metrics PATH --csv"),
    *("diff PATH PATH --json", "critical-path PATH --json", "what-if DEMO --change 'bandwidth 2' --json"),
    *("what-if PATH --sweep --json", "what-if PATH --stragglers --json", "analyze ops PATH --csv"),
    *("analyze breakdown PATH --step 1 --json", "export PATH --to perfetto -o out --rank 1"),
    "export PATH --to csv -o out --step 1",
    *(
        f"export PATH --to {form.value} -o out {'--top 9' if form.is_op_graph else ''}"
        for form in ExportFormat
    ),
]


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks with device work and collectives."""
    return write_ranks(tmp_path_factory.mktemp("devices"), [planted_scene(rank, 3) for rank in range(2)])


@pytest.fixture(scope="module")
def faulty(devices: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files, of which one cannot be read, and one is a copy of another rank's."""
    folder = tmp_path_factory.mktemp("faulty")
    shutil.copytree(devices, folder, dirs_exist_ok=True)
    (folder / "kineto_trace_2.json").write_bytes(b'{"traceEvents": 5}')
    shutil.copy(folder / "kineto_trace_1.json", folder / "kineto_trace_3.json")
    return folder


def said(command: str, path: Path, tmp_path: Path) -> Done:
    """What a command says and writes, which is the same with each engine."""
    found = []
    paths = {"PATH": str(path), "DEMO": str(tracebraid.demo_path())}
    words = [paths.get(word, word) for word in shlex.split(command)]
    for name, engine in ENGINES.items():
        folder = tmp_path / name
        folder.mkdir()
        with opened_by(engine), pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            done = run(*words)
        files = [entry for entry in sorted(folder.rglob("*")) if entry.is_file()]
        found.append((done, {entry.relative_to(folder): entry.read_bytes() for entry in files}))
    assert found[0] == found[1]
    assert done.stdout or files
    return done


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_and_writes_the_same(command: str, devices: Path, tmp_path: Path) -> None:
    assert said(command, devices, tmp_path).returncode == 0


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        *("summary PATH --json", "report PATH --json", "advise PATH --json", "metrics PATH --json"),
        *("export PATH --to perfetto -o out", "export PATH --to parquet -o out", "link PATH -o out --json"),
        *(
            "critical-path PATH --json",
            "diff PATH PATH --json",
            "export PATH --to chakra --missing shrink -o out",
        ),
    ],
)
def test_what_cannot_be_read_is_left_out_alike(command: str, faulty: Path, tmp_path: Path) -> None:
    done = said(command, faulty, tmp_path)
    assert done.returncode == 1
    assert "rank 2" in done.stdout + done.stderr
    assert "as is another file here" in done.stdout + done.stderr


@pytest.mark.full
def test_every_analysis_answers_the_same(devices: Path) -> None:
    jobs = [tracebraid.open(devices, engine=engine) for engine in ENGINES.values()]
    for analysis in tracebraid.analyses.catalog():
        here, elsewhere = (tracebraid.analyze(analysis.name, job) for job in jobs)
        assert_frame_equal(here.frame, elsewhere.frame)
        assert here.lacks == elsewhere.lacks


def test_what_a_notebook_defines_is_asked_elsewhere(devices: Path) -> None:
    events = tracebraid.plugins.metric(name="events", unit="count")(
        lambda linked: linked.timeline.events.height
    )
    found = [
        tracebraid.metrics(tracebraid.open(devices, engine=engine), only=[events])
        for engine in ENGINES.values()
    ]
    assert_frame_equal(*found)
    assert found[0].get_column("value").null_count() == 0


@pytest.mark.full
def test_a_trace_of_another_rank_writes_nothing_in_its_place(faulty: Path, tmp_path: Path) -> None:
    shutil.copytree(tracebraid.demo_path(), tmp_path / "demo")
    shutil.copy(tmp_path / "demo/kineto_trace_0.json.gz", tmp_path / "demo/kineto_trace_1.json.gz")
    done = said("link PATH -o out", tmp_path / "demo", tmp_path)
    assert done.returncode == 1
    written = json.loads((tmp_path / "here/out/et_plus_0.json").read_bytes())
    of_rank_0 = tracebraid.open(tracebraid.demo_path())[0]
    tracebraid.write_et_plus(of_rank_0, tmp_path / "expected.json")
    assert written == json.loads((tmp_path / "expected.json").read_bytes())


def test_two_traces_whose_names_are_swapped_are_both_asked(devices: Path, tmp_path: Path) -> None:
    names = ("kineto_trace_0.json", "kineto_trace_1.json")
    for source, target in (names, names[::-1]):
        shutil.copy(devices / source, tmp_path / target)
    done = said("analyze breakdown PATH --json", tmp_path, tmp_path)
    assert {row["rank"] for row in json.loads(done.stdout)} == {0, 1}


# --- The process pool prints and writes the same bytes as this process alone -------------------------


POOL_COMMANDS = [
    ["check", "{path}", "--json"],
    ["report", "{path}", "--json"],
    ["export", "{path}", "--to", "perfetto", "-o", "{out}/job.pftrace.gz"],
    ["link", "{path}", "--align-clocks", "-o", "{out}/linked"],
    ["pack", "{path}", "-o", "{out}/job.tbstore"],
]
"""Of each kind one; all commands run by an engine that pickles in `test_same_with_every_engine`."""


def result(words: list[str], path: Path, out: Path, engine: str) -> tuple[Done, dict[str, bytes]]:
    """How a command ends, and what it has written, by the names of the files."""
    out.mkdir()
    done = run(*(word.format(path=path, out=out) for word in words), "--engine", engine)
    said = done._replace(stderr=done.stderr.replace(str(out), "OUT"))
    return said, files_of(out)


def files_of(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by the names of the files."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("words", POOL_COMMANDS, ids=" ".join)
def test_the_pool_answers_as_this_process_does(words: list[str], demo: Path, tmp_path: Path) -> None:
    here, written_here = result(words, demo, tmp_path / "here", "in-process")
    there, written_there = result(words, demo, tmp_path / "there", "pool")
    assert here.returncode == 0, here.stderr
    assert there == here
    assert sorted(written_there) == sorted(written_here)
    assert [name for name, content in written_here.items() if written_there[name] != content] == []
    assert bool(written_here) == any("{out}" in word for word in words)


@pytest.mark.full
def test_a_worker_that_is_killed_in_the_middle_changes_no_byte(demo: Path, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(6):
        text = gzip.decompress((demo / "kineto_trace_0.json.gz").read_bytes())
        own = re.sub(rb'("rank": ?)0', rb"\g<1>%d" % rank, text, count=1)
        (traces / f"kineto_trace_{rank}.json").write_bytes(own)
    killed: list[int] = []

    def kill_once(share: float) -> None:
        if share > 0.3 and not killed:
            children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
            killed.append(int(children[0]))
            os.kill(killed[0], signal.SIGKILL)

    tracebraid.pack(traces, tmp_path / "here", engine="in-process")
    packed = tracebraid.pack(traces, tmp_path / "there", engine=ProcessPool(2), progress=kill_once)
    assert killed
    assert packed.packed == tuple(range(6))
    written = [files_of(tmp_path / name) for name in ("here", "there")]
    assert len(written[0]) > 12
    assert written[0] == written[1]
