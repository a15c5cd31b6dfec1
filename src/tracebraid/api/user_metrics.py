"""Metrics of users: functions made into metrics, and those that installed packages offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracebraid.analysis import entry_points
from tracebraid.analysis.entry_points import Offered, offered
from tracebraid.analysis.metrics.catalog import METRICS
from tracebraid.analysis.metrics.user_metric import RankFunction, metric_of_function
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, OverRanks, Unit

__all__ = ["installed_metrics", "metric"]


def metric(
    *,
    name: str,
    unit: Unit | str,
    over_ranks: OverRanks | str = OverRanks.MEAN,
    needs: Iterable[Need] = (),
) -> Callable[[RankFunction], Metric]:
    """Make a metric of a function.

    The function takes a linked trace and the annotation that marks steps. It returns a number, a number for each step,
    whose mean with its interval is then the value, or None where there is none. The first line of its docstring is the
    formula. `tracebraid.metrics` takes the metric as it is; `tracebraid metrics` finds it through an entry point of
    the group `tracebraid.metrics`.

    Args:
        name: in snake case; none of the metrics that there are.
        unit: of the value.
        over_ranks: how the value of a job comes from those of its ranks: `mean`, `sum`, `max` or `min`.
        needs: without any of these a rank has no value, and the function is not called.

    Raises:
        ArgumentError: the name is not in snake case, or the ranks are to be joined in another way.

    Examples:
        >>> import tracebraid
        >>> @tracebraid.metric(name="host_ops", unit="count", over_ranks="sum")
        ... def host_ops(linked, annotation):
        ...     '''Host ops in the trace.'''
        ...     return linked.timeline.host_ops.height
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> tracebraid.metrics(job, only=[host_ops]).select("rank", "value").rows()
        [(None, 588.0), (0, 294.0), (1, 294.0)]
    """

    def decorate(function: RankFunction) -> Metric:
        return metric_of_function(function, name, unit, over_ranks, needs)

    return decorate


def installed_metrics() -> tuple[tuple[Metric, ...], tuple[Finding, ...]]:
    """The metrics that installed packages offer, by name, and what of them cannot be used."""
    metrics: dict[str, Metric] = {}
    findings: list[Finding] = []
    known = {metric.name for metric in METRICS}
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
    return _not_loaded(offer, f"it is a {type(offer.found).__name__}, not a tracebraid.Metric")


def _not_loaded(offer: Offered, problem: str) -> Finding:
    details = {"entry": offer.name, "problem": problem}
    return Finding(FindingCode.METRIC_NOT_LOADED, offer.package, offer.target, details=details)


def _name_taken(offer: Offered, name: str) -> Finding:
    details = {"case": FindingCase.METRIC_NAME_TAKEN, "entry": offer.name, "name": name}
    return Finding(FindingCode.METRIC_NOT_LOADED, offer.package, offer.target, details=details)
