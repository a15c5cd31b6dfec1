"""A planted case: how it is built, and what has to be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.examination.planted.machine import Job, Options

__all__ = ["Build", "PlantedCase", "declare"]

Build = Callable[[Job, bool], None]
"""Plants a job; the second argument says whether with its fault."""
Check = Callable[[Path], str]
"""Asks more of a folder of traces; the answer is what is wrong with it, or empty."""


@dataclass(frozen=True)
class PlantedCase:
    """A job made in code, and the answer that is right.

    Args:
        build: plants it, with its fault or without: their difference, both without a profiler's cost, is the saving.
        kind: `cause`, `pair`, `decoy`, `clean`, `missing`, `artefact`.
        first: names of advice any of which is right in first place; empty: no item may save 5 % of the step.
        places: texts of which the first item has to name one: op, line, subject, site, rank.
        saves_us: saving per step by hand, from and to, where no run without the fault says it.
        never: names of advice that may not be given, whatever they save.
        at_top: names of which at most one may stand on its own.
        unsaid: words that must not be in the verdict, titles and changes.
        says: words of which the verdict or the first item's change has to have one.
        bound: causes of the accounting of which one has the most time.
        abstains: whether the verdict has to say that it cannot tell.
        ranks: of the job.
        options: how it is recorded.
        check: what else is asked.
        also_true: names of advice that may be among the first three, too.
    """

    build: Build
    kind: str
    first: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    saves_us: tuple[float, float] | None = None
    never: tuple[str, ...] = ()
    at_top: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    abstains: bool = False
    ranks: int = 1
    options: Options = field(default_factory=Options)
    check: Check | None = None
    also_true: tuple[str, ...] = ()


def declare(cases: dict[str, PlantedCase], kind: str, **expected: object) -> Callable[[Build], Build]:
    """Add a case to a topic's cases, under the name of the function that plants it."""

    def added(build: Build) -> Build:
        name = build.__name__
        assert name not in cases, name
        cases[name] = PlantedCase(build, kind, **expected)  # type: ignore[arg-type]
        return build

    return added
