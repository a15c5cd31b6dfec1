"""The record of a run: a table of scenarios, in which ways each was tried, and how often it failed."""

from __future__ import annotations

from tools.stress.growth import Growth
from tools.stress.model import CAPTURED
from tools.stress.runner import Plan, Results
from tools.stress.scenarios import scenario_of

__all__ = ["table_of"]


def table_of(plan: Plan, results: Results, growth: Growth) -> str:
    """The table, as Markdown."""
    ways = [str(way) for way in CAPTURED]
    lines = [f"| scenario | what | {' | '.join(ways)} | failed |", f"|---|---|{'--:|' * (len(ways) + 1)}"]
    for name in plan.scenarios:
        counts = [str(results.trials.get((name, way), 0)) for way in ways]
        failed = len({problem.trial for problem in results.problems if problem.trial.scenario == name})
        about = scenario_of(name).about
        if name in results.skipped:
            about += f" (not here: {results.skipped[name]})"
        lines.append(f"| {name} | {about} | {' | '.join(counts)} | {failed} |")
    programs = sum(results.trials.values())
    captured = sum(count for (_, way), count in results.trials.items() if way in ways)
    lines += ["", f"{programs} programs, {captured} of them captured: {len(results.problems)} problems."]
    return "\n".join([*lines, *growth.lines(), *map(str, results.problems)])
