"""Tries mutants in rounds of hypothesis, one worker process each, until the time is over; counts what came of them."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from hypothesis import HealthCheck, Verbosity, given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tools.fuzz.formats import SLOW
from tools.fuzz.model import Asked, Failure, FailureKind, Mutant
from tools.fuzz.mutants import files_of, mutants
from tools.fuzz.watching import Limits, Watched
from tools.fuzz.worker import lay_out, read_samples

_ROUND, _SLOW_ROUND = 50, 5
"""Mutants of a round: slow formats get about half of the time."""
_SLOWEST = 5
_DATABASE = Path(".hypothesis/fuzz")
"""Failures of earlier runs, which are tried again first."""

_ENDS_WORKER = (FailureKind.DIED, FailureKind.HANG)
"""Failures that are not shrunk: each attempt would cost a new worker."""

Identity = tuple[FailureKind, str]


@dataclass
class Tally:
    """Mutants and calls tried, and failures: of those of one kind and place the last, which is the smallest."""

    mutants: Counter[str] = field(default_factory=Counter)
    calls: dict[str, Counter[str]] = field(default_factory=dict)
    slowest: list[tuple[float, str, str]] = field(default_factory=list)
    found: dict[Identity, tuple[Mutant, Failure]] = field(default_factory=dict)
    failures: Counter[Identity] = field(default_factory=Counter)
    most_grown_bytes: int = 0

    def add(self, mutant: Mutant, asked: Sequence[Asked]) -> None:
        """Count a mutant."""
        self.mutants[mutant.format] += 1
        for one in asked:
            self.calls.setdefault(one.call, Counter())[one.outcome.value] += 1
            if one.failure is not None:
                self.failures[one.failure.identity] += 1
        timed = [*self.slowest, *((one.took_s, one.call, str(mutant)) for one in asked)]
        self.slowest = sorted(timed, reverse=True)[:_SLOWEST]

    def merge(self, other: Tally) -> None:
        """Add what another process tried."""
        self.mutants += other.mutants
        for name, outcomes in other.calls.items():
            self.calls.setdefault(name, Counter()).update(outcomes)
        self.slowest = sorted([*self.slowest, *other.slowest], reverse=True)[:_SLOWEST]
        self.found = {**other.found, **self.found}
        self.failures += other.failures
        self.most_grown_bytes = max(self.most_grown_bytes, other.most_grown_bytes)

    def lines(self) -> list[str]:
        """A summary."""
        calls = sum(outcomes.total() for outcomes in self.calls.values())
        return [
            f"{self.mutants.total():,} mutants, {calls:,} calls: {self.failures.total():,} failures in "
            f"{len(self.found):,} places; a worker grew by at most {self.most_grown_bytes >> 20} MB",
            *(f"  {name}: {number:,} mutants" for name, number in sorted(self.mutants.items())),
            *(
                f"  {name}: {', '.join(f'{number:,} {outcome}' for outcome, number in sorted(outcomes.items()))}"
                for name, outcomes in sorted(self.calls.items())
            ),
            *(f"  slowest: {took_s:.1f} s, {call}, {mutant}" for took_s, call, mutant in self.slowest),
            *(_line(*one) for one in self.found.values()),
        ]


@dataclass(frozen=True)
class Round:
    """Mutants of a format, drawn by a seed; with calls drawn beside those made on every mutant, or without."""

    format: str
    seed: int
    examples: int
    with_chosen: bool = True
    database: DirectoryBasedExampleDatabase | None = None
    until_s: float = float("inf")


def try_round(plan: Round, worker: Watched, tally: Tally) -> None:
    """Try the mutants of a round, and shrink the first of each failure; once its time is over, only shrink."""
    known, errors = set(tally.found), dict[Identity, type[Exception]]()

    @seed(plan.seed)
    @settings(
        max_examples=plan.examples,
        database=plan.database,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(mutants(plan.format, worker.samples[plan.format], plan.with_chosen))
    def fails_nowhere(mutant: Mutant) -> None:
        if not errors and time.monotonic() > plan.until_s:
            return
        asked = worker.ask(mutant)
        tally.add(mutant, asked)
        for one in asked:
            if (failure := one.failure) is not None and failure.identity not in known:
                if failure.identity not in tally.found:
                    print(_line(mutant, failure), file=sys.stderr, flush=True)
                tally.found[failure.identity] = mutant, failure
                if failure.kind in _ENDS_WORKER:
                    known.add(failure.identity)
                    continue
                # Hypothesis takes failures with one type and line of code for the same.
                raise errors.setdefault(failure.identity, type("MutantFails", (Exception,), {}))

    try:
        fails_nowhere()
    except Exception:
        if not errors:
            raise


def try_formats(names: Sequence[str], minutes: float, first_seed: int, folder: Path, processes: int) -> Tally:
    """Try rounds of formats in turn, in several processes, for so many minutes."""
    until_s = time.monotonic() + 60 * minutes
    tally = Tally()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        shares = [
            pool.submit(_share, names, until_s, range(first_seed + number, sys.maxsize, processes), folder)
            for number in range(processes)
        ]
        for share in shares:
            tally.merge(share.result())
    return tally


def _share(names: Sequence[str], until_s: float, seeds: range, folder: Path) -> Tally:
    """Try the rounds of these seeds; a seed determines the format, too."""
    tally = Tally()
    with Watched(folder / f"worker_{seeds.start}", Limits()) as worker, suppress(KeyboardInterrupt):
        for number in seeds:
            if time.monotonic() > until_s:
                break
            name = names[number % len(names)]
            examples = _SLOW_ROUND if name in SLOW else _ROUND
            database = DirectoryBasedExampleDatabase(_DATABASE / name)
            try_round(Round(name, number, examples, True, database, until_s), worker, tally)
        tally.most_grown_bytes = worker.most_grown_bytes
    return tally


def write_failures(tally: Tally, run_folder: Path, target: Path) -> None:
    """Write the files of each failure into a folder of its own, and a list of all."""
    samples = read_samples(run_folder)
    target.mkdir(parents=True, exist_ok=True)
    lines = []
    for (kind, place), (mutant, failure) in tally.found.items():
        name = re.sub(r"[^a-z0-9]+", "-", f"{kind.value} {place}".lower()).strip("-")
        lay_out(files_of(mutant, samples[mutant.format]), target / name)
        lines.append(f"- {name}: {_line(mutant, failure)}")
    (target / "README.md").write_text("\n".join(lines) + "\n")


def _line(mutant: Mutant, failure: Failure) -> str:
    message = " ".join(failure.message.split())[:300]
    return f"{failure.kind.value} in {failure.call} at {failure.place or '?'}: {message} (--again {mutant})"
