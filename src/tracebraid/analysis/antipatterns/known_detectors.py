"""Which detectors are there: those of Tracebraid, and those that installed packages offer as entry points."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tracebraid.analysis import entry_points
from tracebraid.analysis.antipatterns.catalog import DETECTORS, JOB_DETECTORS
from tracebraid.analysis.entry_points import Offered, offered
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import Gather
from tracebraid.model.questions.detector import Detector, JobDetector

__all__ = ["KnownDetectors", "failure", "known_detectors"]

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_NOT_GIVEN = "what its documentation says"


@dataclass(frozen=True)
class KnownDetectors:
    """All detectors that are asked.

    Args:
        of_ranks: they are asked of each rank.
        of_job: they are asked of all ranks together.
        packages: of those that come from other packages: the package, by the detector's name.
        findings: which could not be loaded.
    """

    of_ranks: tuple[Detector, ...] = ()
    of_job: tuple[JobDetector, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def by_name(self) -> dict[str, Detector | JobDetector]:
        """All by their names."""
        both: list[Detector | JobDetector] = [*self.of_ranks, *self.of_job]
        return {detector.name: detector for detector in both}

    @property
    def gathers(self) -> tuple[Gather, ...]:
        """What the detectors of a job take of each rank, each once."""
        return tuple(dict.fromkeys(gather for detector in self.of_job for gather in detector.gathers))

    def with_gathers(self, gathers: Collection[Gather]) -> KnownDetectors:
        """The same without the detectors of a job for which something was not taken of all ranks."""
        return replace(
            self, of_job=tuple(detector for detector in self.of_job if set(detector.gathers) <= set(gathers))
        )


def known_detectors() -> KnownDetectors:
    """The detectors of Tracebraid, and those of installed packages in the order of their names."""
    known = KnownDetectors(DETECTORS, JOB_DETECTORS)
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
    """What is known, and the detector that a package offers, or the finding that it cannot be had."""
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
