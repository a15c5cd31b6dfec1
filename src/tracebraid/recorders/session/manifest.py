"""`manifest_<rank>.json`: the settings of a capture, and its results."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from tracebraid.files import write_whole
from tracebraid.model.finding import Finding
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.own_process import getpid, parent
from tracebraid.recorders.session.place import Place, restarts
from tracebraid.recorders.session.progress import Progress
from tracebraid.recorders.session.settings import Settings
from tracebraid.recorders.session.window import Window
from tracebraid.recorders.session.world import World, devices
from tracebraid.version import __version__

SCHEMA = "tracebraid-manifest-1"


def manifest_path(folder: Path, rank: int) -> Path:
    """The path of a rank's manifest."""
    return folder / f"manifest_{rank}.json"


def surroundings() -> dict[str, Any]:
    """Versions, devices, host and command line of this process."""
    return {
        "tracebraid": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "devices": devices(),
        "host": socket.gethostname(),
        "pid": getpid(),
        "parent": parent(),
        "cpus": os.cpu_count(),
        "command_line": list(sys.orig_argv),
    }


def window_data(window: Window, folder: Path, failure: str, complete: bool) -> dict[str, Any]:
    """One window: its steps, its files with their sizes in bytes, findings, facts about the process, why it failed."""
    at = window.folder.relative_to(folder)
    return {
        "steps": window.steps,
        "complete": complete,
        "failure": failure or None,
        "files": [
            {"path": str(at / name), "size_bytes": size} for name, size in sorted(window.sizes_bytes.items())
        ],
        "findings": [_finding(finding) for finding in window.findings],
        "process": window.process,
    }


def lost_window(failure: str) -> dict[str, Any]:
    """A window that never opened: why."""
    return {"steps": [], "complete": False, "failure": failure, "files": [], "findings": []}


def files_of(folder: Path, rank: int) -> list[Path]:
    """The manifest of a rank, and the files that it lists; none where there is none, or it cannot be read."""
    path = manifest_path(folder, rank)
    with suppress(OSError, ValueError, TypeError, KeyError):
        windows = json.loads(path.read_bytes())["windows"]
        return [path, *(folder / file["path"] for window in windows for file in window["files"])]
    return []


def is_of_earlier_attempt(folder: Path, rank: int) -> bool:
    """Return whether a rank's files are of an attempt before this one, both of the same torchrun."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        earlier, attempt = json.loads(manifest_path(folder, rank).read_bytes()), restarts()
        is_same = (earlier["host"], earlier["parent"]) == (socket.gethostname(), parent())
        return attempt is not None and is_same and earlier["attempt"] < attempt
    return False


def manifest(
    settings: Settings, world: World, place: Place, progress: Progress, ending: dict[str, Any]
) -> dict[str, Any]:
    """The manifest of a process."""
    return {
        "schema": SCHEMA,
        **surroundings(),
        "rank": world.rank,
        "world_size": world.world_size,
        "rank_from": world.source,
        "backend": world.backend,
        "process_groups": list(world.process_groups),
        "process": place.process,
        "attempt": place.attempt,
        "died_before": list(place.died),
        "schedule": asdict(settings.schedule),
        "recorders": [settings.recorder, "nsys" if settings.nsys else "kineto"],
        "recorded": {"shapes": True, "stacks": settings.stacks, "memory": settings.memory},
        **ending,
        "overhead": progress.times.summary(),
        "windows": progress.windows,
    }


def write_manifest(folder: Path, data: dict[str, Any], overwrite: bool) -> None:
    """Write it."""
    text = json.dumps(data, indent=2, default=str) + "\n"
    write_whole(manifest_path(folder, data["rank"]), [text.encode()], overwrite)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "message": finding.message,
        "where": finding.where,
        "count": finding.count,
        "file": Path(finding.path).name,
    }
