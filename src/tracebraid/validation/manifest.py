"""Is what a manifest says of the files beside it true?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracebraid.filesystem.paths import joined, parent_of
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["leftover_findings", "manifest_findings"]

_LOSSES = (FindingCode.EXECUTION_TRACE_UNFINISHED, FindingCode.EXECUTION_TRACE_EMPTY)


def manifest_findings(
    manifest: Mapping[str, Any], path: str, size_of: Callable[[str], int | None]
) -> list[Finding]:
    """What a manifest says went wrong, and where the files beside it are not those that it lists.

    Args:
        manifest: its content.
        path: the file.
        size_of: the size in bytes of a file below the manifest's folder; None where there is none.
    """
    found = []
    windows = _dicts(manifest.get("windows"))
    if not any(_dicts(window.get("files")) for window in windows):
        seen = manifest.get("steps_seen")
        found.append(Finding.of(FindingCode.NOTHING_RECORDED, path, steps=seen))
    for window in windows:
        steps = window.get("steps") or []
        if window.get("failure"):
            failure = window["failure"]
            found.append(Finding.of(FindingCode.WINDOW_LOST, path, steps=steps, failure=failure))
        elif not window.get("complete"):
            ended_by = manifest.get("ended_by")
            found.append(Finding.of(FindingCode.WINDOW_INCOMPLETE, path, ended_by=ended_by, steps=steps))
        found += [
            _lost(path, finding)
            for finding in _dicts(window.get("findings"))
            if finding.get("code") in _LOSSES
        ]
        found += [finding for file in _dicts(window.get("files")) for finding in _untrue(path, file, size_of)]
    return found


_UNFINISHED = (".part", ".recording.json", ".recording.json.tmp")
"""How names of files end that are being written; the last two PyTorch itself writes."""


def _dicts(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; a manifest may hold anything."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _lost(path: str, finding: Mapping[str, Any]) -> Finding:
    file = joined(parent_of(path), str(finding.get("file", "")))
    details = {"case": FindingCase.AS_RECORDED, "text": str(finding.get("message", ""))}
    return Finding(FindingCode(finding["code"]), file, str(finding.get("where", "")), details=details)


def leftover_findings(folder: str, names: Iterable[str]) -> list[Finding]:
    """Files that a recorder was writing when its process was killed.

    Args:
        folder: a folder of traces.
        names: of what lies in it.
    """
    parts = sorted(name for name in names if name.startswith(".") and name.endswith(_UNFINISHED))
    if not parts:
        return []
    return [Finding(FindingCode.PART_LEFT, joined(folder, parts[0]), count=len(parts))]


def _untrue(path: str, file: Mapping[str, Any], size_of: Callable[[str], int | None]) -> list[Finding]:
    name, noted = str(file.get("path")), file.get("size_bytes")
    size = size_of(name)
    if size is None:
        return [Finding.of(FindingCode.MANIFEST_UNTRUE, path, name, case=FindingCase.FILE_ABSENT, name=name)]
    if type(noted) is int and noted == size:
        return []
    details = {"name": name, "size_bytes": size, "noted_bytes": noted}
    return [Finding(FindingCode.MANIFEST_UNTRUE, path, name, details=details)]
