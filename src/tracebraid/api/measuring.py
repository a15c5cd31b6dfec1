"""Metrics of a job, by their names."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from msgspec import Struct

from tracebraid.analysis import entry_points
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.entry_points import Offered, offered
from tracebraid.analysis.metrics.catalog import built_in_metrics
from tracebraid.analysis.metrics.memory import RankFunction, metric_of_function
from tracebraid.analysis.metrics.metrics import RankLacks, measured_steps, rows_of_metric
from tracebraid.analysis.needs import lacking_of
from tracebraid.api.job_answers import (
    gather_questions,
    gathering,
    lacking_questions,
    linked_with_parts,
    parts_of,
)
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import METRICS
from tracebraid.model.engine import Job, Questions
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Metric, MetricOptions, OverRanks, Unit
from tracebraid.model.step import PROFILER_STEP

T = TypeVar("T")

_OURS = str(Path(__file__).resolve().parents[1])
"""Folder of the package: the first frame of a failure outside it is the user's."""


def metric(
    *,
    name: str,
    unit: Unit | str,
    over_ranks: OverRanks | str = OverRanks.MEAN,
    needs: Iterable[Need] = (),
) -> Callable[[RankFunction], Metric]:
    """Decorate a function as a metric.

    The function takes a linked trace. It returns a number, a number for each step,
    whose mean with its interval is then the value, or None if there is no value. The first line of its docstring is the
    formula. Pass the metric to `tracebraid.metrics`; the command `tracebraid metrics` finds it through an entry
    point of
    the group `tracebraid.metrics`.

    Args:
        name: in snake case, and unique.
        unit: the unit of the value.
        over_ranks: aggregation of the ranks' values for a job: `mean`, `sum`, `max` or `min`.
        needs: if a rank does not meet all of these, it has no value, and the function is not called.

    Raises:
        ArgumentError: the name is not in snake case, or the aggregation is unknown.

    Examples:
        >>> import tracebraid
        >>> @tracebraid.plugins.metric(name="host_ops", unit="count", over_ranks="sum")
        ... def host_ops(linked):
        ...     '''Host ops in the trace.'''
        ...     return linked.timeline.host_ops.height
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> tracebraid.metrics(job, only=[host_ops]).select("rank", "value").rows()
        [(None, 9528.0), (0, 4764.0), (1, 4764.0)]
    """

    def decorate(function: RankFunction) -> Metric:
        return metric_of_function(function, name, unit, over_ranks, needs)

    return decorate


def installed_metrics() -> tuple[tuple[Metric, ...], tuple[Finding, ...]]:
    """Load the metrics of installed packages by name; return findings for those that fail."""
    metrics: dict[str, Metric] = {}
    findings: list[Finding] = []
    known = {metric.name for metric in built_in_metrics()}
    for offer in offered(entry_points.METRICS):
        found = _metric(offer)
        if isinstance(found, Finding):
            findings.append(found)
        elif found.name in known or found.name in metrics:
            findings.append(_name_taken(offer, found.name))
        else:
            metrics[found.name] = found
    return tuple(metrics[name] for name in sorted(metrics)), tuple(findings)


def _metric(offer: Offered) -> Metric | Finding:
    if offer.error is not None:
        return _not_loaded(offer, f"{type(offer.error).__name__}: {offer.error}")
    if isinstance(offer.found, Metric):
        return offer.found
    return _not_loaded(offer, f"it is a {type(offer.found).__name__}, not a tracebraid.plugins.Metric")


def _not_loaded(offer: Offered, problem: str) -> Finding:
    details = {"entry": offer.name, "problem": problem}
    return Finding(FindingCode.METRIC_NOT_LOADED, offer.package, offer.target, details=details)


def _name_taken(offer: Offered, name: str) -> Finding:
    details = {"case": FindingCase.METRIC_NAME_TAKEN, "entry": offer.name, "name": name}
    return Finding(FindingCode.METRIC_NOT_LOADED, offer.package, offer.target, details=details)


