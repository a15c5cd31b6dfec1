"""What lies in a capture's folder beside traces: folders of windows, and manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracebraid.model.finding import Finding

__all__ = ["manifests_of", "windows_of"]

_WINDOW = "window_"


def windows_of(folder: Path) -> list[tuple[str, Path]]:
    """Name and path of each folder of a window, by number; the folder itself, with no name, where it has none."""
    inside = [
        one
        for one in folder.glob(f"{_WINDOW}*")
        if one.is_dir() and one.name.removeprefix(_WINDOW).isdecimal()
    ]
    inside.sort(key=lambda one: int(one.name.removeprefix(_WINDOW)))
    return [(one.name, one) for one in inside] or [("", folder)]


def manifests_of(
    folder: Path, rank: int | None = None
) -> tuple[list[tuple[Path, dict[str, Any]]], list[Finding]]:
    """Path and content of each manifest, or of one rank's, and a finding for each that is none."""
    told: list[tuple[Path, dict[str, Any]]] = []
    odd: list[Finding] = []
    for file in sorted(folder.glob(f"manifest_{'*' if rank is None else rank}.json")):
        try:
            content = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            odd.append(Finding("manifest-unreadable", f"it is no manifest ({error})", str(file)))
            continue
        if isinstance(content, dict):
            told.append((file, content))
        else:
            odd.append(Finding("manifest-unreadable", "it is no manifest", str(file)))
    return told, odd
