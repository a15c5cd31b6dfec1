"""Starts programs of scenarios in fresh processes, round after round, and judges them."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.processes import living, start_session, stop_ignoring_signals
from tools.stress.judge import judge
from tools.stress.model import Capturing, Outcome, Problem, ProblemKind, Scenario, Trial, Way
from tools.stress.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
_OURS = ("TRACEBRAID_", "RANK", "WORLD_SIZE", "PYTHONPATH", "MASTER_")
_CLEAN_UP_S = 2.0
"""Seconds that processes of the program have to end after it, as those of a DataLoader do."""


def options_of(trial: Trial) -> dict[str, Any]:
    """Options of `tracebraid.capture` beside the folder; they depend on the seed only."""
    drawn = random.Random(trial.seed)
    return {
        "skip_first": 1,
        "wait": drawn.choice([0, 1]),
        "warmup": drawn.choice([0, 1, 1]),
        "active": drawn.choice([1, 2, 3]),
        "repeat": drawn.choice([1, 1, 2]),
        "stacks": drawn.random() < 0.2,
        "memory": drawn.random() < 0.2,
        "recorder": trial.capturing.recorder,
    }


def try_out(trial: Trial, folder: Path, limit_s: float) -> Outcome:
    """Run the program of a trial to its end."""
    for name in ("out", "tmp", "own"):
        (folder / name).mkdir(parents=True)
    began_s = time.monotonic()
    process = start_session(_command(trial, folder), folder, _environment(trial, folder), ROOT)
    returncode: int | None = None
    with suppress(subprocess.TimeoutExpired):
        returncode = process.wait(limit_s)
    strays = _end(process, wait=returncode is not None)
    return Outcome(
        returncode,
        (folder / "stdout").read_text(errors="replace"),
        (folder / "stderr").read_text(errors="replace"),
        time.monotonic() - began_s,
        folder,
        strays,
    )


def _command(trial: Trial, folder: Path) -> list[str]:
    words = [trial.scenario, str(trial.seed), str(folder / "own"), *["full"] * trial.is_full]
    program = [sys.executable, "-m", "tools.stress.program", *words]
    if trial.capturing.way is not Way.COMMAND:
        return program
    options = options_of(trial)
    flags = [f"--{name}" for name in ("stacks", "memory") if options.pop(name)]
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    capture = [sys.executable, "-m", "tracebraid", "capture", "--no-check", "-o", str(folder / "out")]
    return [*capture, *words, *flags, "--", *program]


def _environment(trial: Trial, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    kept |= {name: value for name, value in os.environ.items() if name in ("TRACEBRAID_CACHE",)}
    kept |= {"TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    if trial.is_strict:
        kept["PYTHONWARNINGS"] = "error"
    if trial.capturing.way is Way.CONTEXT:
        options = {"out_dir": str(folder / "out"), "check": False, **options_of(trial)}
        kept["TRACEBRAID_STRESS_CAPTURE"] = json.dumps(options)
    return kept


def _end(process: subprocess.Popen[bytes], wait: bool) -> int:
    """End what is left of a session: how many processes that were, once those that end by themselves had."""
    until_s = time.monotonic() + _CLEAN_UP_S * wait
    left = _members(process.pid)
    while left and time.monotonic() < until_s:
        time.sleep(0.05)
        left = _members(process.pid)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return len(left)


def _members(session: int) -> list[int]:
    """The living processes of a session."""
    return [pid for pid, of_session in living() if of_session == session]


_PLAIN = Capturing(Way.PLAIN)
_WAYS = 2
"""In how many ways a program is captured for each time that it runs without, which takes as long."""


@dataclass(frozen=True)
class Plan:
    """A plan of trials."""

    scenarios: tuple[str, ...]  # their names
    ways: tuple[Capturing, ...]  # in which programs are captured
    seed: int  # of the first round; each next round has the next one
    rounds: int  # how often each scenario is tried, where there is no time
    time_s: float  # how long to go on; 0 for `rounds`
    is_full: bool  # whether programs do all that is meant
    is_strict: bool = False  # whether warnings are errors
    keeps_failed: bool = False  # whether the files of a trial with a problem stay


@dataclass
class Results:
    """Results of a plan."""

    # how many programs were run and judged, by scenario and way
    trials: dict[tuple[str, str], int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # why a scenario cannot run here
    problems: list[Problem] = field(default_factory=list)  # what may not happen, and did


def stress(plan: Plan, folder: Path, workers: int) -> Results:
    """Try what is planned."""
    stop_ignoring_signals()
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
            scenario = SCENARIOS[name]
            ways = [
                way for way in plan.ways if way.way in scenario.ways and way.recorder in scenario.recorders
            ]
            why_not = scenario.why_not() or ("" if ways else "not in this way")
            if why_not:
                results.skipped[name] = why_not
                continue
            chosen = {ways[(number * _WAYS + count) % len(ways)] for count in range(_WAYS)}

            yield [
                Trial(name, plan.seed + number, way, plan.is_full, plan.is_strict)
                for way in (_PLAIN, *(way for way in ways if way in chosen))
            ]


def _try(
    trials: list[Trial], folder: Path, results: Results, lock: threading.Lock, keeps_failed: bool
) -> None:
    plain_trial, *captured = trials
    scenario = SCENARIOS[plain_trial.scenario]
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
