"""Where calls write."""

from __future__ import annotations

from pathlib import Path

__all__ = ["new_file"]


def new_file(folder: Path, name: str) -> Path:
    """A path in the folder of outputs of a mutant, where nothing lies."""
    path = folder / "out" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    return path
