"""What a capture's folder contains beside traces: folders of windows, and manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Entry, Kind
from tracebraid.filesystem.paths import joined, name_of, parent_of, shown
from tracebraid.importers.discovery.rank import rank_from_name
from tracebraid.model.et_arrow import is_arrow
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["choose_window", "manifests_of", "recorder_of", "size_beside", "windows_of"]

_WINDOW = "window_"
_WINDOW_NAME = re.compile(r"window_\d+")
_MANIFEST_NAME = re.compile(r"manifest_.*\.json", re.DOTALL)
_RECORDERS = ("native", "torch")


def windows_of(folder: str, inside: Iterable[Entry] | None = None) -> list[tuple[str, str]]:
    """Name and path of each folder of a window, by number; the folder itself, with no name, where it has none.

    Args:
        folder: the folder of the capture.
        inside: what lies in it, where that is known.

    Raises:
        InputError: it cannot be listed.
    """
    names = [
        entry.name
        for entry in (file_system_of(folder).entries(folder) if inside is None else inside)
        if entry.kind is Kind.FOLDER and _WINDOW_NAME.fullmatch(entry.name)
    ]
    names.sort(key=lambda name: (int(name.removeprefix(_WINDOW)), name))
    return [(name, joined(folder, name)) for name in names] or [("", folder)]


def choose_window(
    folder: str, number: int | None, inside: Iterable[Entry]
) -> tuple[str | None, list[Finding]]:
    """The folder of one window of a capture, and a finding that names the others.

    Args:
        folder: the folder of the capture.
        number: of the window; None for the last one that has a file.
        inside: what lies in the folder.

    Returns:
        None for the folder, where it has no windows and none is asked for.

    Raises:
        InputError: there is no such window.
    """
    files = file_system_of(folder)
    windows = [(name, path) for name, path in windows_of(folder, inside) if name and files.entries(path)]
    names = [name for name, _ in windows]
    listed = ", ".join(names) or "none"
    wanted = f"{_WINDOW}{number}" if number is not None else names[-1] if names else ""
    if number is not None and wanted not in names:
        advice = "Name one of these" if names else "Leave the window out"
        raise InputError(shown(folder), f"it has no window {number}; it has {listed}", advice)
    if len(names) < 2:
        return next((path for _, path in windows), None), []
    details = {"windows": len(names), "names": listed, "chosen": wanted}
    return dict(windows)[wanted], [Finding(FindingCode.WINDOW_CHOSEN, shown(folder), details=details)]


def manifests_of(
    folder: str, rank: int | None = None
) -> tuple[list[tuple[str, dict[str, Any]]], list[Finding]]:
    """Path and content of each manifest, or of one rank's, and a finding for each that is unreadable."""
    manifests: list[tuple[str, dict[str, Any]]] = []
    findings: list[Finding] = []
    files = file_system_of(folder)
    names = (
        [entry.name for entry in files.entries(folder) if _MANIFEST_NAME.fullmatch(entry.name)]
        if rank is None
        else [f"manifest_{rank}.json"]
    )
    for path in (joined(folder, name) for name in names):
        try:
            kind = files.kind(path)
            if rank is not None and kind is Kind.ABSENT:
                continue
            if kind is not Kind.FILE:
                raise InputError(path, "it is no file", "")
            file = files.open(path)
            content = json.loads(file.read(0, file.size_bytes))
        except (InputError, ValueError, RecursionError) as error:
            problem = error.problem if isinstance(error, InputError) else str(error)
            findings.append(Finding.of(FindingCode.MANIFEST_UNREADABLE, path, error=problem))
            continue
        if isinstance(content, dict):
            manifests.append((path, content))
        else:
            case = FindingCase.NO_OBJECT
            findings.append(Finding.of(FindingCode.MANIFEST_UNREADABLE, path, case=case))
    return manifests, findings


def recorder_of(et: str) -> str:
    """Who recorded an Execution Trace, `native` or `torch`, by its manifest or file format; "" where unknown."""
    name, folder = name_of(et), parent_of(et)
    if is_arrow(name):
        return "native"
    rank = rank_from_name(et)
    if rank is None:
        return ""
    in_window = name_of(folder).startswith(_WINDOW)
    named = [
        content.get("recorders")
        for where in ([folder, parent_of(folder)] if in_window else [folder])
        for _, content in manifests_of(where, rank)[0]
        if name in _files_of(content)
    ]
    found = [name for names in named if isinstance(names, list) for name in names if name in _RECORDERS]
    return str(found[0]) if found else ""


def size_beside(manifest: str, name: str) -> int | None:
    """The size of a file below the folder of a manifest; None where there is none, or the name leads out of it."""
    if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
        return None
    path = joined(parent_of(manifest), name)
    try:
        files = file_system_of(path)
        return files.size_bytes(path) if files.kind(path) is Kind.FILE else None
    except (InputError, ValueError):
        return None


def _files_of(content: dict[str, Any]) -> set[str]:
    """Names of the files that a manifest lists."""
    windows = content.get("windows")
    files = [
        file
        for window in (windows if isinstance(windows, list) else [])
        if isinstance(window, dict) and isinstance(window.get("files"), list)
        for file in window["files"]
    ]
    return {PurePosixPath(str(file.get("path"))).name for file in files if isinstance(file, dict)}
