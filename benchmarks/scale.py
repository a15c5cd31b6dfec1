"""Measure a store by the number of its ranks: packing it, opening it, and questions to it.

    python -m benchmarks.scale [--ranks 16 64 256 1024] [--only summary report] [--engine in-process] [--json]

The ranks are those of `many_ranks`. `ms a rank` is the time beyond that of two ranks, by the ranks beyond these;
`to the fewest` is that to the one of the smallest job: 1 is linear. Times are processor time, which is steadier than
wall time on a busy machine. `again` asks what was asked before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.many_ranks import RankCopies, write_ranks
from benchmarks.measure import Measured, command, task
from benchmarks.table import Row, as_json, as_table

__all__ = ["rows_of_part"]

_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "summary": ("summary",),
    "collectives": ("analyze", "collectives"),
    "stragglers": ("analyze", "stragglers"),
    "again": ("analyze", "stragglers"),
    "metrics": ("metrics",),
    "report": ("report",),
}
_LEAST = 2
"""Ranks of the job whose time is taken to be that of starting."""
_PARTS = ("pack", "open", *_QUESTIONS)
_OPEN = (
    "import json, sys, time, tracebraid\n"
    "tracebraid.open(sys.argv[1])\n"
    "wall, cpu = time.perf_counter(), time.process_time()\n"
    "tracebraid.open(sys.argv[1])\n"
    "print(json.dumps({'seconds': time.perf_counter() - wall, 'cpu_seconds': time.process_time() - cpu,"
    " 'peak_bytes': 0}))\n"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    numbers = sorted({_LEAST, *given.ranks})
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        runs: dict[str, dict[int, Measured]] = {part: {} for part in given.only}
        for ranks in numbers:
            print(f"  {ranks} ranks", file=sys.stderr)
            for part, measured in _measured(Path(folder) / str(ranks), ranks, given):
                runs[part][ranks] = measured
    rows = [row for part in given.only for row in rows_of_part(part, runs[part])]
    print(as_json(rows) if given.json else as_table(rows))


def rows_of_part(part: str, runs: Mapping[int, Measured]) -> Iterator[Row]:
    """A row for each number of ranks.

    Args:
        part: what was measured.
        runs: by the number of ranks; of two, too.
    """
    start_s = runs[_LEAST].cpu_seconds
    of_rank = {
        ranks: (run.cpu_seconds - start_s) / (ranks - _LEAST)
        for ranks, run in sorted(runs.items())
        if ranks > _LEAST
    }
    fewest = next(iter(of_rank.values()))
    for ranks, seconds in of_rank.items():
        run = runs[ranks]
        figures = {"ms a rank": seconds * 1e3, "to the fewest": seconds / fewest if fewest > 0 else 1.0}
        yield Row(
            "scale", f"{part}, {ranks:,} ranks", run.seconds, run.cpu_seconds, run.peak_bytes or None, figures
        )


def _measured(folder: Path, ranks: int, given: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    traces, store = folder / "traces", folder / "job.tbstore"
    copies = RankCopies(ranks)
    if given.trace is not None:
        copies = replace(copies, trace=given.trace, et=None)
    write_ranks(copies, traces)
    engine = ("--engine", given.engine)
    packed = command(_words("pack", str(traces), "-o", str(store), *engine))
    for part in given.only:
        if part == "pack":
            yield part, packed
        elif part == "open":
            yield part, task(["-c", _OPEN, str(store)])
        else:
            page = ("-o", str(folder / "report.html")) if part == "report" else ()
            yield part, command(_words(*_QUESTIONS[part], str(store), *engine, *page))


def _words(*words: str) -> list[str]:
    return [sys.executable, "-m", "tracebraid", *words]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--engine", default="in-process")
    parser.add_argument(
        "--trace", type=Path, help="a Kineto trace that ranks are copies of; else the bundled pair"
    )
    parser.add_argument("--folder", type=Path, help="where to write the jobs meanwhile")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    main()
