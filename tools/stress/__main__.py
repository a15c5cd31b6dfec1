"""`python -m tools.stress [--minutes M | --rounds R] [SCENARIO...]`: the table of what was tried, and what failed."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tools.stress.growth import watch_growth
from tools.stress.model import CAPTURED, Capturing, Way
from tools.stress.report import table_of
from tools.stress.runner import Plan, stress
from tools.stress.scenarios import names


def main(words: list[str]) -> int:
    """Try scenarios until the time is over; 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.stress", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="these only")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long; 0: --rounds")
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often each scenario is tried, where no time is given"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument(
        "--way", choices=[str(one) for one in CAPTURED], help="this way only, such as 'command native'"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="trials at once")
    parser.add_argument(
        "--full", action="store_true", help="full size, such as 10 million operators: minutes more"
    )
    parser.add_argument("--growth", action="store_true", help="watch the memory of long programs beside")
    parser.add_argument("--keep", type=Path, help="a folder for the files of what failed")
    given = parser.parse_args(words)
    ways = (
        [Capturing(Way[way.upper()], recorder) for way, recorder in [given.way.split()]]
        if given.way
        else CAPTURED
    )
    plan = Plan(
        tuple(given.scenarios or names()),
        tuple(ways),
        given.seed,
        given.rounds,
        given.minutes * 60,
        given.full,
        given.keep is not None,
    )
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="stress-", ignore_cleanup_errors=True)
        folder = (given.keep or Path(stack.enter_context(temporary))).resolve()
        with watch_growth(folder / "growth", given.growth) as growth:
            results = stress(plan, folder, given.workers)
        results.problems.extend(growth.problems())
        print(table_of(plan, results, growth))
    return min(len(results.problems), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
