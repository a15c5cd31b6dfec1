"""Metrics of a job, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import polars as pl

from tracebraid.analysis.metrics.catalog import METRICS
from tracebraid.api.job.metric_ranks import measured, metric_questions, taken_of_rank
from tracebraid.api.job.taking import take
from tracebraid.api.job.whole_job import linked_with_parts
from tracebraid.api.user_metrics import installed_metrics
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.metric import Metric, MetricOptions
from tracebraid.model.step import PROFILER_STEP

__all__ = ["chosen_metrics", "metrics"]


def metrics(
    traces: LinkedTrace | Job,
    *,
    only: Iterable[str | Metric] | None = None,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> pl.DataFrame:
    """The scalars that stand on dashboards and in papers, of a job and of each rank: `model.answers.METRICS`.

    A metric of a user that fails has no value; `lacks` says so, and the others are answered.

    Args:
        traces: a linked trace, or a job.
        only: names of metrics, or metrics made by `tracebraid.metric`; None: all, those of installed packages included.
        annotation: what marks a step.
        with_doubtful: count steps about which `validity` has a doubt, too.
        peak_flops: of a device, in FLOP/s; None: as the table of devices has it.
        peak_bandwidth: of the network, in bytes/s of bus bandwidth; None: unknown.

    Raises:
        ArgumentError: there is no such metric.
        InputError: a file cannot be read.

    Examples:
        >>> import tracebraid
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> tracebraid.metrics(job, only=["steps_counted"]).select("rank", "value", "unit").row(0)
        (None, 3.0, 'count')
    """
    options = MetricOptions(annotation, with_doubtful, peak_flops, peak_bandwidth)
    chosen, _ = chosen_metrics(only)
    questions = metric_questions(chosen, annotation)
    ranks = [taken_of_rank(chosen, annotation, taken) for taken in take(traces, questions)]
    linked = linked_with_parts(traces, annotation, [taken.parts for taken in ranks])
    return measured(chosen, ranks, options, linked).frame


def chosen_metrics(
    only: Iterable[str | Metric] | None = None,
) -> tuple[tuple[Metric, ...], tuple[Finding, ...]]:
    """Metrics by their names, or all; and which metrics of installed packages cannot be used.

    Raises:
        ArgumentError: there is no metric of a name, or two have it.
    """
    wanted = None if only is None else list(only)
    by_name = {metric.name: metric for metric in METRICS}
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
