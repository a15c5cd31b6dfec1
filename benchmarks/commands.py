"""Whole commands: on the bundled traces, on many files, by engine, and reports."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from isal import igzip

import tracebraid
from benchmarks.inputs import DEMO, Given
from benchmarks.made_jobs import write_job
from benchmarks.measure import (
    Measured,
    Row,
    Target,
    command,
    row_of,
    side_by_side,
    speed_ratio,
    task,
    typical,
)

_SOURCE = str(Path(tracebraid.__file__).parents[1])
_COMMANDS = {
    "tracebraid --version": ["--version"],
    "tracebraid --help": ["--help"],
    "tracebraid info DIR": ["info", "JOB"],
    "tracebraid check DIR": ["check", "JOB"],
    "tracebraid link DIR": ["link", "JOB"],
    "tracebraid link DIR -o OUT": ["link", "JOB", "-o", "OUT"],
    "tracebraid summary DIR": ["summary", "JOB"],
    "tracebraid summary DIR --json": ["summary", "JOB", "--json"],
    "tracebraid demo": ["demo"],
    "tracebraid demo DIR": ["demo", "OUT"],
}
_ANSWER = """
import resource, sys, tracebraid, tracebraid.api
tracebraid.analyses.breakdown(tracebraid.open(sys.argv[1]))
def used_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
began_s = used_s()
for path in sys.argv[1:]:
    tracebraid.analyses.breakdown(tracebraid.open(path))
print(used_s() - began_s)
"""


def _process_s(arguments: list[str], source: str) -> float:
    """Processor time of a Python process, seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(arguments, source)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _answer_s(inputs: list[str], source: str) -> float:
    return float(_run(["-c", _ANSWER, *inputs], source))


def _run(arguments: list[str], source: str) -> str:
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def commands(given: Given) -> Iterator[Row]:
    """Processor time of each command, a fresh process, beside `python -c pass`; of an answer with and without ET."""
    sources = {"here": _SOURCE, **({"beside": str(given.beside.resolve())} if given.beside else {})}
    job = Path(shutil.copytree(tracebraid.demo_path(), given.folder / "demo_job"))
    paths = {"JOB": str(job), "OUT": str(given.folder / "demo_out")}
    start_s = median(_process_s(["-c", "pass"], _SOURCE) for _ in range(given.rounds))
    kinetos = [str(path) for path in sorted(job.glob("kineto_trace_*"))]
    subjects: dict[str, Callable[[str], float]] = {
        name: partial(_process_s, ["-m", "tracebraid", *(paths.get(word, word) for word in words)])
        for name, words in _COMMANDS.items()
    }
    subjects["open and breakdown, with ET"] = partial(_answer_s, [str(job)])
    subjects["the same without ET"] = partial(_answer_s, kinetos)
    for name, measure in subjects.items():
        rounds = [[measure(source) for source in sources.values()] for _ in range(given.rounds)]
        for place, each_s in zip(sources, map(median, zip(*rounds, strict=True)), strict=True):
            subject = name if place == "here" else f"{name}, {place}"
            yield Row("commands", subject, cpu_seconds=each_s, figures={"times pass": each_s / start_s})


_MS_A_FILE_AT_MOST = 5.0
_WARM_UP_FOLDERS = 3
_FILE_BYTES = 20_000
_NODES = "nodes"
_EVENTS = "traceEvents"
_THREAD_ROOT = "[pytorch|profiler|execution_trace|"

_Json = dict[str, Any]


@dataclass(frozen=True)
class SmallPair:
    """Two traces of one rank, as JSON: the Kineto trace and the Execution Trace."""

    kineto: _Json
    et: _Json


def small_pair(size_bytes: int) -> SmallPair:
    """The bundled traces of rank 0, of which each trace has events or nodes of so many bytes, about."""
    kineto, et = (_read(DEMO / f"{name}_0.json.gz") for name in ("kineto_trace", "torch_et"))
    numbered = sorted(filter(_rf_id, kineto[_EVENTS]), key=lambda event: (event["ts"], -event["dur"]))
    others = [event for event in kineto[_EVENTS] if event.get("ph") == "M"]
    roots = [node for node in et[_NODES] if node["name"].startswith(_THREAD_ROOT)]
    nodes = {_attribute(node, "rf_id"): node for node in et[_NODES]}
    for kept in count(1):
        chosen = numbered[:kept]
        of_nodes = [*roots, *(nodes[rf_id] for event in chosen if (rf_id := _rf_id(event)) in nodes)]
        pair = SmallPair({**kineto, _EVENTS: [*others, *chosen]}, {**et, _NODES: of_nodes})
        if kept == len(numbered) or len(json.dumps(pair.et)) >= size_bytes:
            return pair
    raise AssertionError("unreachable")


