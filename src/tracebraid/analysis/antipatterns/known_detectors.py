"""List the detectors: built-in ones, and those that installed packages offer as entry points."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracebraid.analysis import entry_points
from tracebraid.analysis.antipatterns.catalog import job_detectors, rank_detectors
from tracebraid.analysis.antipatterns.ranking import windows_to_save_in
from tracebraid.analysis.entry_points import Offered, offered
from tracebraid.analysis.needs import lacking_of
from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import Gather, LinkedRanks, gather_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import AnyDetector, Detector, JobDetector, PathDetector

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_NOT_GIVEN = "what its documentation says"


class KnownDetectors(Struct, frozen=True):
    """All detectors that are asked.

    Args:
        of_ranks: they are asked of each rank.
        of_job: they are asked of all ranks together.
        of_path: they are asked of the critical path.
        packages: of those that come from other packages: the package, by the detector's name.
        findings: which could not be loaded.
    """

    of_ranks: tuple[Detector, ...] = ()
    of_job: tuple[JobDetector, ...] = ()
    of_path: tuple[PathDetector, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def by_name(self) -> dict[str, AnyDetector]:
        """All by their names."""
        every: list[AnyDetector] = [*self.of_path, *self.of_ranks, *self.of_job]
        return {detector.name: detector for detector in every}

    @property
    def gathers(self) -> tuple[Gather, ...]:
        """Distinct inputs of a job's detectors from each rank."""
        return tuple(dict.fromkeys(gather for detector in self.of_job for gather in detector.gathers))

    def for_ranks(self, count: int) -> KnownDetectors:
        """The same; of a single rank without those of Tracebraid that compare ranks: they would find nothing."""
        if count > 1:
            return self
        return replace(self, of_job=tuple(each for each in self.of_job if each not in job_detectors()))

    def with_gathers(self, gathers: Collection[Gather]) -> KnownDetectors:
        """The same without the detectors of a job for which something was not taken of all ranks."""
        return replace(
            self, of_job=tuple(detector for detector in self.of_job if set(detector.gathers) <= set(gathers))
        )


def known_detectors(of_path: Sequence[PathDetector] = ()) -> KnownDetectors:
    """The detectors of Tracebraid, and those of installed packages in the order of their names."""
    known = KnownDetectors(rank_detectors(), job_detectors(), tuple(of_path))
    for offer in offered(entry_points.DETECTORS):
        known = _with(known, offer)
    return known


def failure(package: str, detector: str, error: BaseException | str) -> Finding:
    """The finding that a package's detector failed, with the line of the package in which it did."""
    if isinstance(error, str):
        return Finding.of(FindingCode.DETECTOR_FAILED, package, "", detector=detector, problem=error)
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = f"{last.filename}({last.lineno}): {last.name}" if last is not None else ""
    problem = traceback.format_exception_only(type(error), error)[-1].strip()
    return Finding.of(FindingCode.DETECTOR_FAILED, package, where, detector=detector, problem=problem)


def _with(known: KnownDetectors, offer: Offered) -> KnownDetectors:
    """Add a package's detector to the known ones, or a finding that it cannot be loaded."""
    package = offer.package or offer.target
    detector: Detector | JobDetector | Finding
    if offer.error is not None:
        detector = failure(package, offer.name, offer.error)
    else:
        detector = _detector(offer.name, offer.found, package)
    if not isinstance(detector, Finding) and detector.name in known.by_name:
        detector = failure(package, offer.name, f"there is a detector {detector.name} already")
    if isinstance(detector, Finding):
        return replace(known, findings=(*known.findings, detector))
    packages = {**known.packages, detector.name: package}
    if isinstance(detector, Detector):
        return replace(known, of_ranks=(*known.of_ranks, detector), packages=packages)
    return replace(known, of_job=(*known.of_job, detector), packages=packages)


def _detector(name: str, found: object, package: str) -> Detector | JobDetector | Finding:
    """A detector from what an entry point names."""
    if isinstance(found, Detector | JobDetector):
        return found
    if not callable(found) or isinstance(found, type):
        return failure(package, name, "it is neither a function nor a Detector nor a JobDetector")
    code = name.replace("_", "-")
    if not re.fullmatch(_NAME, code):
        return failure(package, name, "its name is not in kebab case, such as slow-loader")
    title, _, rest = (inspect.getdoc(found) or name).partition("\n")
    change = " ".join(rest.split()) or _NOT_GIVEN
    return Detector(code, title.rstrip("."), change, found)


FOUND = {**EVIDENCE.polars_schema(), "detector": pl.String()}
"""Columns of evidence of several detectors."""

MOST_ROWS = 1_000_000
"""Rows that are taken of another package's detector: they are kept for each rank; a chosen value."""

_LATEST_NS = 2**61
_TIMES = ("start_ns", "end_ns", "saving_ns")


class RankEvidence(Struct, frozen=True, eq=False):
    """Results of detectors on a rank.

    Args:
        evidence: `EVIDENCE` with `detector`.
        windows: the steps of the rank (`windows_to_save_in`).
        lacks: what it lacks for each detector, by its name.
        findings: which detectors failed.
    """

    evidence: pl.DataFrame
    windows: pl.DataFrame
    lacks: Mapping[str, tuple[Need, ...]]
    findings: tuple[Finding, ...] = ()


def evidence_of_rank(linked: LinkedTrace, known: KnownDetectors) -> RankEvidence:
    """Ask all detectors of a rank; one that lacks something is not asked."""
    lacks = {detector.name: lacking_of(detector.needs, linked) for detector in known.of_ranks}
    found, findings = [pl.DataFrame(schema=FOUND)], []
    for detector in known.of_ranks:
        if lacks[detector.name]:
            continue
        detect = detector.detect
        rows = _asked(known, detector.name, lambda detect=detect: detect(linked))  # type: ignore[misc]
        if isinstance(rows, Finding):
            findings.append(rows)
        else:
            found.append(rows)
    evidence = pl.concat(found).with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
    return RankEvidence(evidence, windows_to_save_in(linked), lacks, tuple(findings))


def evidence_of_job(ranks: LinkedRanks, known: KnownDetectors) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """Run the detectors of a job; return `FOUND`, and the failures."""
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
    linked: LinkedTrace, known: KnownDetectors
) -> tuple[dict[Gather, pl.DataFrame], tuple[Finding, ...]]:
    """Gather the input of a job's detectors from a rank, except failing ones of packages."""
    found: dict[Gather, pl.DataFrame] = {}
    findings: list[Finding] = []
    for detector in known.of_job:
        for gather in detector.gathers:
            if gather in found:
                continue
            if detector.name not in known.packages:
                found[gather] = gather_of(linked, gather)
                continue
            try:
                found[gather] = gather_of(linked, gather)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - As in `_asked`.
                findings.append(failure(known.packages[detector.name], detector.name, error))
    return found, tuple(findings)


def _asked(
    known: KnownDetectors, name: str, detect: Callable[[], pl.DataFrame], columns: Sequence[str] = _TIMES
) -> pl.DataFrame | Finding:
    """Run a detector; return `FOUND`, or a finding if another package's detector fails."""
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
    """Return the fault of a detector's result."""
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
    if frame.is_empty():
        return pl.DataFrame(schema=FOUND)
    long = pl.col("end_ns") - pl.col("start_ns")
    return (
        EVIDENCE.conform(frame, fill_missing=True)
        .with_columns(pl.min_horizontal("saving_ns", long), pl.lit(name).alias("detector"))
        .filter(pl.col("saving_ns") > 0)
    )
