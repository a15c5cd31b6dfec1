"""Where does each iteration of a trace begin?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.alignment.op_sequences import OpSequence
from tracebraid.model.step import PROFILER_STEP

__all__ = ["ANNOTATIONS", "Iterations", "marked", "numbered", "recurring"]

_Ints = NDArray[np.int64]

ANNOTATIONS = (PROFILER_STEP, "DataLoader", "## LOOP")
"""What marks an iteration where nobody says; the first one that a trace has more than once."""


@dataclass(frozen=True)
class Iterations:
    """The iterations of one trace, in order.

    Args:
        marks: what they were found by.
        names: of each; with `#` and its number where its annotation has one.
        of_row: for each row of the trace its iteration; -1 before the first.
    """

    marks: str
    names: tuple[str, ...]
    of_row: _Ints

    def __len__(self) -> int:
        return len(self.names)


def marked(sequence: OpSequence, annotation: str | None) -> Iterations | None:
    """The iterations that an annotation begins, or the first of `ANNOTATIONS`; None where it is not there.

    Args:
        sequence: the ops of one trace.
        annotation: what the name of an op that begins an iteration contains.
    """
    for mark in (annotation,) if annotation is not None else ANNOTATIONS:
        begins = sequence.rows.filter(pl.col("title").str.contains(mark, literal=True)).sort("order")
        # Of annotations inside of each other the outer one counts.
        begins = begins.filter(~pl.col("parent").is_in(begins.get_column("id").implode()).fill_null(False))
        if begins.height > (annotation is None):
            names = begins.get_column("title").to_list()
            return _split(sequence, mark, names, begins.get_column("order").to_numpy())
    return None


def recurring(longer: OpSequence, shorter: OpSequence) -> Iterations | None:
    """The iterations of a trace that holds another one several times, found by what recurs; None where it does not.

    Most names recur in it as often as the shorter trace has iterations fit into it. Of the names that the shorter one
    has once, the first to start is the mark; the iteration begins as many ops before it as the shorter trace does.
    """
    counts = _counts(shorter).join(_counts(longer), on="name", suffix="_longer")
    ratios = counts.with_columns(times=pl.col("count_longer") / pl.col("count"))
    times = (
        ratios.group_by("times")
        .agg(pl.col("count").sum())
        .sort("count", "times")
        .get_column("times")
        .to_list()
    )
    if not times or times[-1] < 2 or times[-1] != int(times[-1]):
        return None
    once = ratios.filter((pl.col("count") == 1) & (pl.col("times") == times[-1])).select("name")
    ordered = shorter.rows.sort("order").with_columns(position=pl.int_range(pl.len()).over("thread"))
    first = ordered.join(once, on="name", how="semi", maintain_order="left").head(1)
    if first.is_empty():
        return None
    (name,), (position,) = first.get_column("name"), first.get_column("position")
    placed = longer.rows.sort("thread", "order").with_columns(position=pl.int_range(pl.len()).over("thread"))
    marks = placed.filter(pl.col("name") == name).select("thread", pl.col("position") - position)
    begins = placed.join(marks, on=["thread", "position"], how="semi").sort("order")
    names = [f"iteration {number}" for number in range(begins.height)]
    return _split(longer, f"what recurs {begins.height} times", names, begins.get_column("order").to_numpy())


def numbered(iterations: Iterations, number: int) -> int | None:
    """The index of an iteration by the number of its annotation, else by its index; None where there is none."""
    suffix = f"#{number}"
    for position, name in enumerate(iterations.names):
        if name.endswith(suffix):
            return position
    has_numbers = any(name.rpartition("#")[2].isdigit() for name in iterations.names)
    return number if not has_numbers and 0 <= number < len(iterations) else None


def _counts(sequence: OpSequence) -> pl.DataFrame:
    return sequence.rows.group_by("name").agg(pl.len().cast(pl.Int64).alias("count"))


def _split(sequence: OpSequence, marks: str, names: list[str], begins: _Ints) -> Iterations:
    of_row = np.searchsorted(begins, sequence.rows.get_column("order").to_numpy(), side="right") - 1
    return Iterations(marks, tuple(names), of_row)
