"""Is what a manifest says of the files beside it true?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["leftover_findings", "manifest_findings", "size_beside"]

_LOSSES = (FindingCode.EXECUTION_TRACE_UNFINISHED, FindingCode.EXECUTION_TRACE_EMPTY)


def manifest_findings(manifest: Mapping[str, Any], path: Path) -> list[Finding]:
    """What a manifest says went wrong, and where the files beside it are not those that it lists.

    Args:
        manifest: its content.
        path: the file.
    """
    found = []
    windows = _dicts(manifest.get("windows"))
    if not any(_dicts(window.get("files")) for window in windows):
        seen = manifest.get("steps_seen")
        found.append(Finding.of(FindingCode.NOTHING_RECORDED, str(path), steps=seen))
    for window in windows:
        steps = window.get("steps") or []
        if window.get("failure"):
            failure = window["failure"]
            found.append(Finding.of(FindingCode.WINDOW_LOST, str(path), steps=steps, failure=failure))
        elif not window.get("complete"):
            ended_by = manifest.get("ended_by")
            found.append(Finding.of(FindingCode.WINDOW_INCOMPLETE, str(path), ended_by=ended_by, steps=steps))
        found += [
            _lost(path, finding)
            for finding in _dicts(window.get("findings"))
            if finding.get("code") in _LOSSES
        ]
        found += [finding for file in _dicts(window.get("files")) for finding in _untrue(path, file)]
    return found


def _dicts(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; a manifest may hold anything."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _lost(path: Path, finding: Mapping[str, Any]) -> Finding:
    file = path.parent / str(finding.get("file", ""))
    details = {"case": FindingCase.AS_RECORDED, "text": str(finding.get("message", ""))}
    return Finding(FindingCode(finding["code"]), str(file), str(finding.get("where", "")), details=details)


def leftover_findings(folder: Path) -> list[Finding]:
    """Files that a recorder was writing when its process was killed."""
    parts = sorted(folder.glob(".*.part"))
    if not parts:
        return []
    return [Finding(FindingCode.PART_LEFT, str(parts[0]), count=len(parts))]


def _untrue(path: Path, file: Mapping[str, Any]) -> list[Finding]:
    name, noted = str(file.get("path")), file.get("size_bytes")
    size = size_beside(path, name)
    if size is None:
        return [
            Finding.of(FindingCode.MANIFEST_UNTRUE, str(path), name, case=FindingCase.FILE_ABSENT, name=name)
        ]
    if type(noted) is int and noted == size:
        return []
    details = {"name": name, "size_bytes": size, "noted_bytes": noted}
    return [Finding(FindingCode.MANIFEST_UNTRUE, str(path), name, details=details)]


def size_beside(path: Path, name: str) -> int | None:
    """The size of a file below the folder of a manifest; None where there is none, or the name leads out of it."""
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    try:
        beside = path.parent / name
        return beside.stat().st_size if beside.is_file() else None
    except (OSError, ValueError):
        return None
