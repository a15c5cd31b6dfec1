"""The analyses of one rank, asked of a rank or of all ranks of a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import polars as pl

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.kernels.kernels import kernels as _kernels
from tracebraid.analysis.kernels.launchers import launchers as _launchers
from tracebraid.analysis.needs import lacking
from tracebraid.analysis.ops.ops import ops as _ops
from tracebraid.analysis.time.breakdown import breakdown as _breakdown
from tracebraid.analysis.time.steps import steps as _steps
from tracebraid.analysis.validity.validity import validity as _validity
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Analysis, Answer, Need
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = [
    "analyses",
    "analyze",
    "breakdown",
    "kernels",
    "launchers",
    "ops",
    "steps",
    "validity",
]

_P = ParamSpec("_P")


def _over_ranks(
    question: Callable[Concatenate[LinkedTrace, _P], pl.DataFrame],
) -> Callable[Concatenate[LinkedTrace | Job, _P], pl.DataFrame]:
    """A question about one rank, as one that may be asked of a job, too: the rows of all ranks, in one pass."""

    @wraps(question)
    def ask(traces: LinkedTrace | Job, /, *args: _P.args, **kwargs: _P.kwargs) -> pl.DataFrame:
        if isinstance(traces, LinkedTrace):
            return question(traces, *args, **kwargs)
        return traces.ask(lambda linked: question(linked, *args, **kwargs))[0]

    _, *options = inspect.signature(question).parameters.values()
    traces = inspect.Parameter("traces", inspect.Parameter.POSITIONAL_ONLY, annotation="LinkedTrace | Job")
    ask.__signature__ = inspect.Signature([traces, *options], return_annotation="pl.DataFrame")  # type: ignore[attr-defined]
    ask.__module__ = __name__
    ask.__doc__ = (question.__doc__ or "").replace("linked: one rank.", "traces: a linked trace, or a job.")
    return ask


validity = _over_ranks(_validity)
steps = _over_ranks(_steps)
breakdown = _over_ranks(_breakdown)
kernels = _over_ranks(_kernels)
launchers = _over_ranks(_launchers)
ops = _over_ranks(_ops)


def analyses() -> tuple[Analysis, ...]:
    """All analyses: of each its name, its question, the table of its answer, its options, and what it needs.

    Examples:
        >>> import tracebraid
        >>> [analysis.question for analysis in tracebraid.analyses() if analysis.name == "launchers"]
        ["What launched the device's time: ops, annotations, graphs, or nothing that the trace knows?"]
    """
    return ANALYSES


def analyze(name: str, traces: LinkedTrace | Job, **options: object) -> Answer:
    """Ask an analysis by its name, and learn what the traces lack for it.

    Args:
        name: the name of one of `analyses()`; `-` may stand for `_`.
        traces: a linked trace, or a job: the rows of all ranks, in one pass.
        options: those of the analysis.

    Raises:
        ArgumentError: there is no such analysis, or it has no such option.
        InputError: a file cannot be read.

    Examples:
        >>> import tracebraid
        >>> answer = tracebraid.analyze("kernels", tracebraid.open(tracebraid.demo_path()))
        >>> answer.frame.height, answer.is_unanswerable
        (0, True)
    """
    analysis = _named(name)
    unknown = [option for option in options if option not in analysis.options]
    if unknown:
        have = ", ".join(analysis.options) or "none"
        raise ArgumentError(f"{analysis.name} has no option {unknown[0]!r}; it has: {have}")
    lacks: dict[int, tuple[Need, ...]] = {}
    annotation = str(options.get("annotation", PROFILER_STEP))

    def question(linked: LinkedTrace) -> pl.DataFrame:
        lacks[linked.rank] = lacking(analysis, linked, annotation)
        return analysis.answer(linked, **options)

    frame = question(traces) if isinstance(traces, LinkedTrace) else traces.ask(question)[0]
    return Answer(analysis, frame, lacks)


def _named(name: str) -> Analysis:
    wanted = name.replace("-", "_")
    found = next((analysis for analysis in ANALYSES if analysis.name == wanted), None)
    if found is None:
        raise ArgumentError(
            f"there is no analysis {name!r}; there are: {', '.join(a.name for a in ANALYSES)}"
        )
    return found
