"""Is what a manifest says of the files beside it true?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracebraid.model.finding import Finding

__all__ = ["leftover_findings", "manifest_findings", "size_beside"]

_LOSSES = ("execution-trace-unfinished", "execution-trace-empty")


def manifest_findings(manifest: Mapping[str, Any], path: Path) -> list[Finding]:
    """What a manifest says went wrong, and where the files beside it are not those that it lists.

    Args:
        manifest: its content.
        path: the file.
    """
    found = []
    windows = _dicts(manifest.get("windows"))
    if not any(_dicts(window.get("files")) for window in windows):
        text = f"nothing was recorded in {manifest.get('steps_seen')} steps"
        found.append(Finding("nothing-recorded", text, str(path)))
    for window in windows:
        steps = window.get("steps") or []
        if window.get("failure"):
            text = f"the window of steps {steps} is lost: {window['failure']}"
            found.append(Finding("window-lost", text, str(path)))
        elif not window.get("complete"):
            text = (
                f"the loop ended inside of the window ({manifest.get('ended_by')}), which has steps {steps}"
            )
            found.append(Finding("window-incomplete", text, str(path)))
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
    return Finding(
        str(finding["code"]), str(finding.get("message", "")), str(file), str(finding.get("where", ""))
    )


def leftover_findings(folder: Path) -> list[Finding]:
    """Files that a recorder was writing when its process was killed."""
    parts = sorted(folder.glob(".*.part"))
    if not parts:
        return []
    text = "a process was killed while it recorded, and left a file that has no final name"
    return [Finding("part-left", text, str(parts[0]), count=len(parts))]


def _untrue(path: Path, file: Mapping[str, Any]) -> list[Finding]:
    name, noted = str(file.get("path")), file.get("size_bytes")
    size = size_beside(path, name)
    if size is None:
        return [Finding("manifest-untrue", f"{name} is not there", str(path), name)]
    if type(noted) is int and noted == size:
        return []
    return [Finding("manifest-untrue", f"{name} has {size} bytes, not {noted!r}", str(path), name)]


def size_beside(path: Path, name: str) -> int | None:
    """The size of a file below the folder of a manifest; None where there is none, or the name leads out of it."""
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    try:
        beside = path.parent / name
        return beside.stat().st_size if beside.is_file() else None
    except (OSError, ValueError):
        return None
