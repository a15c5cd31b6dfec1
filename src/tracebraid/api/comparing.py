"""Two runs, compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles import RankProfile, rank_profile
from tracebraid.api.traces import open as open_job
from tracebraid.model.engine import Job
from tracebraid.model.gaps import FoundGap, refuse_lost_work
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Comparison

Run: TypeAlias = str | Path | LinkedTrace | Job
"""A capture of a run: a folder or file, a linked trace, or a job."""


def diff(a: Run | Sequence[Run], b: Run | Sequence[Run], with_doubtful: bool = False) -> Comparison:
    """Compare two runs, `b` against `a`, of one rank or of many, by one or several captures of each.

    Ops are matched by their call site: module, path of annotations and ops, shapes and types. The parts of the step's
    difference add up to it, to the nanosecond. Ranks are paired by their numbers; each is read once and released.

    With one capture of each, steps are samples: a difference has an interval, and is significant if chance explains it
    in at most 0.27 % of cases, corrected for the number of comparisons. How much captures of one program differ is
    unknown, so `Comparison.gate` does not judge. With three or more of each, captures are the samples, each with the
    median of its steps, at 2 %, by Welch's test (1947).

    Args:
        a: the baseline, or a list of its captures.
        b: a path, a job or a linked trace to compare with it, or a list of them. A run in which no step is marked is
            compared as a whole, without significance.
        with_doubtful: whether steps that `validity` doubts count too; warm-up never does.

    Raises:
        InputError: a file cannot be read.
        ArgumentError: the runs have no rank in common; a run has no capture; a capture is given twice; or captures of
            one run have other ranks, world sizes, annotations of steps or programs.

    Example::

        comparison = tracebraid.diff(["before/1", "before/2", "before/3"], ["after/1", "after/2", "after/3"])
        comparison.gate(0.05)
        comparison.parts.select("part", "op", "difference_ns")
    """
    runs = [[_profiles(capture) for capture in _captures(run)] for run in (a, b)]
    return compare(runs[0], runs[1], with_doubtful)


def _captures(run: Run | Sequence[Run]) -> Sequence[Run]:
    return [run] if isinstance(run, str | Path | LinkedTrace | Job) else run


def _profiles(run: Run) -> list[RankProfile]:
    job = Job.of(open_job(run) if isinstance(run, str | Path) else run)
    profiles = []
    for profile, gaps in job.each(_profile):
        refuse_lost_work(gaps)
        profiles.append(profile)
    return profiles


def _profile(linked: LinkedTrace) -> tuple[RankProfile, tuple[FoundGap, ...]]:
    return rank_profile(linked), linked.gaps
