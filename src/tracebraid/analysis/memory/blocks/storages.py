"""The storages of the Execution Trace, each from the op that made it to its last use, and what they are used for."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.memory.blocks.storage_facts import facts, of_first_tensor
from tracebraid.analysis.memory.blocks.storage_uses import storage_uses
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["facts_until", "storages"]

_KEY = ["device", "storage_id"]


def storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per storage and life of it, kept with the linked trace; empty without Execution Trace.

    Ids of storages are used again. A new life begins with an op that gives the storage and does not take it; of
    several such ops inside each other it is the innermost that made it.

    Columns: storage, device, storage_id, size_bytes (that of the first tensor: a lower bound), made_event (null: before
    the trace), made_row, begin_ns (start of that op), made_ns (its end), position, moment_ns (first use),
    last_use_ns, last_row, and `FACTS`.
    """
    return linked.derived(_storages, annotation)


def _storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    of_life = ("made_event", "made_row", "begin_ns", "made_ns", "position", "moment_ns")
    return (
        _uses_of_lives(linked, annotation)
        .group_by("storage", *_KEY, maintain_order=True)
        .agg(
            *of_first_tensor(),
            *(pl.col(name).first() for name in of_life),
            pl.max_horizontal(pl.col("end_ns").max(), pl.col("made_ns").first()).alias("last_use_ns"),
            pl.col("row").get(pl.col("end_ns").arg_max()).alias("last_row"),
            *facts(),
        )
        .sort("storage")
    )


def facts_until(linked: LinkedTrace, annotation: str, ends: pl.DataFrame) -> pl.DataFrame:
    """What some storages are used for until they are released: `storage` and `FACTS`.

    An op that no trace shows may have made another storage under the same id: its uses count no longer.

    Args:
        linked: one rank.
        annotation: what marks a step.
        ends: columns `storage` and `end_ns`, null where it is not released.
    """
    until = ends.select("storage", pl.col("end_ns").alias("release_ns"))
    uses = _uses_of_lives(linked, annotation).join(until, on="storage", maintain_order="left")
    known = uses.filter(pl.col("release_ns").is_null() | (pl.col("start_ns") < pl.col("release_ns")))
    _, shape, dtype = of_first_tensor()
    return known.group_by("storage", maintain_order=True).agg(*facts(), shape, dtype)


def _uses_of_lives(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The uses with the life that each belongs to, in the order of time; kept."""
    return linked.derived(_with_lives, annotation)


def _with_lives(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    uses = storage_uses(linked, annotation)
    moment = pl.when("is_output").then("end_ns").otherwise("start_ns").alias("moment_ns")
    lives = _makers(uses).select(*_KEY, "begin_ns", "made_ns", "made_event", "made_row", "position")
    found = (
        uses.rename({"position": "use_position"})
        .with_columns(moment)
        .sort("moment_ns", maintain_order=True)
        .join_asof(
            lives.sort("begin_ns"),
            left_on="moment_ns",
            right_on="begin_ns",
            by=_KEY,
            strategy="backward",
            check_sortedness=False,
        )
    )
    key = [*_KEY, "begin_ns"]
    numbers = found.select(key).unique(maintain_order=True).with_row_index("storage")
    return found.join(numbers, on=key, how="left", nulls_equal=True, maintain_order="left")


def _makers(uses: pl.DataFrame) -> pl.DataFrame:
    """The ops that begin a life: the first of nested ones to end is the innermost."""
    by_op = uses.group_by(*_KEY, "event_id", maintain_order=True).agg(
        pl.col("start_ns").first().alias("begin_ns"),
        pl.col("end_ns").first().alias("made_ns"),
        pl.col("row").first().alias("made_row"),
        pl.col("is_output").all().alias("only_gives"),
        pl.col("position").filter("is_output").min(),
    )
    gives = by_op.filter("only_gives").sort(
        *_KEY, "made_ns", "begin_ns", "made_row", descending=[False, False, False, True, True]
    )
    before = pl.col("begin_ns").shift(1).over(_KEY)
    return gives.filter(before.is_null() | (pl.col("begin_ns") > before)).rename({"event_id": "made_event"})