def metrics(
    traces: LinkedTrace | Job,
    *,
    only: Iterable[str | Metric] | None = None,
    with_doubtful: bool = False,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> pl.DataFrame:
    """Compute the scalars of dashboards and papers for a job and each rank: `METRICS`.

    A failing user metric has no value, and `lacks` states the failure; the others are computed.

    Args:
        traces: a linked trace, or a job.
        only: names of metrics, or metrics made by `tracebraid.plugins.metric`; None: all, also of installed packages.
        with_doubtful: count doubtful steps (see `validity`) too.
        peak_flops: peak of a device in FLOP/s; None: from the table of devices.
        peak_bandwidth: peak of the network in bytes/s of bus bandwidth; None: unknown.

    Raises:
        ArgumentError: there is no such metric, or no step is marked by the annotation with which the traces were
            opened.
        InputError: a file cannot be read.

    Examples:
        >>> import tracebraid
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> tracebraid.metrics(job, only=["steps_counted"]).select("rank", "value", "unit").row(0)
        (None, 3.0, 'count')
    """
    job, options = Job.of(traces), MetricOptions(with_doubtful, peak_flops, peak_bandwidth)
    chosen, findings = chosen_metrics(only)
    ranks = [metric_input(chosen, taken) for taken in job.take(metric_questions(chosen))]
    if job.annotation != PROFILER_STEP and not any(of_rank.has_steps for of_rank in ranks):
        raise ArgumentError(f"no step is marked by {job.annotation}")
    linked = linked_with_parts(job, [of_rank.parts for of_rank in ranks])
    found = measured(chosen, ranks, options, linked)
    job.add_findings([*findings, *found.findings])
    return found.frame


def chosen_metrics(
    only: Iterable[str | Metric] | None = None,
) -> tuple[tuple[Metric, ...], tuple[Finding, ...]]:
    """Select metrics by name, or all; return findings for unusable metrics of installed packages."""
    wanted = None if only is None else list(only)
    by_name = {metric.name: metric for metric in built_in_metrics()}
    if wanted is not None and all(isinstance(item, Metric) or item in by_name for item in wanted):
        installed: tuple[Metric, ...] = ()
        findings: tuple[Finding, ...] = ()
    else:
        installed, findings = installed_metrics()
    by_name |= {metric.name: metric for metric in installed}
    if wanted is None:
        return tuple(by_name.values()), findings
    chosen = [item if isinstance(item, Metric) else _named(item, by_name) for item in wanted]
    names = [metric.name for metric in chosen]
    twice = next((metric.name for metric in set(chosen) if names.count(metric.name) > 1), None)
    if len(set(names)) < len(set(chosen)) and twice is not None:
        raise ArgumentError(f"two metrics are called {twice}; give another name to the second")
    return tuple(dict.fromkeys(chosen)), findings


def _named(name: str, by_name: Mapping[str, Metric]) -> Metric:
    wanted = name.replace("-", "_")
    if wanted not in by_name:
        near = get_close_matches(wanted, by_name, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(by_name)}"
        raise ArgumentError(f"there is no metric {name!r}; {hint}")
    return by_name[wanted]


class _Failure(Struct, frozen=True):
    """Exception of a user's metric, and its place in the user's code."""

    problem: str
    path: str
    line: int


class MetricInput(Struct, frozen=True, eq=False):
    """Input of metrics from a rank.

    Args:
        rank: the rank.
        parts: the data that is kept of it.
        of_users: a table for each user function with input from it.
        lacks: the unmet needs.
        failures: the user functions that failed.
    """

    rank: int
    parts: RankParts
    of_users: Mapping[Gather, pl.DataFrame]
    lacks: frozenset[Need]
    failures: Mapping[Gather, _Failure]

    @property
    def has_steps(self) -> bool:
        """Return whether an annotation marks a step."""
        return bool(self.parts.gathered[measured_steps].get_column("step").count())


class Measured(Struct, frozen=True, eq=False):
    """The values of metrics.

    Args:
        frame: a table of `METRICS`.
        findings: findings between ranks, and failed user metrics.
    """

    frame: pl.DataFrame
    findings: tuple[Finding, ...]


def metric_questions(chosen: Sequence[Metric]) -> Questions:
    """Return the questions of metrics to each rank, by the keys under which a job caches answers."""
    needs = _needs(chosen)
    users = {
        (_guarded, gather): partial(_guarded, gathering(gather)) for gather in _of_users_functions(chosen)
    }
    lacks = lacking_questions(needs)
    return {**gather_questions(_ours(chosen)), **users, **lacks}


def metric_input(chosen: Sequence[Metric], taken: Mapping[Hashable, Any]) -> MetricInput:
    """Collect the input of metrics from a rank's answers to `metric_questions`."""
    needs = _needs(chosen)
    users = {gather: taken[_guarded, gather] for gather in _of_users_functions(chosen)}
    failures = {gather: found for gather, found in users.items() if isinstance(found, _Failure)}
    parts = parts_of(taken, _ours(chosen))
    return MetricInput(
        parts.facts.item(0, "rank"),
        parts,
        {gather: found for gather, found in users.items() if not isinstance(found, _Failure)},
        frozenset(taken[lacking_of, needs]),
        failures,
    )


def measured(
    chosen: Sequence[Metric],
    ranks: Sequence[MetricInput],
    options: MetricOptions,
    linked: LinkedRanks,
) -> Measured:
    """Compute the values of metrics from the input of each rank."""
    ranks = sorted(ranks, key=lambda taken: taken.rank)
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
    """Return the needs that a single trace can meet, which excludes several ranks."""
    every = dict.fromkeys([Need.LOST, *(need for metric in chosen for need in metric.needs)])
    return tuple(need for need in every if need is not Need.SEVERAL_RANKS)


def _failures(metric: Metric, ranks: Sequence[MetricInput]) -> dict[int, _Failure]:
    """Return the failures of a metric by rank."""
    return {
        taken.rank: failure
        for taken in ranks
        for gather, failure in taken.failures.items()
        if gather in metric.gathers
    }


def _findings(metric: Metric, failures: Mapping[int, _Failure]) -> list[Finding]:
    """Make a finding for each failure of a metric, with the number of affected ranks."""
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
    """Gather the input of built-in metrics from a rank."""
    built_in = built_in_metrics()
    of_metrics = (gather for metric in chosen if metric in built_in for gather in metric.gathers)
    return tuple(dict.fromkeys((measured_steps, *of_metrics)))


def _of_users_functions(chosen: Sequence[Metric]) -> tuple[Gather, ...]:
    """Gather the input of user metrics, whose functions may fail."""
    ours = (members, *_ours(chosen))
    every = (gather for metric in chosen for gather in metric.gathers)
    return tuple(dict.fromkeys(gather for gather in every if gather not in ours))


def _joined(ranks: Sequence[MetricInput]) -> dict[Gather, pl.DataFrame]:
    """Concatenate the input of user metrics over all ranks; ranks without it have no row."""
    gathers = dict.fromkeys(gather for taken in ranks for gather in (*taken.of_users, *taken.failures))
    found = {
        gather: [taken.of_users[gather] for taken in ranks if gather in taken.of_users] for gather in gathers
    }
    return {
        gather: pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()
        for gather, frames in found.items()
    }


def _guarded(function: Callable[..., T], *arguments: Any) -> T | _Failure:
    """Call a function; return its result, or the failure of user code."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 - A user's metric can raise anything.
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((found for found in frames if not found.filename.startswith(_OURS)), frames[-1])
        return _Failure(f"{type(error).__name__}: {error}", frame.filename, frame.lineno or 0)
