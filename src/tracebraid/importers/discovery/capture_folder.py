"""What a capture's folder contains beside traces: folders of windows, and manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracebraid.errors import InputError
from tracebraid.importers.discovery.rank import rank_from_name
from tracebraid.model.et_arrow import is_arrow
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["choose_window", "manifests_of", "recorder_of", "windows_of"]

_WINDOW = "window_"
_RECORDERS = ("native", "torch")


def windows_of(folder: Path) -> list[tuple[str, Path]]:
    """Name and path of each folder of a window, by number; the folder itself, with no name, where it has none."""
    inside = [
        path
        for path in folder.glob(f"{_WINDOW}*")
        if path.is_dir() and path.name.removeprefix(_WINDOW).isdecimal()
    ]
    inside.sort(key=lambda path: int(path.name.removeprefix(_WINDOW)))
    return [(path.name, path) for path in inside] or [("", folder)]


def choose_window(folder: Path, number: int | None) -> tuple[Path | None, list[Finding]]:
    """The folder of one window of a capture, and a finding that names the others.

    Args:
        folder: the folder of the capture.
        number: of the window; None for the last one that has a file.

    Returns:
        None for the folder, where it has no windows and none is asked for.

    Raises:
        InputError: there is no such window.
    """
    windows = [(name, path) for name, path in windows_of(folder) if name and any(path.iterdir())]
    names = [name for name, _ in windows]
    shown = ", ".join(names) or "none"
    wanted = f"{_WINDOW}{number}" if number is not None else names[-1] if names else ""
    if number is not None and wanted not in names:
        advice = "Name one of these" if names else "Leave the window out"
        raise InputError(str(folder), f"it has no window {number}; it has {shown}", advice)
    if len(names) < 2:
        return next((path for _, path in windows), None), []
    details = {"windows": len(names), "names": shown, "chosen": wanted}
    return dict(windows)[wanted], [Finding(FindingCode.WINDOW_CHOSEN, str(folder), details=details)]


def manifests_of(
    folder: Path, rank: int | None = None
) -> tuple[list[tuple[Path, dict[str, Any]]], list[Finding]]:
    """Path and content of each manifest, or of one rank's, and a finding for each that is unreadable."""
    manifests: list[tuple[Path, dict[str, Any]]] = []
    findings: list[Finding] = []
    for file in sorted(folder.glob(f"manifest_{'*' if rank is None else rank}.json")):
        try:
            content = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            findings.append(Finding.of(FindingCode.MANIFEST_UNREADABLE, str(file), error=str(error)))
            continue
        if isinstance(content, dict):
            manifests.append((file, content))
        else:
            case = FindingCase.NO_OBJECT
            findings.append(Finding.of(FindingCode.MANIFEST_UNREADABLE, str(file), case=case))
    return manifests, findings


def recorder_of(et: Path) -> str:
    """Who recorded an Execution Trace, `native` or `torch`, by its manifest or file format; "" where unknown."""
    if is_arrow(et.name):
        return "native"
    rank = rank_from_name(str(et))
    if rank is None:
        return ""
    folders = [et.parent, et.parent.parent] if et.parent.name.startswith(_WINDOW) else [et.parent]
    named = [
        content.get("recorders")
        for folder in folders
        for _, content in manifests_of(folder, rank)[0]
        if et.name in _files_of(content)
    ]
    found = [name for names in named if isinstance(names, list) for name in names if name in _RECORDERS]
    return str(found[0]) if found else ""


def _files_of(content: dict[str, Any]) -> set[str]:
    """Names of the files that a manifest lists."""
    windows = content.get("windows")
    files = [
        file
        for window in (windows if isinstance(windows, list) else [])
        if isinstance(window, dict) and isinstance(window.get("files"), list)
        for file in window["files"]
    ]
    return {Path(str(file.get("path"))).name for file in files if isinstance(file, dict)}
