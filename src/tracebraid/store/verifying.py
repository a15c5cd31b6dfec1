"""Is every file of a store the one that was written?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.store.layout import rank_file
from tracebraid.store.manifest import Manifest, RankContent
from tracebraid.store.rank_reader import AGAIN, StoredTables
from tracebraid.store.sealed_json import read_sealed, sha256_of
from tracebraid.store.soundness import check_rank

__all__ = ["damage"]


def damage(store: Path, manifest: Manifest) -> Iterator[tuple[int, InputError]]:
    """The rank and an error for each file that is not there, or is not the one that was written; each is read whole."""
    for entry in manifest.ranks:
        if entry.sha256 is None:
            continue
        path = rank_file(store, entry.rank)
        try:
            content, whole = read_sealed(path, RankContent, check_rank)
        except InputError as error:
            yield entry.rank, error
            continue
        if sha256_of(whole) != entry.sha256:
            yield entry.rank, InputError(str(path), "it is not the one that the manifest names", AGAIN)
            continue
        tables = StoredTables(store, content)
        for name in content.tables:
            try:
                tables.content_of(name)
            except InputError as error:
                yield entry.rank, error
