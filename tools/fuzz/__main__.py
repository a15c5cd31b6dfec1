"""`python -m tools.fuzz`: tries mutants of small traces, or repeats one; exit code 1 where one failed."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

from tools.fuzz.formats import FORMATS, TURNS
from tools.fuzz.found import write_found
from tools.fuzz.mutants import seeds_over
from tools.fuzz.progress import Progress
from tools.fuzz.record import record_page, summary
from tools.fuzz.replaying import replay
from tools.fuzz.running import Plan, Run, try_seeds
from tools.fuzz.watching import write_samples


def main() -> int:
    """Do what the command line says."""
    options = _parser().parse_args()
    if options.replay is not None:
        return replay(options.replay, options.keep)
    begin, end = options.seeds if options.seeds else (0, None)
    turns = options.formats.split(",") if options.formats else TURNS
    plan = Plan(seeds_over(turns, begin, end), options.minutes, options.processes)
    with tempfile.TemporaryDirectory(prefix="tracebraid-fuzz-") as name:
        folder = Path(name).resolve()
        write_samples(folder, sorted(set(turns)))
        run = try_seeds(plan, folder, Progress())
        print(summary(run))
        if options.failures is not None and run.tally.found:
            write_found(list(run.tally.found.values()), folder, options.failures, options.minimise)
    if options.record is not None:
        _write_record(run, options)
    return int(run.tally.failures > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--seeds",
        type=_numbers,
        metavar="0-100000",
        help="divided over the formats, fewer for those that are slow",
    )
    what.add_argument("--minutes", type=float, help="seeds from 0 on, for so long")
    what.add_argument(
        "--replay", metavar="FORMAT:NUMBER", help="one mutant, in this process, with tracebacks"
    )
    parser.add_argument("--formats", metavar="A,B", help=f"of {', '.join(FORMATS)}; all by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="workers at once")
    parser.add_argument("--failures", type=Path, metavar="DIR", help="the files of each failure, and a list")
    parser.add_argument("--minimise", action="store_true", help="with --failures: the smallest that fail")
    parser.add_argument("--record", type=Path, metavar="FILE", help="a Markdown page of what was run")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="with --replay: the files of the mutant")
    return parser


def _numbers(text: str) -> tuple[int, int]:
    """The numbers of `0-100000`, or below `100000`; the last is left out."""
    begin, dash, end = text.partition("-")
    return (int(begin), int(end)) if dash else (0, int(begin))


def _write_record(run: Run, options: argparse.Namespace) -> None:
    command = shlex.join(["python", "-m", "tools.fuzz", *sys.argv[1:]])
    options.record.write_text(record_page(run, command, options.processes))


if __name__ == "__main__":
    sys.exit(main())
