"""The arguments of slices as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import Arg, ArgKind
from tracebraid.exporters.perfetto.json_text import gathered, joined, json_of, json_of_texts
from tracebraid.wire_format import Ints

__all__ = ["ArgTexts"]

_TEXTS = (ArgKind.TEXT, ArgKind.JSON)


class ArgTexts:
    """The arguments of the slices of a process; distinct texts become JSON once."""

    def __init__(self, args: Sequence[Arg]) -> None:
        """Take the arguments of all slices."""
        self._args = [(arg, json_of_texts(list(arg.distinct), arg.kind)) for arg in args]

    def of(self, first: int, last: int) -> pl.Series:
        """The object of each slice from the first to the one before the last."""
        found = list(self._members(first, last))
        empty = pl.Series("args", ["{}"] * (last - first), dtype=pl.String)
        if not found:
            return empty
        members = pl.concat(found).group_by("row").agg(pl.col("text"))
        objects = members.select("row", joined("{", pl.col("text").list.join(","), "}").alias("args"))
        rows: Ints = objects.get_column("row").to_numpy()
        found_at: pl.Series = empty.scatter(rows - first, objects.get_column("args"))
        return found_at

    def _members(self, first: int, last: int) -> Iterator[pl.DataFrame]:
        for arg, texts in self._args:
            start, stop = np.searchsorted(arg.rows, (first, last))
            if start == stop:
                continue
            values = arg.values[start:stop]
            text = gathered(texts, values.astype(np.int64)) if arg.kind in _TEXTS else _numbers(arg, values)
            frame = pl.DataFrame({"row": arg.rows[start:stop], "text": text})
            yield frame.select("row", joined(f"{json_of(arg.name)}:", pl.col("text")))


def _numbers(arg: Arg, values: np.ndarray) -> pl.Series:
    """Numbers as JSON; infinity and the like, for which JSON has no number, as texts."""
    number = pl.col("value")
    text = number.cast(pl.String)
    if arg.kind is ArgKind.FLOAT:
        text = pl.when(number.is_finite()).then(text).otherwise(pl.concat_str(pl.lit('"'), text, pl.lit('"')))
    return pl.DataFrame({"value": values}).select(text).to_series()
