"""What metrics take of each rank, which is read once, and their values from that."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.metrics.catalog import METRICS as BUILT_IN
from tracebraid.analysis.metrics.measured_steps import measured_steps
from tracebraid.analysis.metrics.rows import RankLacks, rows_of_metric
from tracebraid.analysis.needs import lacking_of
from tracebraid.api.job.taking import gather_questions, gathering, lacking_questions, parts_of
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.answers.job.metrics import METRICS
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.job import Questions
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions

__all__ = ["Measured", "TakenOfRank", "measured", "metric_questions", "taken_of_rank"]

T = TypeVar("T")

_OURS = str(Path(__file__).resolve().parents[2])
"""The folder of the package: the first frame of a failure outside of it is the user's."""


@dataclass(frozen=True)
class _Failure:
    """That a user's metric raised an exception: what, and where in the user's code."""

    problem: str
    path: str
    line: int


@dataclass(frozen=True, eq=False)
class TakenOfRank:
    """What metrics take of a rank.

    Args:
        rank: the rank.
        parts: what is kept of it.
        of_users: a table of each function of users that takes something of it.
        lacks: what it lacks of all that they need.
        failures: the functions of users that failed.
    """

    rank: int
    parts: RankParts
    of_users: Mapping[Gather, pl.DataFrame]
    lacks: frozenset[Need]
    failures: Mapping[Gather, _Failure]

    @property
    def has_steps(self) -> bool:
        """Whether an annotation marks a step."""
        return bool(self.parts.gathered[measured_steps].get_column("step").count())


@dataclass(frozen=True, eq=False)
class Measured:
    """The values of metrics.

    Args:
        frame: a table of `model.answers.METRICS`.
        findings: what was noticed between ranks, and which metrics of users failed.
    """

    frame: pl.DataFrame
    findings: tuple[Finding, ...]


def metric_questions(chosen: Sequence[Metric], annotation: str) -> Questions:
    """What metrics ask of each rank, by keys under which a job keeps it."""
    needs = _needs(chosen)
    users = {
        (_guarded, gather, annotation): partial(_guarded, gathering(gather, annotation))
        for gather in _of_users_functions(chosen)
    }
    lacks = lacking_questions(annotation, needs)
    return {**gather_questions(annotation, _ours(chosen)), **users, **lacks}


def taken_of_rank(chosen: Sequence[Metric], annotation: str, taken: Mapping[Hashable, Any]) -> TakenOfRank:
    """What metrics take of a rank, from the answers to `metric_questions`."""
    needs = _needs(chosen)
    users = {gather: taken[_guarded, gather, annotation] for gather in _of_users_functions(chosen)}
    failures = {gather: found for gather, found in users.items() if isinstance(found, _Failure)}
    parts = parts_of(taken, annotation, _ours(chosen))
    return TakenOfRank(
        parts.facts.item(0, "rank"),
        parts,
        {gather: found for gather, found in users.items() if not isinstance(found, _Failure)},
        frozenset(taken[lacking_of, needs, annotation]),
        failures,
    )


def measured(
    chosen: Sequence[Metric],
    ranks: Sequence[TakenOfRank],
    options: MetricOptions,
    linked: LinkedRanks | None = None,
) -> Measured:
    """The values of metrics from what was taken of each rank.

    Args:
        chosen: the metrics.
        ranks: what `taken_of_rank` took, with the same metrics.
        options: what is asked for.
        linked: the ranks linked with each other; None: they are linked here.
    """
    ranks = sorted(ranks, key=lambda taken: taken.rank)
    linked = linked or link_ranks([taken.parts for taken in ranks])
    linked = linked.with_parts({**linked.parts, **_joined(ranks)})
    alone = {Need.SEVERAL_RANKS} if len(ranks) < 2 else set()
    given = {Need.DEVICE_PEAKS} if options.peak_flops is not None else set()
    needs = {taken.rank: (taken.lacks | alone) - given for taken in ranks}
    frames, findings = [METRICS.empty()], list(linked.findings)
    for metric in chosen if ranks else ():
        failures = _failures(metric, ranks)
        found = _guarded(rows_of_metric, metric, linked, options, RankLacks(needs, frozenset(failures)))
        if isinstance(found, _Failure):
            failures = dict.fromkeys(needs, found)
            found = rows_of_metric(metric, linked, options, RankLacks(needs, frozenset(failures)))
        frames.append(found)
        findings += _findings(metric, failures)
    return Measured(pl.concat(frames), tuple(findings))


def _needs(chosen: Sequence[Metric]) -> tuple[Need, ...]:
    """What a trace may lack; whether there are several ranks is not for a trace to say."""
    every = dict.fromkeys(need for metric in chosen for need in metric.needs)
    return tuple(need for need in every if need is not Need.SEVERAL_RANKS)


def _failures(metric: Metric, ranks: Sequence[TakenOfRank]) -> dict[int, _Failure]:
    """How a metric failed, by the rank on which it did."""
    return {
        taken.rank: failure
        for taken in ranks
        for gather, failure in taken.failures.items()
        if gather in metric.gathers
    }


def _findings(metric: Metric, failures: Mapping[int, _Failure]) -> list[Finding]:
    """A finding for each failure of a metric, with the number of ranks that have it."""
    ranks: dict[_Failure, list[int]] = {}
    for rank, failure in failures.items():
        ranks.setdefault(failure, []).append(rank)
    return [
        Finding.of(
            FindingCode.METRIC_FAILED,
            failure.path,
            f"line {failure.line}",
            metric=metric.name,
            ranks=", ".join(map(str, failed)),
            problem=failure.problem,
        )
        for failure, failed in ranks.items()
    ]


def _ours(chosen: Sequence[Metric]) -> tuple[Gather, ...]:
    """What is taken of each rank for metrics that come with the package."""
    of_metrics = (gather for metric in chosen if metric in BUILT_IN for gather in metric.gathers)
    return tuple(dict.fromkeys((measured_steps, *of_metrics)))


def _of_users_functions(chosen: Sequence[Metric]) -> tuple[Gather, ...]:
    """What else is taken, by functions that may fail."""
    ours = (members, *_ours(chosen))
    every = (gather for metric in chosen for gather in metric.gathers)
    return tuple(dict.fromkeys(gather for gather in every if gather not in ours))


def _joined(ranks: Sequence[TakenOfRank]) -> dict[Gather, pl.DataFrame]:
    """What functions of users took, of all ranks together; of ranks without it there is no row."""
    gathers = dict.fromkeys(gather for taken in ranks for gather in (*taken.of_users, *taken.failures))
    found = {
        gather: [taken.of_users[gather] for taken in ranks if gather in taken.of_users] for gather in gathers
    }
    return {
        gather: pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()
        for gather, frames in found.items()
    }


def _guarded(function: Callable[..., T], *arguments: Any) -> T | _Failure:
    """What a function returns, or how a user's code in it failed."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - A user's metric can raise anything.
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((found for found in frames if not found.filename.startswith(_OURS)), frames[-1])
        return _Failure(f"{type(error).__name__}: {error}", frame.filename, frame.lineno or 0)
