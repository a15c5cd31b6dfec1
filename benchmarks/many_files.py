"""Measure what `check` takes for each of many small files.

    python -m benchmarks.many_files [--files 1000] [--kilobytes 20] [--rounds 3] [--beside SRC] [--json]

The files are pairs of traces, each a small part of the bundled pair: its first step's first ops, as many as fit. They
lie as one job of many ranks, as many windows of one rank, and as many captures of two ranks, each a folder of its own.
All folders are checked in one process, which has loaded its libraries and checked some before; processor time is that
of all threads. `--beside` names the `src` folder of another checkout, which is measured in turn with this one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.inputs import DEMO
from benchmarks.measure import Measured, Stopwatch, side_by_side, task, typical
from benchmarks.table import Row, Target, as_json, as_table

__all__ = ["small_pair", "write_pair"]

_MS_A_FILE_AT_MOST = 5.0
_WARM_UP_FOLDERS = 3
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
    """The bundled traces of rank 0, of which each trace has events or nodes of so many bytes, about.

    Args:
        size_bytes: of each file.
    """
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
    """Write the files of a rank.

    Args:
        pair: the traces.
        folder: where to.
        rank: its number, which both say.
        world_size: the number of ranks that they say.
    """
    pid = 1000 + rank
    distributed = {"backend": "gloo", "rank": rank, "world_size": world_size}
    events = [{**event, "pid": pid} if event.get("pid") != -1 else event for event in pair.kineto[_EVENTS]]
    kineto = {**pair.kineto, "distributedInfo": distributed, _EVENTS: events}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"kineto_trace_{rank}.json").write_text(json.dumps(kineto))
    (folder / f"torch_et_{rank}.json").write_text(json.dumps({**pair.et, "pid": pid}))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; with a folder, the task that one process has."""
    given = _parser().parse_args(arguments)
    if given.folder is not None:
        if given.beside is not None:
            sys.path.insert(0, str(given.beside.resolve()))
        print(json.dumps(asdict(_check_all(given.folder))))
        return
    beside = [] if given.beside is None else ["--beside", str(given.beside)]
    with tempfile.TemporaryDirectory() as name:
        subjects: dict[str, Callable[[], Measured]] = {}
        for subject, places in _layouts(given.files // 2).items():
            folder = Path(name) / subject.split()[0]
            _write(small_pair(given.kilobytes * 1000), folder, places)
            words = ["-m", "benchmarks.many_files", str(folder)]
            subjects[subject] = partial(task, words)
            if beside:
                subjects[f"{subject}, beside"] = partial(task, [*words, *beside])
        rows = [
            _row(f"check, {subject}", typical(found), given.files)
            for subject, found in side_by_side(subjects, given.rounds).items()
        ]
    print(as_json(rows) if given.json else as_table(rows))


def _layouts(pairs: int) -> dict[str, list[tuple[str, int, int]]]:
    """Of each layout the folders, ranks and worlds of its pairs."""
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


def _check_all(folder: Path) -> Measured:
    """Check each folder."""
    from tracebraid.api import check

    for warm_up in sorted((folder / "warm_up").iterdir()):
        check(warm_up, engine="in-process")
    jobs = sorted(path for path in folder.iterdir() if path.name != "warm_up")
    stopwatch = Stopwatch()
    for job in jobs:
        check(job, engine="in-process")
    return stopwatch.stop()


def _row(subject: str, of: Measured, files: int) -> Row:
    ms_a_file = of.cpu_seconds * 1000 / files
    target = Target(f"{_MS_A_FILE_AT_MOST} ms of processor a file", ms_a_file <= _MS_A_FILE_AT_MOST)
    return Row(
        "many files", subject, of.seconds, of.cpu_seconds, of.peak_bytes, {"ms a file": ms_a_file}, target
    )


def _rf_id(event: _Json) -> int | None:
    arguments = event.get("args") or {}
    return arguments.get("Record function id") or None if event.get("ph") == "X" else None


def _attribute(node: _Json, name: str) -> Any:
    return next((attribute["value"] for attribute in node["attrs"] if attribute["name"] == name), None)


def _read(path: Path) -> _Json:
    with gzip.open(path) as file:
        content: _Json = json.load(file)
    return content


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_files", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=int, default=1000, metavar="N", help="how many files (1,000)")
    parser.add_argument("--kilobytes", type=int, default=20, metavar="KB", help="of each file, as JSON (20)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (3)")
    parser.add_argument("--beside", type=Path, metavar="SRC", help="the src folder of another checkout")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
