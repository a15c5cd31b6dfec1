"""Advice: what could be saved in a rank or a job, the most first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from tracebraid.analysis.antipatterns.asking import (
    RankEvidence,
    evidence_of_job,
    evidence_of_rank,
    gathered_of,
)
from tracebraid.analysis.antipatterns.catalog import DETECTORS
from tracebraid.analysis.antipatterns.known_detectors import KnownDetectors, known_detectors
from tracebraid.analysis.antipatterns.ranking.in_steps import windows_to_save_in
from tracebraid.analysis.antipatterns.ranking.min_saving import DEFAULT_MIN_SAVING, min_saving_of
from tracebraid.analysis.antipatterns.ranking.ranked import ranked
from tracebraid.analysis.needs import lacking_of
from tracebraid.api.graphing import dependency_graph
from tracebraid.api.job.aligning import rank_parts
from tracebraid.api.job.taking import take
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import Gather, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.advice import Advice
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector, JobDetector
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.without_evidence.gains import gains_of

__all__ = [
    "ADVICE_QUESTIONS",
    "DEFAULT_MIN_SAVING",
    "KnownDetectors",
    "RankAdvice",
    "advice_of_ranks",
    "advise",
    "check_min_saving",
    "detectors",
    "known_detectors",
    "rank_advice",
]


@dataclass(frozen=True, eq=False)
class RankAdvice:
    """What is kept of a rank for advice.

    Args:
        rank: the rank.
        found: what detectors found on it.
        parts: what links it with the others; None where there are no detectors of a job.
        gathered: what detectors of a job take of it, in the order of `KnownDetectors.gathers`: functions that another
            process made of its own are not those of this one. None of a detector that failed.
    """

    rank: int
    found: RankEvidence
    parts: RankParts | None
    gathered: tuple[pl.DataFrame | None, ...] = ()


def advise(
    traces: LinkedTrace | Job,
    min_saving: str | float = DEFAULT_MIN_SAVING,
    annotation: str = PROFILER_STEP,
    *,
    by_graph: bool = False,
) -> Advice:
    """What could be saved, the most first: anti-patterns, their evidence, and the changes that mend them.

    Each rank is read once, and what was found on it is kept with the job. Detectors of installed packages are asked,
    too: entry points of `tracebraid.detectors`.

    Args:
        traces: a linked trace, or a job.
        min_saving: the least that an advice must save: a share of the step (`1%`, or 0.01), or a time for each step
            (`0.5ms`).
        annotation: what marks a step, see `steps`.
        by_graph: replay the dependency graph without the time that each advice's evidence names, and rank by what is
            less, that gain or the saving. It costs a second pass over the traces, and needs numba.

    Raises:
        ArgumentError: `min_saving` is neither a share nor a time.
        InputError: a file cannot be read.
        MissingLibraryError: `by_graph`, and numba is not installed.

    Example::

        advice = tracebraid.advise(tracebraid.open("traces/"))
        print(advice.items.select("detector", "op", "saving_per_step_ns"))
    """
    check_min_saving(min_saving)
    known = known_detectors()
    # A package may be installed between two questions: then other detectors are asked.
    key = (rank_advice, annotation, known.of_ranks, known.of_job)
    ranks = [
        taken[key] for taken in take(traces, {key: partial(rank_advice, known=known, annotation=annotation)})
    ]
    graph = dependency_graph(traces, annotation=annotation) if by_graph else None
    return advice_of_ranks(ranks, known, min_saving, graph)


def detectors() -> tuple[Detector | JobDetector, ...]:
    """All detectors, those of installed packages among them: of each its name, what is wrong, and what mends it."""
    return tuple(known_detectors().by_name.values())


def check_min_saving(min_saving: str | float) -> None:
    """Check the least saving before anything is read.

    Raises:
        ArgumentError: it is neither a share nor a time.
    """
    min_saving_of(min_saving)


def rank_advice(linked: LinkedTrace, known: KnownDetectors, annotation: str = PROFILER_STEP) -> RankAdvice:
    """What is kept of a rank for advice."""
    found = _evidence(linked, annotation, known)
    found = replace(found, evidence=linked.compacted(found.evidence), windows=linked.compacted(found.windows))
    if not known.of_job:
        return RankAdvice(linked.rank, found, None)
    taken, findings = gathered_of(linked, annotation, known)
    kept = {gather: linked.compacted(frame) for gather, frame in taken.items()}
    found = replace(found, findings=(*found.findings, *findings))
    gathered = tuple(kept.get(gather) for gather in known.gathers)
    return RankAdvice(linked.rank, found, rank_parts(linked, annotation), gathered)


def _evidence(linked: LinkedTrace, annotation: str, known: KnownDetectors) -> RankEvidence:
    """What detectors found on a rank: what those of this package found, a store may have already."""
    if annotation != PROFILER_STEP or known.of_ranks != DETECTORS:
        return evidence_of_rank(linked, annotation, known)
    lacks = {detector.name: lacking_of(detector.needs, linked, annotation) for detector in DETECTORS}
    evidence, windows = (linked.answered(key, ask) for key, ask in ADVICE_QUESTIONS.items())
    return RankEvidence(evidence, windows, lacks)


def _found(linked: LinkedTrace) -> pl.DataFrame:
    return evidence_of_rank(linked, PROFILER_STEP, KnownDetectors(DETECTORS)).evidence


def _windows(linked: LinkedTrace) -> pl.DataFrame:
    return windows_to_save_in(linked, PROFILER_STEP)


ADVICE_QUESTIONS: Mapping[str, Callable[[LinkedTrace], pl.DataFrame]] = {
    "advice.evidence": _found,
    "advice.windows": _windows,
}
"""What the detectors of this package find on a rank, by the usual annotation."""


def advice_of_ranks(
    ranks: Sequence[RankAdvice],
    known: KnownDetectors,
    min_saving: str | float = DEFAULT_MIN_SAVING,
    graph: DependencyGraph | None = None,
) -> Advice:
    """The advice from what was kept of each rank.

    Args:
        ranks: what was kept of each.
        known: the detectors that were asked.
        min_saving: see `advise`.
        graph: the ranks' dependency graph, by whose replays the advice is ranked; None: by savings alone.

    Raises:
        ArgumentError: `min_saving` is neither a share nor a time.
    """
    least = min_saving_of(min_saving)
    evidence = [rank.found.evidence for rank in ranks]
    findings = [*known.findings, *(finding for rank in ranks for finding in rank.found.findings)]
    with_parts = [rank for rank in ranks if rank.parts is not None]
    if with_parts:
        lists = zip(known.gathers, zip(*(rank.gathered for rank in with_parts), strict=True), strict=True)
        everywhere = {gather for gather, frames in lists if all(frame is not None for frame in frames)}
        linked = link_ranks([_parts(rank, known, everywhere) for rank in with_parts])
        of_job, failed = evidence_of_job(linked, known.with_gathers(everywhere))
        evidence.append(of_job)
        findings += [*linked.findings, *failed]
    windows = pl.concat([rank.found.windows for rank in ranks])
    gains = None if graph is None else partial(gains_of, graph)
    found = ranked(pl.concat(evidence), windows, least, gains)
    return Advice(
        found.items,
        found.by_step,
        found.evidence,
        known.by_name,
        tuple(rank.rank for rank in ranks),
        found.steps,
        found.step_ns,
        _lacks(ranks),
        tuple(dict.fromkeys(findings)),
    )


def _parts(rank: RankAdvice, known: KnownDetectors, gathers: Collection[Gather]) -> RankParts:
    """What was taken of a rank, with the tables that were taken of all."""
    assert rank.parts is not None, "only such ranks are linked"
    taken = zip(known.gathers, rank.gathered, strict=True)
    kept = {gather: frame for gather, frame in taken if gather in gathers and frame is not None}
    return replace(rank.parts, gathered=kept)


def _lacks(ranks: Sequence[RankAdvice]) -> Mapping[str, Mapping[int, tuple[Need, ...]]]:
    found: dict[str, dict[int, tuple[Need, ...]]] = {}
    for rank in ranks:
        for name, needs in rank.found.lacks.items():
            if needs:
                found.setdefault(name, {})[rank.rank] = needs
    return found
