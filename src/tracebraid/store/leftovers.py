"""What packs that were killed, and ranks that are gone, leave in a store."""

from __future__ import annotations

import shutil
from pathlib import Path

from tracebraid.files import writing
from tracebraid.store.layout import LOCK, is_store

__all__ = ["is_other", "remove_parts"]

_PARTS = ".*.part"
"""Names of files that were being written."""


def is_other(folder: Path) -> bool:
    """Whether something else than a store is there already; what a pack leaves that was killed at once is nothing."""
    if not folder.exists() or is_store(folder):
        return False
    if not folder.is_dir():
        return True
    return any(entry.name != LOCK and not entry.match(_PARTS) for entry in folder.iterdir())


def remove_parts(store: Path) -> None:
    """Delete the files and folders that a killed pack was writing. Whoever calls it holds the lock.

    Raises:
        OutputError: one cannot be deleted.
    """
    for part in list(store.rglob(_PARTS)):
        with writing(part):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)
