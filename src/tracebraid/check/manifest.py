"""Does a manifest tell the truth about the files beside it?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracebraid.model.finding import Finding

__all__ = ["leftover_findings", "manifest_findings"]

_LOSSES = ("execution-trace-unfinished", "execution-trace-empty")


def manifest_findings(manifest: Mapping[str, Any], path: Path) -> list[Finding]:
    """What a manifest says went wrong, and where the files beside it are not those that it tells of.

    Args:
        manifest: its content.
        path: the file.
    """
    found = []
    windows = [window for window in manifest.get("windows", []) if isinstance(window, dict)]
    if not any(window.get("files") for window in windows):
        text = f"nothing was recorded in {manifest.get('steps_seen')} steps"
        found.append(Finding("nothing-recorded", text, str(path)))
    for window in windows:
        steps = window.get("steps") or []
        if window.get("failure"):
            text = f"the window of steps {steps} is lost: {window['failure']}"
            found.append(Finding("window-lost", text, str(path)))
        elif not window.get("complete"):
            text = f"the window of steps {steps} ended early ({manifest.get('ended_by')}); its last step is cut short"
            found.append(Finding("window-incomplete", text, str(path)))
        found += [_lost(path, one) for one in window.get("findings", []) if one.get("code") in _LOSSES]
        found += [_untrue(path, file) for file in window.get("files", []) if not _is_true(path, file)]
    return found


def _lost(path: Path, one: Mapping[str, Any]) -> Finding:
    file = path.parent / str(one.get("file", ""))
    return Finding(str(one["code"]), str(one.get("message", "")), str(file), str(one.get("where", "")))


def leftover_findings(folder: Path) -> list[Finding]:
    """Files that a recorder was writing when its process was killed."""
    parts = sorted(folder.glob(".*.part"))
    if not parts:
        return []
    text = "a process was killed while it recorded, and left a file that has no final name"
    return [Finding("part-left", text, str(parts[0]), count=len(parts))]


def _is_true(path: Path, file: Mapping[str, Any]) -> bool:
    beside = path.parent / str(file.get("path"))
    return beside.is_file() and beside.stat().st_size == file.get("size_bytes")


def _untrue(path: Path, file: Mapping[str, Any]) -> Finding:
    beside = path.parent / str(file.get("path"))
    if not beside.is_file():
        return Finding("manifest-untrue", f"{file.get('path')} is not there", str(path))
    told, size = file.get("size_bytes"), beside.stat().st_size
    return Finding("manifest-untrue", f"{file.get('path')} has {size} bytes, not {told}", str(path))
