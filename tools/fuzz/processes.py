"""What Linux says about a process: its memory, its children, how long it waited for a processor."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["forget_peak", "peak_bytes", "resident_bytes", "tree", "waited_s"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FORGET_PEAK = "5"
"""The word that `/proc/PID/clear_refs` takes for it: proc(5)."""


def tree(pid: int) -> list[int]:
    """A process and its descendants; none where it is gone."""
    try:
        found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [pid, *(below for child in found for below in tree(child))]


def resident_bytes(pid: int) -> int:
    """The memory that a process holds; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def waited_s(pid: int) -> float:
    """How long a process was ready to run in all, and had no processor."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def forget_peak() -> None:
    """Let the peak of this process's memory begin at what it holds now."""
    Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)


def peak_bytes() -> int:
    """The most memory that this process held since then."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
