"""What a query may use: memory, disk, and folders of files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["QUERY_MEMORY_BYTES", "QueryLimits"]

QUERY_MEMORY_BYTES = 4 * 2**30
"""Half of a small laptop's memory."""
_SPILL_BYTES = 64 * 2**30
"""What a query may put on disk where its memory is not enough: 16 times that."""


@dataclass(frozen=True)
class QueryLimits:
    """What a query may use.

    Args:
        memory_bytes: memory of the engine; its result comes on top.
        spill_bytes: temporary files, in a folder that is deleted after the query.
        folders: folders whose files it may read with `read_csv`, `read_json`, `read_parquet` and `read_text`.
    """

    memory_bytes: int = QUERY_MEMORY_BYTES
    spill_bytes: int = _SPILL_BYTES
    folders: tuple[Path, ...] = ()
