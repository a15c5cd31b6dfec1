"""Measure joining and replaying the dependency graph of a job by the number of its ranks.

    python -m benchmarks.graph_job [--ranks 64 128 256] [--events 20000] [--json]

Each number of ranks is a fresh process. The part of each rank is made by numpy, see `graph_job_task`: reading and
linking traces is not in it. `make` is the time for that, `join` that of `join_ranks`, `replay` that of a replay with
compiled code at hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.measure import Measured, task

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Join and replay the dependency graph of a generated job.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--events", type=int, default=20_000, help="events of a rank")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    runs = {}
    for ranks in sorted(set(given.ranks)):
        print(f"  {ranks} ranks", file=sys.stderr)
        runs[ranks] = task(["-m", "benchmarks.graph_job_task", str(ranks), str(given.events)])
    if given.json:
        print(json.dumps({ranks: _figures(run) for ranks, run in runs.items()}))
        return
    print(
        f"{'ranks':>6} {'edges':>12} {'make s':>8} {'join s':>8} {'replay s':>9} {'M edges/s':>10} {'peak MB':>8}"
    )
    for ranks, run in runs.items():
        row = _figures(run)
        print(
            f"{ranks:>6} {row['edges']:>12,.0f} {row['make']:>8.2f} {row['join']:>8.2f} {row['replay']:>9.3f} "
            f"{row['edges'] / row['replay'] / 1e6:>10.0f} {row['peak_mb']:>8.0f}"
        )


def _figures(run: Measured) -> dict[str, float]:
    return {**run.parts, "peak_mb": run.peak_bytes / 1e6}


if __name__ == "__main__":
    main()
