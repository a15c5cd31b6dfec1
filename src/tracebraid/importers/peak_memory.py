"""How much memory reading a rank and answering about it takes, estimated from the sizes of its files."""

from __future__ import annotations

import os

__all__ = ["peak_bytes_of"]

_PEAK_OVER_JSON = 11
"""The most memory that a command took for a byte of JSON: `report` of the trace of 54 MB; most take 3 to 8."""
_JSON_OVER_GZIP = 20
"""Uncompressed over compressed size: 13 to 27 for our test traces."""


def peak_bytes_of(*paths: str | None) -> int | None:
    """The memory that is taken at most above that of Python and its libraries; None where a size is not known.

    Args:
        paths: the files of a rank; None stands for a file that there is not.
    """
    sizes = [_json_bytes(path) for path in paths if path is not None]
    known = [size for size in sizes if size is not None]
    return _PEAK_OVER_JSON * sum(known) if len(known) == len(sizes) else None


def _json_bytes(path: str) -> int | None:
    """The size of a file without compression, as estimated from its name and its size."""
    try:
        size_bytes = os.stat(path).st_size  # noqa: PTH116 - it may be a URL, which pathlib would write otherwise
    except (OSError, ValueError):
        return None
    return size_bytes * (_JSON_OVER_GZIP if path.endswith((".gz", ".zip")) else 1)
