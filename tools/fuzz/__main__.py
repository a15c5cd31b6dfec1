"""`python -m tools.fuzz`: tries mutants of small traces, or one again; exit code 1 where one failed."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tools.fuzz.formats import FORMATS, format_of
from tools.fuzz.model import Mutant
from tools.fuzz.mutants import files_of, names_of
from tools.fuzz.running import try_formats, write_failures
from tools.fuzz.watching import write_samples
from tools.fuzz.worker import lay_out, try_call


def main() -> int:
    """Run the command line."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="tracebraid-fuzz-") as name:
        folder = Path(name).resolve()
        if options.again is not None:
            return _again(options.again, folder, options.files, options.keep)
        names = options.formats.split(",") if options.formats else FORMATS
        write_samples(folder, names)
        tally = try_formats(names, options.minutes, options.seed, folder, options.processes)
        print("\n".join(tally.lines()))
        if options.failures is not None and tally.found:
            write_failures(tally, folder, options.failures)
    return int(bool(tally.found))


def _again(mutant: Mutant, folder: Path, given: Path | None, keep: Path | None) -> int:
    """Make the calls of a mutant in this process, and show tracebacks; 1 where one failed."""
    format_ = format_of(mutant.format)
    if given is None:
        (folder / "samples").mkdir()
        samples = format_.samples(folder / "samples")
        files = files_of(mutant, samples)
        print(f"sample {samples[mutant.sample].name}, {', '.join(names_of(mutant, format_))}")
    else:
        files = {
            str(path.relative_to(given)): path.read_bytes() for path in given.rglob("*") if path.is_file()
        }
    print("\n".join(f"  {path}: {len(data):,} bytes" for path, data in sorted(files.items())))
    if keep is not None:
        lay_out(files, keep)
    asked = [
        try_call(format_.all_calls[number], files, folder / "mutant", mutant.seed) for number in mutant.calls
    ]
    for one in asked:
        print(f"{one.call}: {one.outcome.value} in {1000 * one.took_s:.0f} ms {one.message}".rstrip())
        if one.failure is not None:
            print(f"  {one.failure.kind.value}: {one.failure.message}\n{one.failure.traceback}")
    return int(any(one.failure is not None for one in asked))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to try mutants (1)")
    parser.add_argument("--formats", metavar="A,B", help=f"of {', '.join(FORMATS)}; all by default")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first round (0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="workers at once")
    parser.add_argument(
        "--failures", type=Path, metavar="DIR", help="write the files of each failure, and a list"
    )
    parser.add_argument(
        "--again", type=Mutant.of, metavar="MUTANT", help="one mutant as it was printed, in this process"
    )
    parser.add_argument(
        "--files", type=Path, metavar="DIR", help="with --again: these files instead of its own"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="with --again: write its files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
