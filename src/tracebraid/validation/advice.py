"""Diagnoses of findings, without those that follow from others."""

from __future__ import annotations

from collections.abc import Iterable

from tracebraid.filesystem.paths import joined, parent_of
from tracebraid.model.check import Diagnosis
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode, Severity

_CUT_OFF = (FindingCode.COMPRESSION_DAMAGED, FindingCode.TRUNCATED)
"""Codes of a file that ends early."""

_OF_SAME_FILE: dict[FindingCode, tuple[FindingCode, ...]] = {
    FindingCode.TRUNCATED: (FindingCode.COMPRESSION_DAMAGED,),
    FindingCode.NOTHING_RECORDED: (FindingCode.WINDOW_LOST,),
    FindingCode.DEVICE_EVENTS_MISSING: (FindingCode.LAUNCH_WITHOUT_WORK,),
    FindingCode.EVENT_DURATION: (FindingCode.DURATION_OVERFLOWS,),
}
"""Findings that say nothing new of a file, by what says it already."""

_OF_SINGLE_OBJECT = (FindingCode.EVENT_UNREADABLE, FindingCode.NODE_UNREADABLE)
"""Codes of the single unreadable object at the end of a truncated file."""

_OF_FOLDER = (FindingCode.STEPS_DIFFER,)
"""Codes from comparing files of a folder, of which one is truncated."""


def without_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, each once and in their order, less those that follow from others."""
    found = list(dict.fromkeys(findings))
    codes_of: dict[str, set[FindingCode]] = {}
    for finding in found:
        codes_of.setdefault(finding.path, set()).add(finding.code)
    cut_off = {path for path, codes in codes_of.items() if codes & set(_CUT_OFF)}
    return [finding for finding in found if not _follows(finding, codes_of[finding.path], cut_off)]


def _follows(finding: Finding, beside: set[FindingCode], cut_off: set[str]) -> bool:
    if finding.code in _OF_FOLDER:
        return any(parent_of(file) == finding.path for file in cut_off)
    if finding.code is FindingCode.MANIFEST_UNTRUE:
        return joined(parent_of(finding.path), finding.where) in cut_off
    if finding.code in _OF_SINGLE_OBJECT and finding.count == 1 and finding.path in cut_off:
        return True
    return any(code in beside for code in _OF_SAME_FILE.get(finding.code, ()))


_ORDER = {severity: position for position, severity in enumerate(Severity)}


def diagnose(findings: Iterable[Finding]) -> tuple[Diagnosis, ...]:
    """Each fault with its weight and advice; errors first, else in their order."""
    return tuple(
        sorted(
            map(diagnosis_of, without_consequences(findings)),
            key=lambda diagnosis: _ORDER[diagnosis.severity],
        )
    )


def diagnosis_of(finding: Finding) -> Diagnosis:
    """A finding with its weight and advice."""
    return Diagnosis(finding, finding.code.severity, finding.advice)
