"""`python -m benchmarks NAME... [PATH ...]` measures what is named and prints a table; without a name, lists them."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.inputs import Given
from benchmarks.measure import Row, as_json, as_table, rows_of_function

_OPTIONS: Mapping[str, dict[str, Any]] = {
    "rounds": {"type": int, "help": "how often each is measured"},
    "attempts": {"type": int, "help": "how often a pair that is not steady is captured at most"},
    "ranks": {"type": int, "nargs": "*", "help": "numbers of ranks"},
    "times": {"type": int, "nargs": "+", "help": "how often the pair is repeated"},
    "only": {"nargs": "+", "help": "measure or show only these"},
    "steps": {"type": int, "help": "steps that are run or copied; requests"},
    "seconds": {"type": float, "help": "how long it lasts"},
    "nodes": {"type": int, "help": "nodes of a made rank"},
    "files": {"type": int, "help": "how many files"},
    "jobs": {"type": int, "help": "how many random jobs"},
    "hta_python": {"help": "an interpreter that has HTA, which is measured as well"},
    "peers_python": {"help": "an interpreter that has HTA, TraceLens, pandas and DuckDB"},
    "beside": {"type": Path, "help": "the src folder of another checkout, measured in turn with this one"},
    "keep": {"type": Path, "help": "a folder where captures stay, and are used again"},
    "engine": {"help": "the engine of the commands"},
    "trace": {"type": Path, "help": "a Kineto trace that ranks are copies of; else the bundled pair"},
    "all": {"action": "store_true", "help": "every real trace"},
    "errors": {"action": "store_true", "help": "errors alone, no times"},
    "commands": {"action": "store_true", "help": "measure whole commands, too"},
    "start": {"action": "store_true", "help": "measure small ranks instead: the cost of the pool itself"},
    "processor_time": {
        "action": "store_true",
        "help": "the server's clock is its processor time: what else the machine does counts for less",
    },
    "large": {
        "action": "store_true",
        "help": "one question about the trace of 1.25 GB as well; 6 minutes more",
    },
    "page": {"type": Path, "metavar": "FILE", "help": "write the table as a page, its chart beside it"},
    "speed": {"action": "store_true", "help": "measure time instead of comparing with ASTRA-sim"},
}


@dataclass(frozen=True)
class Benchmark:
    """A function that takes what is given and yields rows, and the options that it has, with their defaults."""

    function: str
    about: str
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_paths: bool = False


def _of(function: str, about: str, paths: bool = False, **options: Any) -> Benchmark:
    return Benchmark(function, about, options, paths)


BENCHMARKS = {
    "read": _of(
        "reading:read", "a Kineto trace, beside json.loads and HTA", paths=True, rounds=5, hta_python=None
    ),
    "peers": _of(
        "peers:peers",
        "questions about a trace, beside HTA, TraceLens, pandas and DuckDB",
        paths=True,
        rounds=3,
        only=None,
        peers_python=None,
        large=False,
        page=None,
    ),
    "gz": _of("reading:read_packed", "the same, compressed", rounds=5, hta_python=None),
    "et": _of("reading:read_et", "Execution Traces of 100 MB", rounds=5),
    "link": _of("reading:link", "both traces of a rank, repeated", rounds=5, times=None),
    "summary": _of("reading:summary", "`tracebraid summary` of a large trace", paths=True, rounds=5),
    "start": _of("reading:start", "import tracebraid, and small commands", rounds=5),
    "large": _of("reading:read_large", "a Kineto trace of 1.25 GB", rounds=3, hta_python=None),
    "growth": _of("reading:growth", "linking without ids, repeated", rounds=3, times=[1, 4, 16, 64, 256]),
    "remote": _of("reading:remote", "FILE from an S3 server and from disk; listing", paths=True, rounds=3),
    "places": _of("reading:places", "huge folders, archives, the cache; of FILE", paths=True, rounds=3),
    "commands": _of("commands:commands", "each command on the bundled traces", rounds=5, beside=None),
    "many_files": _of("commands:many_files", "check of many small files", files=1000, rounds=3, beside=None),
    "engine": _of(
        "commands:engine",
        "commands in one process and in the process pool",
        paths=True,
        ranks=[4],
        rounds=3,
        only=["summary", "report", "pack"],
        start=False,
    ),
    "report": _of("commands:report", "time, memory and page of a report", paths=True, rounds=1),
    "page_frames": _of("page_frames:page_frames", "a report's page in Chromium", paths=True, seconds=5.0),
    "export": _of("exports:export", "timelines for Perfetto and Chrome", paths=True, rounds=3, ranks=[8]),
    "chakra_export": _of(
        "exports:chakra_export", "Chakra traces of ranks", paths=True, rounds=3, ranks=[8, 16]
    ),
    "store": _of("stores:store", "size, writing, reading and opening of a store", paths=True, rounds=5),
    "stored_answers": _of(
        "stores:stored_answers", "questions to a store of many ranks", ranks=[1024], rounds=3
    ),
    "scale": _of(
        "stores:scale",
        "a store by the number of its ranks",
        ranks=[16, 64, 256, 1024],
        only=["pack", "open", "summary", "collectives", "stragglers", "again", "metrics", "report"],
        engine="in-process",
        trace=None,
        steps=None,
    ),
    "analyses": _of(
        "analyses:analyses",
        "every analysis, alone and together",
        paths=True,
        rounds=5,
        only=None,
        hta_python=None,
    ),
    "whole_job": _of(
        "analyses:whole_job", "questions about a job of ranks", paths=True, ranks=[16, 32, 64], commands=False
    ),
    "graph": _of(
        "graphs:graph", "dependency graph: build, replay, errors", paths=True, all=False, errors=False
    ),
    "graph_job": _of("graphs:graph_job", "joined graphs of made ranks", ranks=[64, 128, 256], nodes=20_000),
    "stragglers": _of(
        "graphs:stragglers", "metrics of a published job, in DIR, beside those published", paths=True
    ),
    "chakra": _of(
        "chakra:chakra", ".et files: written, read, as JSON, checked", paths=True, nodes=200_000, rounds=5
    ),
    "chakra_true": _of("chakra:chakra_true", "Chakra traces of real jobs, run", paths=True),
    "chakra_run": _of(
        "chakra_run:chakra_run", "chakra run beside ASTRA-sim", jobs=100, only=None, speed=False
    ),
    "overhead": _of("recording:overhead", "cost of recording; needs torch", rounds=31),
    "unrecorded": _of("recording:unrecorded", "the step without recording; needs torch", rounds=5),
    "forms": _of(
        "recording:forms", "Execution Traces as JSON and in columns; needs torch", steps=1500, rounds=3
    ),
    "match": _of("match:match", "rightness of links without ids; needs torch", rounds=3),
    "continuous": _of(
        "recording:continuous", "minutes of recording; needs torch, 30 GB of disk", seconds=600.0
    ),
    "shapes": _of(
        "shapes:shapes",
        "steps predicted at another shape; needs torch",
        rounds=3,
        attempts=2,
        only=None,
        keep=None,
    ),
    "whatif": _of(
        "whatif:whatif",
        "predictions on pairs of programs; needs torch",
        rounds=2,
        attempts=3,
        only=None,
        keep=None,
    ),
    "serving": _of(
        "serving:serving",
        "an inference server under load, predicted; needs torch",
        rounds=3,
        steps=1000,
        processor_time=False,
    ),
}
"""Benchmarks by name."""

GROUPS = {"run": ["read", "gz", "et", "link", "summary", "start"]}
"""Several benchmarks by one name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 2 where no benchmark is named."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    names: list[str] = []
    while words and (words[0] in BENCHMARKS or words[0] in GROUPS):
        name = words.pop(0)
        names += GROUPS.get(name, [name])
    options = {name: _OPTIONS[name] for one in names for name in BENCHMARKS[one].options}
    parser = _parser(options)
    chosen = parser.parse_args(words)
    if not names:
        print("\n".join(f"{name:16}{one.about}" for name, one in BENCHMARKS.items()))
        return 2
    if chosen.paths and not all(BENCHMARKS[name].takes_paths for name in names):
        parser.error(
            f"{', '.join(name for name in names if not BENCHMARKS[name].takes_paths)}: takes no PATH"
        )
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=chosen.work) as folder:
        for name in names:
            print(name, file=sys.stderr)
            own = {
                option: default if getattr(chosen, option) is None else getattr(chosen, option)
                for option, default in BENCHMARKS[name].options.items()
            }
            given = Given(paths=chosen.paths, traces=chosen.traces, folder=Path(folder), **own)
            # A fresh process: the memory that a process holds counts as the least of its children.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                rows += pool.submit(rows_of_function, BENCHMARKS[name].function, given).result()
    print(as_json(rows) if chosen.json else f"{_machine()}\n\n{as_table(rows)}")
    return 0


def _parser(options: Mapping[str, dict[str, Any]]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks NAME...", description=__doc__)
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="what is measured instead of the default"
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="where traces are made (the system's folder)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    for name, settings in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=None, **settings)
    return parser


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("polars", "msgspec", "numpy"))
    return f"{cores} cores, Python {platform.python_version()}, {libraries}"


if __name__ == "__main__":
    sys.exit(main())
