"""What is noticed about an archive itself: members that are left out, and where it is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracebraid.filesystem.choose import archive_of
from tracebraid.importers.discovery.sniff import is_candidate
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["archive_findings", "with_text_path"]

_SHOWN = 3
"""Members in a finding."""


def archive_findings(path: str) -> list[Finding]:
    """What was found while the archive of a path was listed; of members, those that may be traces by their names.

    Args:
        path: as `choose.with_files` gives it.
    """
    archive = archive_of(path)
    if archive is None:
        return []
    found = [
        Finding(FindingCode.MEMBERS_LEFT_OUT, archive.path, _shown(names), len(names), details={"case": case})
        for case, refused in archive.index.refused.items()
        if (names := [name for name in refused if _matters(case, name)])
    ]
    if archive.spooled is not None:
        found += [
            Finding(issue.code, archive.path, f"byte {issue.byte:,}", 1, issue.loss, issue.details)
            for issue in archive.spooled.damage
        ]
    at = archive.index.damaged_at
    if at is not None:
        found.append(Finding(FindingCode.ARCHIVE_DAMAGED, archive.path, f"byte {at:,}", loss=Loss()))
    return found


def with_text_path(finding: Finding) -> Finding:
    """A finding whose path is text alone."""
    return finding if type(finding.path) is str else replace(finding, path=str(finding.path))


def _matters(case: FindingCase, name: str) -> bool:
    return case is FindingCase.ARCHIVE_INSIDE or is_candidate(name.rpartition("/")[2])


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
