"""Two runs, compared."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from tracebraid.analysis.compare.compare import compare, paired
from tracebraid.analysis.compare.profiles import RankProfile, rank_profile
from tracebraid.api.traces import open as open_job
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Job
from tracebraid.model.gaps import FoundGap, refuse_lost_work
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Comparison

Run: TypeAlias = str | Path | LinkedTrace | Job
"""A run: a folder or file, a linked trace, or a job."""


def diff(a: Run, b: Run, with_doubtful: bool = False) -> Comparison:
    """Compare two runs: `b` against `a`, of one rank or of many.

    Ops are matched by their call site: module, path of annotations and ops, shapes and types. Steps are samples:
    a difference has an interval, and is significant if chance explains it in at most 0.27 % of cases, corrected for
    the number of comparisons. The parts of the step's difference add up to it, to the nanosecond. Ranks are
    paired by their numbers; each is read once and released.

    Args:
        a: the baseline.
        b: a path, a job or a linked trace to compare with it. A run in which no step is marked is compared
            as a whole, without significance.
        with_doubtful: whether steps that `validity` doubts count too; warm-up never does.

    Raises:
        InputError: a file cannot be read.
        ArgumentError: the runs have no rank in common.

    Example::

        comparison = tracebraid.diff("before/", "after/")
        comparison.parts.select("part", "op", "difference_ns")
    """
    found = _profiles(a), _profiles(b)
    if not paired(*found):
        ranks = [", ".join(str(rank.rank) for rank in run) or "none" for run in found]
        raise ArgumentError(f"the runs have no rank in common: ranks {ranks[0]} of a, and {ranks[1]} of b")
    return compare(*found, with_doubtful)


def _profiles(run: Run) -> list[RankProfile]:
    job = Job.of(open_job(run) if isinstance(run, str | Path) else run)
    profiles = []
    for profile, gaps in job.each(_profile):
        refuse_lost_work(gaps)
        profiles.append(profile)
    return profiles


def _profile(linked: LinkedTrace) -> tuple[RankProfile, tuple[FoundGap, ...]]:
    return rank_profile(linked), linked.gaps
