"""Check a manifest against the files beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracebraid.filesystem.paths import joined, parent_of
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode

_LOSSES = (FindingCode.EXECUTION_TRACE_UNFINISHED, FindingCode.EXECUTION_TRACE_EMPTY)


def manifest_findings(
    manifest: Mapping[str, Any], path: str, size_of: Callable[[str], int | None]
) -> list[Finding]:
    """Find problems that a manifest reports, and differences from the files beside it."""
    found = []
    windows = _dicts(manifest.get("windows"))
    ended_by = manifest.get("ended_by")
    # Further steps help where nothing stopped the loop.
    is_stopped = ended_by not in ("end", None)
    if not any(_dicts(window.get("files")) for window in windows):
        details = {"steps": manifest.get("steps_seen"), "ended_by": ended_by}
        if is_stopped:
            details["case"] = FindingCase.STOPPED_BEFORE_WINDOW
        found.append(Finding(FindingCode.NOTHING_RECORDED, path, details=details))
    for window in windows:
        steps = window.get("steps") or []
        if window.get("failure"):
            # The path of the folder stands before it already.
            failure = str(window["failure"]).removeprefix(f"{parent_of(path)}/")
            found.append(Finding.of(FindingCode.WINDOW_LOST, path, steps=steps, failure=failure))
        elif not window.get("complete"):
            details = {"steps": steps, "ended_by": ended_by}
            if is_stopped:
                details["case"] = FindingCase.STOPPED_IN_WINDOW
            found.append(Finding(FindingCode.WINDOW_INCOMPLETE, path, details=details))
        found += [
            _lost(path, finding)
            for finding in _dicts(window.get("findings"))
            if finding.get("code") in _LOSSES
        ]
        found += [
            finding for file in _dicts(window.get("files")) for finding in _size_findings(path, file, size_of)
        ]
    return found


_UNFINISHED = (".part", ".recording.json", ".recording.json.tmp")
"""Suffixes of unfinished files; PyTorch itself writes the last two."""


def _dicts(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; a manifest may hold anything."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _lost(path: str, finding: Mapping[str, Any]) -> Finding:
    file = joined(parent_of(path), str(finding.get("file", "")))
    details = {"case": FindingCase.AS_RECORDED, "text": str(finding.get("message", ""))}
    return Finding(FindingCode.of(finding["code"]), file, str(finding.get("where", "")), details=details)


def leftover_findings(folder: str, names: Iterable[str]) -> list[Finding]:
    """Files that a recorder was writing when its process was killed."""
    parts = sorted(name for name in names if name.startswith(".") and name.endswith(_UNFINISHED))
    if not parts:
        return []
    return [Finding(FindingCode.PART_LEFT, joined(folder, parts[0]), count=len(parts))]


def _size_findings(path: str, file: Mapping[str, Any], size_of: Callable[[str], int | None]) -> list[Finding]:
    name, noted = str(file.get("path")), file.get("size_bytes")
    size = size_of(name)
    if size is None:
        return [Finding.of(FindingCode.MANIFEST_UNTRUE, path, name, case=FindingCase.FILE_ABSENT, name=name)]
    if type(noted) is int and noted == size:
        return []
    details = {"name": name, "size_bytes": size, "noted_bytes": noted}
    return [Finding(FindingCode.MANIFEST_UNTRUE, path, name, details=details)]
