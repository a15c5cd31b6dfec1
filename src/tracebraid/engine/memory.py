"""How much memory this process may still take: what the machine has free, and what its control group allows."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_bytes", "cores"]

_UNLIMITED_BYTES = 1 << 60
"""A limit above is none: version 1 of control groups writes the largest page-aligned int64."""

_CONTROL_GROUPS = (
    ("", "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")),
    (
        "memory",
        "sys/fs/cgroup/memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ),
)
"""Of versions 2 and 1: the controller, where it is mounted, and its files: limit, usage, and cache in `memory.stat`."""

_ROOT = Path("/")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_bytes(root: Path = _ROOT) -> int:
    """The memory that may still be taken before the machine or a control group around this process runs out of it.

    Page cache counts as free: the kernel gives it up first. Where nothing is known, there is no limit.

    Args:
        root: the root of the file system, below which `/proc` and `/sys/fs/cgroup` are read.
    """
    found = [_UNLIMITED_BYTES]
    meminfo = _numbers(root / "proc/meminfo")
    if "MemAvailable:" in meminfo:
        found.append(meminfo["MemAvailable:"] * 1024)
    for controller, folder, names in _CONTROL_GROUPS:
        found += [_free_of(group, *names) for group in _groups(root, controller, root / folder)]
    return max(0, min(found))


def _groups(root: Path, controller: str, mounted: Path) -> list[Path]:
    """The folders of the control group of this process, and of those around it.

    Within a container the mounted root is the container's own group, whatever path the host knows it by.
    """
    names = [line.split(":", 2) for line in _text(root / "proc/self/cgroup").splitlines()]
    paths = [name[2] for name in names if len(name) == 3 and controller in name[1].split(",")]
    own = Path(paths[0].lstrip("/")) if paths else Path()
    return [mounted / folder for folder in (own, *own.parents)]


def _free_of(group: Path, limit: str, usage: str, cache: str) -> int:
    """What a control group still allows; no limit where it has none."""
    allowed, used = _text(group / limit).strip(), _text(group / usage).strip()
    if not allowed.isdecimal() or not used.isdecimal() or int(allowed) >= _UNLIMITED_BYTES:
        return _UNLIMITED_BYTES
    return int(allowed) - int(used) + _numbers(group / "memory.stat").get(cache, 0)


def _numbers(path: Path) -> dict[str, int]:
    """A file of lines that are a name and a number."""
    words = [line.split() for line in _text(path).splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
