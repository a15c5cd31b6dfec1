"""Tries scenarios, round after round, until the rounds or the time are over."""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.stress.judge import judge
from tools.stress.model import Capturing, Outcome, Problem, ProblemKind, Scenario, Trial, Way
from tools.stress.scenarios import scenario_of
from tools.stress.trials import try_out

__all__ = ["Plan", "Results", "stress"]

_PLAIN = Capturing(Way.PLAIN)
_WAYS = 2
"""In how many ways a program is captured for each time that it runs without, which takes as long."""


@dataclass(frozen=True)
class Plan:
    """What is to be tried.

    Args:
        scenarios: their names.
        ways: in which programs are captured.
        seed: of the first round; each next round has the next one.
        rounds: how often each scenario is tried, where there is no time.
        time_s: how long to go on; 0 for `rounds`.
        is_full: whether programs do all that is meant.
        keeps_failed: whether the files of a trial with a problem stay.
    """

    scenarios: tuple[str, ...]
    ways: tuple[Capturing, ...]
    seed: int
    rounds: int
    time_s: float
    is_full: bool
    keeps_failed: bool = False


@dataclass
class Results:
    """What came of it.

    Args:
        trials: how many programs were run and judged, by scenario and way.
        skipped: why a scenario cannot run here.
        problems: what may not happen, and did.
    """

    trials: dict[tuple[str, str], int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def stress(plan: Plan, folder: Path, workers: int) -> Results:
    """Try what is planned.

    Args:
        plan: what.
        folder: for the files of trials; those of a trial without a problem are removed.
        workers: how many trials at once.
    """
    results, lock = Results(), threading.Lock()
    until_s = time.monotonic() + plan.time_s
    queue = _trials(plan, results)

    def work() -> None:
        while not plan.time_s or time.monotonic() < until_s:
            with lock:
                trials = next(queue, None)
            if trials is None:
                return
            _try(trials, folder, results, lock, plan.keeps_failed)

    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work) for _ in range(workers)]:
            done.result()
    return results


def _trials(plan: Plan, results: Results) -> Iterator[list[Trial]]:
    """Each scenario once in a round, each time in the next ones of its ways; the first trial is the plain one."""
    for number in itertools.count():
        if not plan.time_s and number == plan.rounds:
            return
        for name in plan.scenarios:
            scenario = scenario_of(name)
            ways = [
                way for way in plan.ways if way.way in scenario.ways and way.recorder in scenario.recorders
            ]
            why_not = scenario.why_not() or ("" if ways else "not in this way")
            if why_not:
                results.skipped[name] = why_not
                continue
            chosen = {ways[(number * _WAYS + count) % len(ways)] for count in range(_WAYS)}

            yield [
                Trial(name, plan.seed + number, way, plan.is_full)
                for way in (_PLAIN, *(way for way in ways if way in chosen))
            ]


def _try(
    trials: list[Trial], folder: Path, results: Results, lock: threading.Lock, keeps_failed: bool
) -> None:
    plain_trial, *captured = trials
    scenario = scenario_of(plain_trial.scenario)
    own = folder / str(plain_trial).replace(", ", "-").replace(" ", "_")
    plain = try_out(plain_trial, own / "plain", scenario.limit_s)
    _add(results, lock, plain_trial, _of_plain(scenario, plain_trial, plain))
    if plain.returncode in scenario.expected_codes:
        for number, trial in enumerate(captured):
            got = try_out(trial, own / str(number), scenario.limit_s)
            _add(results, lock, trial, judge(scenario, trial, plain, got))
    if not (keeps_failed and any(problem.trial in trials for problem in results.problems)):
        shutil.rmtree(own, ignore_errors=True)


def _add(results: Results, lock: threading.Lock, trial: Trial, found: list[Problem]) -> None:
    with lock:
        key = (trial.scenario, str(trial.capturing))
        results.trials[key] = results.trials.get(key, 0) + 1
        results.problems += found
        for problem in found:
            print(f"FAILED {problem}", file=sys.stderr, flush=True)


def _of_plain(scenario: Scenario, trial: Trial, plain: Outcome) -> list[Problem]:
    """A scenario whose program does not do what it says without any capture tests nothing."""
    code, right = plain.returncode, scenario.expected_codes
    if code in right:
        return []
    return [Problem(ProblemKind.EXIT, trial, f"{code}, and not {right}: {plain.stderr[-600:]}")]
