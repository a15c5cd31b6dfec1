"""Ask everything of sound jobs, and of the same jobs under blindfolds; print what is equal, doubted, or silently wrong.

    python -m benchmarks.blindfolds [--job NAME]... [--blindfold NAME]... [--silent] [--table]

An answer is *equal* where all its numbers are those of the sound job; *doubted* where it abstains, says what it lacks,
or the job has a finding that the sound job has not; *silent* where numbers differ and nothing says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.blindfolds.blindfolds import BLINDFOLDS, blindfolded
from benchmarks.blindfolds.jobs import JOBS
from benchmarks.blindfolds.verdicts import Verdict, answers_of, compared

__all__: list[str] = []


def results(jobs: list[str], names: list[str]) -> Iterator[tuple[str, str, str, Verdict, str]]:
    """Job, blindfold, answer, verdict and how it differs."""
    for job in jobs or JOBS:
        ranks = JOBS[job]()
        with tempfile.TemporaryDirectory() as folder:
            truth = answers_of(ranks, Path(folder))
        for blindfold in BLINDFOLDS:
            if names and blindfold.name not in names:
                continue
            changed = blindfolded(blindfold, ranks)
            if changed is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = answers_of(changed, Path(folder))
            for answer, (verdict, how) in compared(truth, found).items():
                yield job, blindfold.name, answer, verdict, how


def _main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", action="append", default=[])
    parser.add_argument("--blindfold", action="append", default=[])
    parser.add_argument("--silent", action="store_true", help="print each silent answer")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: dict[str, Counter[Verdict]] = {}
    rows = []
    for job, blindfold, answer, verdict, how in results(chosen.job, chosen.blindfold):
        counts.setdefault(blindfold, Counter())[verdict] += 1
        rows.append((job, blindfold, answer, verdict.value, how))
        if chosen.silent and verdict is Verdict.SILENT:
            print(f"{job}: {blindfold}: {answer}: {how}", flush=True)
    if chosen.json:
        print(json.dumps(rows, indent=0))
        return 0
    print("| blindfold | equal | doubted | silent |\n|---|--:|--:|--:|")
    total: Counter[Verdict] = Counter()
    for blindfold, of_one in counts.items():
        total += of_one
        print(f"| {blindfold} | " + " | ".join(f"{of_one[verdict]:,}" for verdict in Verdict) + " |")
    print("| **all** | " + " | ".join(f"**{total[verdict]:,}**" for verdict in Verdict) + " |")
    return 1 if total[Verdict.SILENT] else 0


if __name__ == "__main__":
    sys.exit(_main())
