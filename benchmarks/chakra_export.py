"""Measure the export of Chakra traces: a large rank at each level of detail, and jobs of many ranks.

    python -m benchmarks.chakra_export [TRACE] [--rounds 3] [--ranks 8 16] [--traces DIR] [--json]

Each is a whole command in a fresh process: reading, linking, the dependency graph, nodes, files. The jobs have so many
copies of a trace with NCCL, each with a rank of its own; all of it runs in one process, so that its memory shows
whether ranks are held. Without TRACE, that of 54 MB (216,000 events) is measured.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.export import ranks_in
from benchmarks.inputs import DEMO, Inputs, find_real_traces
from benchmarks.measure import Measured, command, side_by_side, typical
from benchmarks.table import Row, Target, as_json, as_table

__all__: list[str] = []

MOST_SECONDS = 3.0
MOST_BYTES = 500_000_000
"""The project's targets for a rank of 216,000 events."""
_DETAILS = ("full", "device", "merged")
_NCCL = "kineto/a100_ddp_nccl_rank0of2.json.gz"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, nargs="?", metavar="TRACE")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (3)")
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 16], metavar="N", help="ranks of jobs")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    real = find_real_traces(given.traces)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        trace = given.trace or Inputs(folder, real).timeline()
        source = DEMO / "kineto_trace_0.json.gz" if real is None else real / _NCCL
        subjects = {f"one rank, {detail}": (trace, detail) for detail in _DETAILS}
        for ranks in given.ranks:
            subjects[f"{ranks} ranks, full"] = (ranks_in(folder / f"{ranks}", source, ranks), "full")
        exports: dict[str, Callable[[], Measured]] = {
            name: partial(_export, folder / "out", *subject) for name, subject in subjects.items()
        }
        rows = [_row(name, typical(runs)) for name, runs in side_by_side(exports, given.rounds).items()]
    print(as_json(rows) if given.json else as_table(rows))


def _export(out: Path, source: Path, detail: str) -> Measured:
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, "-m", "tracebraid", "export", str(source), "--to", "chakra", "-o", str(out)]
    took = command([*words, "--detail", detail, "--missing", "shrink", "--engine", "in-process"])
    written = sum(path.stat().st_size for path in out.glob("*.et"))
    return Measured(took.seconds, took.cpu_seconds, took.peak_bytes, {"MB": written / 1e6})


def _row(name: str, took: Measured) -> Row:
    met = took.seconds <= MOST_SECONDS and took.peak_bytes <= MOST_BYTES
    goal = Target(f"{MOST_SECONDS:g} s, {MOST_BYTES / 1e6:g} MB", met) if name == "one rank, full" else None
    return Row("chakra export", name, took.seconds, took.cpu_seconds, took.peak_bytes, took.parts, goal)


if __name__ == "__main__":
    main()
