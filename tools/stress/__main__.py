"""`python -m tools.stress [--minutes M | --rounds R] [SCENARIO...]`: the table of what was tried, and what failed."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tools.stress.growth import Growth, watch_growth
from tools.stress.model import CAPTURED, Capturing, Way
from tools.stress.runner import Plan, Results, stress
from tools.stress.scenarios import SCENARIOS
from tracebraid.recorders.native.library import build


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
    parser.add_argument("--strict", action="store_true", help="warnings are errors, as under python -W error")
    parser.add_argument("--growth", action="store_true", help="watch the memory of long programs beside")
    parser.add_argument("--keep", type=Path, help="a folder for the files of what failed")
    given = parser.parse_args(words)
    ways = (
        [Capturing(Way[way.upper()], recorder) for way, recorder in [given.way.split()]]
        if given.way
        else CAPTURED
    )
    plan = Plan(
        tuple(given.scenarios or sorted(SCENARIOS)),
        tuple(ways),
        given.seed,
        given.rounds,
        given.minutes * 60,
        given.full,
        given.strict,
        given.keep is not None,
    )
    if any(way.recorder == "native" for way in ways):
        # Not within the time of a program.
        build()
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="stress-", ignore_cleanup_errors=True)
        folder = (given.keep or Path(stack.enter_context(temporary))).resolve()
        with watch_growth(folder / "growth", given.growth) as growth:
            results = stress(plan, folder, given.workers)
        results.problems.extend(growth.problems())
        print(_table(plan, results, growth))
    return min(len(results.problems), 1)


def _table(plan: Plan, results: Results, growth: Growth) -> str:
    """The table, as Markdown."""
    ways = [str(way) for way in CAPTURED]
    lines = [f"| scenario | what | {' | '.join(ways)} | failed |", f"|---|---|{'--:|' * (len(ways) + 1)}"]
    for name in plan.scenarios:
        counts = [str(results.trials.get((name, way), 0)) for way in ways]
        failed = len({problem.trial for problem in results.problems if problem.trial.scenario == name})
        about = SCENARIOS[name].about
        if name in results.skipped:
            about += f" (not here: {results.skipped[name]})"
        lines.append(f"| {name} | {about} | {' | '.join(counts)} | {failed} |")
    programs = sum(results.trials.values())
    captured = sum(count for (_, way), count in results.trials.items() if way in ways)
    lines += ["", f"{programs} programs, {captured} of them captured: {len(results.problems)} problems."]
    return "\n".join([*lines, *growth.lines(), *map(str, results.problems)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
