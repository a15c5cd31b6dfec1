"""Size of text columns: each text once in a file, but once per row where a column is written out."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

_UNCHECKED_BYTES = 1 << 32
"""Up to this size texts may be repeated as often as a file likes."""
_RATIO_AT_MOST = 4_000
"""Beyond, they take at most so many times the file: rows of long names of kernels, or of stacks, reach 400."""


def refuse_repeated_texts(frames: Iterable[pl.DataFrame], size_bytes: int) -> None:
    """Reject tables whose texts would fill memory where they are written out, though the file is small."""
    found_bytes = sum(map(_text_bytes, frames))
    if found_bytes > max(_UNCHECKED_BYTES, _RATIO_AT_MOST * size_bytes):
        raise ValueError(
            f"its texts take {found_bytes:,} bytes in their rows, more than {_RATIO_AT_MOST:,} times its size"
        )


def _text_bytes(frame: pl.DataFrame) -> int:
    columns = frame.get_columns()
    lengths = [column.cat.len_bytes() for column in columns if column.dtype == pl.Categorical]
    lengths += [column.str.len_bytes() for column in columns if column.dtype == pl.String]
    return sum(int(length.cast(pl.Int64).sum()) for length in lengths)
