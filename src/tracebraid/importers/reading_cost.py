"""Estimate the memory and time of reading and analysing a rank from the sizes of its files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tracebraid.filesystem.choose import archive_of
from tracebraid.model.engine import RankCost

if TYPE_CHECKING:
    from tracebraid.filesystem.archives.archive_files import ArchiveFiles

_PEAK_OVER_JSON = 11
"""The most memory that a command takes for a byte of JSON: `report` of a trace of 54 MB; most take 3 to 8."""
_JSON_OVER_PACKED = 20
"""Uncompressed over compressed size: 13 to 27 for our test traces."""
_PACKED = (".gz", ".zst", ".zip")
_S_PER_BYTE = 3e-8
"""Time for a byte of JSON: of 54 MB `summary` takes 0.8 s and `report` 2.2 s. See `python -m benchmarks engine`."""
_S_PER_RANK = 0.03
"""Time for a rank, however small; the same measurement."""


def reading_cost(*paths: str | None) -> RankCost | None:
    """Estimate the cost of a rank; None if the size of a file is unknown."""
    sizes_bytes = [_json_bytes(path) for path in paths if path is not None]
    known = [size_bytes for size_bytes in sizes_bytes if size_bytes is not None]
    if len(known) < len(sizes_bytes):
        return None
    return RankCost(_PEAK_OVER_JSON * sum(known), _S_PER_RANK + _S_PER_BYTE * sum(known))


def _json_bytes(path: str) -> int | None:
    """The size of a file without compression, as estimated from its name and its size."""
    archive = archive_of(path)
    if archive is not None:
        return _json_bytes_of_member(archive, path)
    try:
        size_bytes = os.stat(path).st_size  # noqa: PTH116 - it may be a URL, which pathlib would write otherwise
    except (OSError, ValueError):
        return None
    return size_bytes * (_JSON_OVER_PACKED if path.endswith(_PACKED) else 1)


def _json_bytes_of_member(archive: ArchiveFiles, path: str) -> int | None:
    member = archive.member(path)
    if member is None:
        return None
    return member.size_bytes * (_JSON_OVER_PACKED if path.endswith(_PACKED) else 1)