def write_pair(pair: SmallPair, folder: Path, rank: int, world_size: int) -> None:
    """Write the files of a rank."""
    pid = 1000 + rank
    distributed = {"backend": "gloo", "rank": rank, "world_size": world_size}
    events = [{**event, "pid": pid} if event.get("pid") != -1 else event for event in pair.kineto[_EVENTS]]
    kineto = {**pair.kineto, "distributedInfo": distributed, _EVENTS: events}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"kineto_trace_{rank}.json").write_text(json.dumps(kineto))
    (folder / f"torch_et_{rank}.json").write_text(json.dumps({**pair.et, "pid": pid}))


def _layouts(pairs: int) -> dict[str, list[tuple[str, int, int]]]:
    """The folders, ranks and worlds of the pairs of each layout."""
    return {
        "job of many ranks": [("job", rank, pairs) for rank in range(pairs)],
        "windows of one rank": [(f"job/window_{window}", 0, 1) for window in range(pairs)],
        "captures of two ranks": [(f"job_{pair // 2}", pair % 2, 2) for pair in range(pairs)],
    }


def _write(pair: SmallPair, folder: Path, places: Sequence[tuple[str, int, int]]) -> None:
    for place, rank, world_size in places:
        write_pair(pair, folder / place, rank, world_size)
    for number in range(_WARM_UP_FOLDERS):
        for rank in range(2):
            write_pair(pair, folder / "warm_up" / str(number), rank, 2)


def _rf_id(event: _Json) -> int | None:
    arguments = event.get("args") or {}
    return arguments.get("Record function id") or None if event.get("ph") == "X" else None


def _attribute(node: _Json, name: str) -> Any:
    return next((attribute["value"] for attribute in node["attrs"] if attribute["name"] == name), None)


def _read(path: Path) -> _Json:
    with gzip.open(path) as file:
        content: _Json = json.load(file)
    return content


