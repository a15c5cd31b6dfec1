"""Two runs, compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tracebraid.analysis.compare.compare import compare, paired
from tracebraid.analysis.compare.profiles.rank_profile import RankProfile, rank_profile
from tracebraid.api.traces import open as open_job
from tracebraid.errors import ArgumentError
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.comparison import Comparison
from tracebraid.model.step import PROFILER_STEP

__all__ = ["RankProfile", "Run", "diff", "diff_of_profiles", "profile_of_rank"]

Run: TypeAlias = str | Path | LinkedTrace | Job
"""A run: a folder or file, a linked trace, or a job."""


def diff(a: Run, b: Run, annotation: str = PROFILER_STEP, with_doubtful: bool = False) -> Comparison:
    """Compare two runs: `b` against `a`, of one rank or of many.

    Ops are matched by where they are called: module, path of annotations and ops, shapes and types. Steps are samples:
    a difference has an interval, and is significant where chance explains it in 0.27 % of cases at most, corrected for
    the number of comparisons. Where the step's difference comes from adds up to it, to the nanosecond. Ranks are
    paired by their numbers; each is read once and released.

    Args:
        a: the run that is compared with.
        b: the run that is compared.
        annotation: what marks a step; a run without it is compared as a whole, and nothing of it is significant.
        with_doubtful: steps about which `validity` has a doubt count, too; warm-up never does.

    Raises:
        InputError: a file cannot be read.
        ArgumentError: the runs have no rank in common.

    Example::

        comparison = tracebraid.diff("before/", "after/")
        comparison.parts.select("part", "op", "difference_ns")
    """
    question = partial(profile_of_rank, annotation=annotation)
    return diff_of_profiles(_each(a, question), _each(b, question), annotation, with_doubtful)


def profile_of_rank(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> RankProfile:
    """What is kept of a rank to compare it; small."""
    return rank_profile(linked, annotation)


def diff_of_profiles(
    a: list[RankProfile],
    b: list[RankProfile],
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> Comparison:
    """Compare what was kept of the ranks of two runs.

    Raises:
        ArgumentError: the runs have no rank in common.
    """
    if not paired(a, b):
        ranks = [", ".join(str(rank.rank) for rank in run) or "none" for run in (a, b)]
        raise ArgumentError(f"the runs have no rank in common: ranks {ranks[0]} of a, and {ranks[1]} of b")
    return compare(a, b, annotation, with_doubtful)


def _each(run: Run, question: Callable[[LinkedTrace], RankProfile]) -> list[RankProfile]:
    if isinstance(run, LinkedTrace):
        return [question(run)]
    return list((run if isinstance(run, Job) else open_job(run)).each(question))
