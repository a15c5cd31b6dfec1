"""The questions that are answered while a rank is packed, so that they need not be computed of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tracebraid.analysis.antipatterns.catalog import JOB_DETECTORS
from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.analysis.metrics.catalog import METRICS
from tracebraid.analysis.metrics.measured_steps import measured_steps
from tracebraid.analysis.metrics.memory import memory_of_devices
from tracebraid.analysis.needs import HAS, has_key
from tracebraid.analysis.ranks.lateness.rank_segments import rank_segments
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.api.advising import ADVICE_QUESTIONS
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.linked_ranks import Gather, gather_key
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.store.answers.rank_answers import Answered, answers_file, facts_of, write_answers
from tracebraid.store.answers.touched import TouchedTrace

__all__ = ["store_answers", "stored_questions"]

_Question: TypeAlias = Callable[[LinkedTrace], Any]

_MANY_EVENTS = 100_000
"""Of ranks with more events only what takes a moment is answered: of the 54 MB trace (220,000 events) the rest takes
two thirds of the time that reading it does."""
_MOST_ROWS = 20_000
"""Larger answers are computed when they are asked for."""

_QUICK = (
    *("validity", "steps", "step_times", "step_spread", "breakdown", "overlap", "exposed_collectives"),
    *("stream_idle", "kernels", "kernel_families", "kernels_by_op", "launchers", "kernel_durations"),
    *("copies", "copy_bandwidth", "mfu", "token_times"),
)
"""Analyses whose answers are small, and take at most 0.02 s of the 54 MB trace."""
_SLOW = (
    "queue_lengths",
    "full_queue",
    "memory_peak",
    "idle_causes",
    "idle_blame",
    "ops",
    "user_annotations",
    "launches",
    "syncs",
    "memory_growth",
    "roofline",
)
"""Other small answers."""
_SLOW_GATHERS: tuple[Gather, ...] = (rank_segments, measured_steps, memory_of_devices)
"""What analyses of a job and metrics take that costs more."""


def stored_questions(events: int) -> dict[str, _Question]:
    """The questions, by their names.

    Args:
        events: how many events the rank has.
    """
    gathers: dict[Gather, None] = dict.fromkeys(
        (
            members,
            measured_steps,
            *(gather for analysis in JOB_ANALYSES for gather in analysis.gathers),
            *(gather for metric in METRICS for gather in metric.gathers),
        )
    )
    names: tuple[str, ...] = _QUICK
    found: dict[str, _Question] = {
        "rank_facts": rank_facts,
        **{has_key(need): has for need, has in HAS.items()},
    }
    if events > _MANY_EVENTS:
        for gather in _SLOW_GATHERS:
            gathers.pop(gather)
    else:
        names += _SLOW
        gathers |= dict.fromkeys(gather for detector in JOB_DETECTORS for gather in detector.gathers)
        found |= ADVICE_QUESTIONS
        gathers |= dict.fromkeys(gather for detector in JOB_DETECTORS for gather in detector.gathers)
    for gather in gathers:
        key = gather_key(gather)
        assert key is not None, "it is a function of this package"
        found[key] = partial(_gather, gather)
    return found | {analysis.key: analysis.answer for analysis in ANALYSES if analysis.name in names}


def store_answers(store: Path, rank: int, linked: LinkedTrace) -> None:
    """Answer the questions of a rank, and write the answers; of a rank that cannot be linked there are none.

    Args:
        store: the folder of the store.
        rank: the number of the rank's files.
        linked: the rank.

    Raises:
        OutputError: the file cannot be written.
    """
    answers_file(store, rank).unlink(missing_ok=True)
    try:
        linked.compute_all()
    except (InputError, ArgumentError):
        return
    write_answers(store, rank, facts_of(linked), dict(_answers(linked)))


def _answers(linked: LinkedTrace) -> Iterator[tuple[str, Answered]]:
    """The answers, and what was touched for each."""
    trace = TouchedTrace.of(linked)
    for key, question in stored_questions(linked.timeline.events.height).items():
        answer, touched = trace.asked(question)
        if not isinstance(answer, pl.DataFrame) or answer.height <= _MOST_ROWS:
            yield key, (answer, touched)


def _gather(gather: Gather, linked: LinkedTrace) -> pl.DataFrame:
    return gather(linked, PROFILER_STEP)