def many_files(given: Given) -> Iterator[Row]:
    """Processor time of `check` for each of many small files, in one process that has checked some before."""
    pair, subjects = small_pair(_FILE_BYTES), dict[str, Callable[[], Measured]]()
    for subject, places in _layouts(given.files // 2).items():
        folder = given.folder / subject.split()[0]
        _write(pair, folder, places)
        subjects[subject] = partial(task, "tasks:check_all", folder)
        if given.beside is not None:
            source = str(given.beside.resolve())
            subjects[f"{subject}, beside"] = partial(task, "tasks:check_all", folder, source=source)
    for subject, runs in side_by_side(subjects, given.rounds).items():
        took = typical(runs)
        ms_a_file = took.cpu_seconds * 1000 / given.files
        target = Target(f"{_MS_A_FILE_AT_MOST} ms of processor a file", ms_a_file <= _MS_A_FILE_AT_MOST)
        yield row_of("many files", f"check, {subject}", took, {"ms a file": ms_a_file}, target)


_SHARE_AT_MOST = 0.6
_ABOVE_AT_MOST_MB = 1000
_ENGINE_COMMANDS: dict[str, list[str]] = {
    "summary": ["summary", "JOB", "--json"],
    "check": ["check", "JOB"],
    "report": ["report", "JOB", "--json"],
    "export": ["export", "JOB", "--to", "parquet", "-o", "OUT"],
    "pack": ["pack", "JOB", "-o", "OUT"],
}
_HERE, _POOL, _ALONE = "in-process", "pool", "one rank"


def rows_of(subject: str, runs: dict[str, list[Measured]]) -> list[Row]:
    """A row for each engine."""
    rows = [
        Row("engine", f"{subject}, {engine}", of.seconds, of.cpu_seconds, of.peak_bytes)
        for engine, of in ((engine, typical(found)) for engine, found in runs.items())
    ]
    share = 1 / speed_ratio(runs[_POOL], runs[_HERE])
    above_mb = (typical(runs[_POOL]).peak_bytes - typical(runs[_ALONE]).peak_bytes) / 1e6
    met = share <= _SHARE_AT_MOST and above_mb <= _ABOVE_AT_MOST_MB
    target = Target(f"{_SHARE_AT_MOST} of in-process, {_ABOVE_AT_MOST_MB:,} MB above one rank", met)
    figures = {"of in-process": share, "MB above": above_mb}
    return [*rows, Row("engine", f"{subject}, pool beside in-process", figures=figures, target=target)]


def _large(given: Given) -> list[Row]:
    """The commands on copies of a large trace."""
    folder, trace, (ranks_given, *_) = given.folder, given.timeline, given.ranks
    jobs = {"several": folder / "several", "one": folder / "one"}
    for job, ranks in ((jobs["several"], ranks_given), (jobs["one"], 1)):
        job.mkdir()
        write_job(trace, job, ranks, packed=False)
    rows = []
    for name in given.only or ():
        runs = side_by_side(
            {
                _ALONE: _with_engine(folder, name, jobs["one"], _HERE),
                _HERE: _with_engine(folder, name, jobs["several"], _HERE),
                _POOL: _with_engine(folder, name, jobs["several"], _POOL),
            },
            given.rounds,
        )
        rows += rows_of(f"{name}, {ranks_given} ranks", runs)
    return rows


def _small(folder: Path, rounds: int) -> list[Row]:
    """A summary of ever more ranks that are next to nothing: from how many on the pool pays."""
    rows = []
    with gzip.open(DEMO / "kineto_trace_0.json.gz") as packed:
        trace = folder / "trace.json"
        trace.write_bytes(packed.read())
    for ranks in (2, 16, 64):
        job = folder / f"small{ranks}"
        job.mkdir()
        write_job(trace, job, ranks)
        subjects = {engine: _with_engine(folder, "check", job, engine) for engine in (_HERE, _POOL)}
        for engine, found in side_by_side(subjects, rounds).items():
            of = typical(found)
            subject = f"check of {ranks} small ranks, {engine}"
            rows.append(Row("engine", subject, of.seconds, of.cpu_seconds, of.peak_bytes))
    return rows


def _with_engine(folder: Path, name: str, job: Path, engine: str) -> Callable[[], Measured]:
    return partial(_measured, folder, _ENGINE_COMMANDS[name], job, engine)


def _measured(folder: Path, words: Sequence[str], job: Path, engine: str) -> Measured:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        paths = {"JOB": str(job), "OUT": str(Path(out) / "out")}
        given = [paths.get(word, word) for word in words]
        return command([sys.executable, "-m", "tracebraid", *given, "--engine", engine])


def engine(given: Given) -> list[Row]:
    """Commands on copies of a trace, in one process and in the pool; with `start`, on ranks next to nothing.

    `of in-process` is the pool's time by that of one process; `MB above` is the most memory that a process of the pool
    held above what one process takes for one rank."""
    return _small(given.folder, given.rounds) if given.start else _large(given)


def report(given: Given) -> list[Row]:
    """Time and memory of a report, and its page's size, as it is and as a server would compress it."""
    return _reports(given.paths or [tracebraid.demo_path()], given.rounds)


def _reports(paths: Sequence[Path], rounds: int) -> list[Row]:
    """A row for each path."""
    with tempfile.TemporaryDirectory() as folder:
        pages = {str(path): Path(folder) / f"{number}.html" for number, path in enumerate(paths)}
        runs = side_by_side({path: partial(_reported, path, page) for path, page in pages.items()}, rounds)
        return [
            row_of(
                "report",
                Path(path).name,
                typical(runs[path]),
                {
                    "page_kb": page.stat().st_size / 1e3,
                    "compressed_kb": len(igzip.compress(page.read_bytes(), 2, mtime=0)) / 1e3,
                },
            )
            for path, page in pages.items()
        ]


def _reported(path: str, page: Path) -> Measured:
    page.unlink(missing_ok=True)
    return command([sys.executable, "-m", "tracebraid", "report", path, "-o", str(page)])
