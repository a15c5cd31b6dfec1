"""What a store holds: its manifest, and where a pack did not end, what came of it so far."""

from __future__ import annotations

import re
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.store.layout import MANIFEST, RANKS
from tracebraid.store.manifest import Manifest
from tracebraid.store.sealed_json import read_sealed
from tracebraid.store.soundness import check_manifest
from tracebraid.store.stored_file import linked_folder

__all__ = ["packed_ranks", "read_manifest"]

_RANK_FILE = re.compile(r"rank_(\d{6,})\.json")


def read_manifest(store: Path) -> Manifest:
    """The manifest of a store.

    Raises:
        InputError: it is no store, is damaged, or of a newer version of the format.
    """
    path = store / MANIFEST
    if not path.exists():
        advice = "Pack it again: tracebraid pack PATH -o STORE"
        raise InputError(str(store), f"this is no store: it has no {MANIFEST}", advice)
    link = linked_folder(store)
    if link is not None:
        raise InputError(str(link), "this folder of the store is a link", "Move the folder itself there")
    return read_sealed(path, Manifest, check_manifest)[0]


def packed_ranks(store: Path) -> set[int]:
    """The ranks that are whole, by the files that say so.

    Raises:
        InputError: the folder cannot be read.
    """
    folder = store / RANKS
    try:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(folder), problem, "Check the folder and its rights") from None
    return {int(found[1]) for found in map(_RANK_FILE.fullmatch, names) if found}
