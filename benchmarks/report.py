"""What a report costs: time, memory and the size of its page, each in a fresh process.

    python -m benchmarks.report [PATH ...] [--rounds 1] [--json]

PATH is a folder of traces or a Kineto trace; by default the bundled demo. `compressed` is the size with gzip, as a
server would send it. Whether other processes run shows in wall time against processor time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from isal import igzip

import tracebraid
from benchmarks.measure import Measured, command, side_by_side, typical
from benchmarks.table import Row, as_json, as_table

__all__ = ["report_rows"]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="how often each is measured (1)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = report_rows(given.paths or [tracebraid.demo_path()], given.rounds)
    print(as_json(rows) if given.json else as_table(rows))


def report_rows(paths: Sequence[Path], rounds: int) -> list[Row]:
    """A row for each path."""
    with tempfile.TemporaryDirectory() as folder:
        pages = {str(path): Path(folder) / f"{number}.html" for number, path in enumerate(paths)}
        runs = side_by_side({path: partial(_measured, path, page) for path, page in pages.items()}, rounds)
        return [_row(path, typical(runs[path]), page) for path, page in pages.items()]


def _measured(path: str, page: Path) -> Measured:
    page.unlink(missing_ok=True)
    return command([sys.executable, "-m", "tracebraid", "report", path, "-o", str(page)])


def _row(path: str, run: Measured, page: Path) -> Row:
    data = page.read_bytes()
    figures = {"page_kb": len(data) / 1e3, "compressed_kb": len(igzip.compress(data, 2, mtime=0)) / 1e3}
    return Row("report", Path(path).name, run.seconds, run.cpu_seconds, run.peak_bytes, figures)


if __name__ == "__main__":
    main()
