"""Detectors asked of a rank and of a job: what they find, in one frame, and which of them failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.antipatterns.known_detectors import KnownDetectors, failure
from tracebraid.analysis.antipatterns.ranking.in_steps import windows_to_save_in
from tracebraid.analysis.needs import lacking_of
from tracebraid.model.answers import EVIDENCE
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import Gather, LinkedRanks, gather_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need

__all__ = ["FOUND", "MOST_ROWS", "RankEvidence", "evidence_of_job", "evidence_of_rank", "gathered_of"]

FOUND = {**EVIDENCE.polars_schema(), "detector": pl.String()}
"""Columns of evidence of several detectors."""

MOST_ROWS = 1_000_000
"""Rows that are taken of another package's detector: they are kept for each rank; a chosen value."""

_LATEST_NS = 2**61
_TIMES = ("start_ns", "end_ns", "saving_ns")


@dataclass(frozen=True, eq=False)
class RankEvidence:
    """What detectors found on a rank.

    Args:
        evidence: `EVIDENCE` with `detector`.
        windows: the steps of the rank.
        lacks: what it lacks for each detector, by its name.
        findings: which detectors failed.
    """

    evidence: pl.DataFrame
    windows: pl.DataFrame
    lacks: Mapping[str, tuple[Need, ...]]
    findings: tuple[Finding, ...] = ()


def evidence_of_rank(linked: LinkedTrace, annotation: str, known: KnownDetectors) -> RankEvidence:
    """Ask all detectors of a rank; one that lacks something is not asked.

    Args:
        linked: one rank.
        annotation: what marks a step.
        known: the detectors.
    """
    lacks = {detector.name: lacking_of(detector.needs, linked, annotation) for detector in known.of_ranks}
    found, findings = [pl.DataFrame(schema=FOUND)], []
    for detector in known.of_ranks:
        if lacks[detector.name]:
            continue
        detect = detector.detect
        rows = _asked(known, detector.name, lambda detect=detect: detect(linked, annotation))  # type: ignore[misc]
        if isinstance(rows, Finding):
            findings.append(rows)
        else:
            found.append(rows.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank")))
    windows = windows_to_save_in(linked, annotation)
    return RankEvidence(pl.concat(found), windows, lacks, tuple(findings))


def evidence_of_job(ranks: LinkedRanks, known: KnownDetectors) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """What the detectors of a job find, as `FOUND`, and which of them failed."""
    found, findings = [pl.DataFrame(schema=FOUND)], []
    for detector in known.of_job:
        detect = detector.detect
        columns = ("rank", *_TIMES)
        rows = _asked(known, detector.name, lambda detect=detect: detect(ranks), columns)  # type: ignore[misc]
        if isinstance(rows, Finding):
            findings.append(rows)
        else:
            found.append(rows)
    return pl.concat(found), tuple(findings)


def gathered_of(
    linked: LinkedTrace, annotation: str, known: KnownDetectors
) -> tuple[dict[Gather, pl.DataFrame], tuple[Finding, ...]]:
    """What the detectors of a job take of a rank, but for those of packages that fail."""
    found: dict[Gather, pl.DataFrame] = {}
    findings: list[Finding] = []
    for detector in known.of_job:
        for gather in detector.gathers:
            if gather in found:
                continue
            if detector.name not in known.packages:
                found[gather] = gather_of(linked, gather, annotation)
                continue
            try:
                found[gather] = gather_of(linked, gather, annotation)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - As in `_asked`.
                findings.append(failure(known.packages[detector.name], detector.name, error))
    return found, tuple(findings)


def _asked(
    known: KnownDetectors, name: str, detect: Callable[[], pl.DataFrame], columns: Sequence[str] = _TIMES
) -> pl.DataFrame | Finding:
    """What a detector finds, as `FOUND`; of another package's that fails the finding that it does."""
    package = known.packages.get(name)
    if package is None:
        return _as_found(detect(), name)
    try:
        frame = detect()
        problem = _problem(frame, columns)
        return failure(package, name, problem) if problem else _as_found(frame, name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - It is another package's code: whatever it raises, others are asked.
        return failure(package, name, error)


def _problem(frame: object, columns: Sequence[str]) -> str | None:
    """What is wrong with what a detector returned."""
    if not isinstance(frame, pl.DataFrame):
        return f"it returns a {type(frame).__name__}, no polars DataFrame"
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        return f"its rows have no {', '.join(missing)}"
    if frame.height > MOST_ROWS:
        return f"it returns {frame.height} rows; at most {MOST_ROWS} are taken"
    nulls = [name for name in columns if frame.get_column(name).null_count()]
    if nulls:
        return f"its rows have null in {', '.join(nulls)}"
    beyond = [name for name in _TIMES if not _is_in_range(frame.get_column(name))]
    return f"its rows have numbers that are no times in {', '.join(beyond)}" if beyond else None


def _is_in_range(times: pl.Series) -> bool:
    """Whether differences of these times fit 64 bits: NaN and infinity do not. What is no number is cast later."""
    if not times.dtype.is_numeric():
        return True
    inside = times.is_between(-_LATEST_NS, _LATEST_NS)
    if times.dtype.is_float():
        inside &= times.is_finite()
    return bool(inside.all())


def _as_found(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Rows of `EVIDENCE` whose saving is at least 1 and at most their length."""
    long = pl.col("end_ns") - pl.col("start_ns")
    return (
        EVIDENCE.conform(frame, fill_missing=True)
        .with_columns(pl.min_horizontal("saving_ns", long), pl.lit(name).alias("detector"))
        .filter(pl.col("saving_ns") > 0)
    )
