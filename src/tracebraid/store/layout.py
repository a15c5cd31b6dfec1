"""Where everything of a store lies."""

from __future__ import annotations

from pathlib import Path

from tracebraid.filesystem.paths import is_url
from tracebraid.filesystem.reading import reading

__all__ = [
    "ANSWERS",
    "CAPTURE",
    "FORMAT_VERSION",
    "LOCK",
    "MANIFEST",
    "RANKS",
    "SUFFIX",
    "TABLES",
    "is_store",
    "rank_file",
    "table_file",
]

SUFFIX = ".tbstore"
FORMAT_VERSION = 1
"""What a reader must know to read a store; it grows when older readers would misread it."""

MANIFEST = "store.json"
CAPTURE = "capture.json"
RANKS, TABLES, ANSWERS = "ranks", "tables", "answers"
LOCK = ".lock"


def is_store(path: str | Path) -> bool:
    """Whether a path is a store: a folder with a manifest, or with the suffix of stores."""
    folder = Path(path)
    if is_url(str(path)):
        return False
    with reading(path):
        return (folder / MANIFEST).is_file() or (folder.suffix == SUFFIX and folder.is_dir())


def rank_file(store: Path, rank: int) -> Path:
    """What describes a rank; it is written last, so that its presence says that the rank is whole."""
    return store / RANKS / f"rank_{rank:06d}.json"


def table_file(store: Path, table: str, rank: int) -> Path:
    """The rows of a table that are a rank's; there is no file where there are none."""
    return store / TABLES / table / f"rank_{rank:06d}.parquet"
