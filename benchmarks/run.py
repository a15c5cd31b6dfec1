"""Measure reading, linking and answering, beside `json.loads` and, where it is installed, HTA.

    python -m benchmarks.run [--only read] [--rounds 7] [--large] [--hta-python PATH]

Each measurement is a fresh process; the rounds go in turn through all that is compared, and medians are shown.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.cases import BENCHMARKS, LARGE, Setting
from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.table import as_json, as_table

__all__: list[str] = []


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    all_of_them = {**BENCHMARKS, **LARGE}
    names = given.only or [*BENCHMARKS, *(LARGE if given.large else ())]
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        inputs = Inputs(Path(folder), find_real_traces(given.traces))
        setting = Setting(inputs, given.rounds, given.hta_python)
        rows = []
        for name in names:
            print(name, file=sys.stderr)
            rows += list(all_of_them[name](setting))
    print(as_json(rows) if given.json else f"{_machine()}\n\n{as_table(rows)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument(
        "--only", action="append", choices=[*BENCHMARKS, *LARGE], help="only this; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each is measured (5)")
    parser.add_argument("--large", action="store_true", help="the 1.25 GB trace too")
    parser.add_argument(
        "--hta-python", metavar="PATH", help="an interpreter that has HTA, to measure it as well"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to make traces (the system's folder)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("polars", "msgspec", "numpy"))
    return f"{cores} cores, Python {platform.python_version()}, {libraries}"


if __name__ == "__main__":
    main()
