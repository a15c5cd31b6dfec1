"""The storages of the Execution Trace, each from the op that made it to its last use, and what they are used for."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.memory.storage_uses import storage_uses
from tracebraid.model.answers import Phase
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["FACTS", "storages"]

_KEY = ["device", "storage_id"]

FACTS = {
    "as_weight": pl.Boolean,
    "as_state": pl.Boolean,
    "updated": pl.Boolean,
    "accumulated": pl.Boolean,
    "zeroed": pl.Boolean,
    "written_in_backward": pl.Boolean,
    "communicated": pl.Boolean,
    "in_forward": pl.Boolean,
    "in_backward": pl.Boolean,
    "in_optimizer": pl.Boolean,
    "last_forward_ns": pl.Int64,
    "first_backward_ns": pl.Int64,
    "shape": pl.String,
    "dtype": pl.String,
}
"""What is known of a storage's uses, and its first tensor."""


def storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per storage and life of it, kept with the linked trace; empty without Execution Trace.

    Ids of storages are used again. A new life begins with an op that gives the storage and does not take it; of
    several such ops inside each other it is the innermost that made it.

    Columns: storage, device, storage_id, size_bytes (that of the first tensor: a lower bound), made_event (null: before
    the trace), made_row, begin_ns (start of that op), made_ns (its end), position, last_use_ns, last_row, and `FACTS`.
    """
    return linked.derived(_storages, annotation)


def _storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    uses = storage_uses(linked, annotation)
    makers = _makers(uses)
    moment = pl.when("is_output").then("end_ns").otherwise("start_ns").alias("moment_ns")
    lives = makers.select(*_KEY, "begin_ns", "made_ns", "made_event", "made_row", "position").sort("begin_ns")
    found = (
        uses.rename({"position": "use_position"})
        .with_columns(moment)
        .sort("moment_ns", maintain_order=True)
        .join_asof(
            lives,
            left_on="moment_ns",
            right_on="begin_ns",
            by=_KEY,
            strategy="backward",
            check_sortedness=False,
        )
    )
    lifetimes = found.group_by(*_KEY, "begin_ns", maintain_order=True).agg(*_aggregates())
    return lifetimes.sort(pl.coalesce("begin_ns", "moment_ns"), *_KEY, maintain_order=True).with_row_index(
        "storage"
    )


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


def _aggregates() -> list[pl.Expr]:
    phase, is_input = pl.col("phase"), ~pl.col("is_output")
    forward, backward, optimizer = (
        phase == p.value for p in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    )
    # An op that makes its first tensor uses it then: what an op around it gives on does not make it larger.
    first = pl.col("is_output").arg_max().fill_null(0)
    begins = pl.col("made_event").first().is_not_null()
    of_first = [
        pl.when(begins).then(pl.col(name).get(first)).otherwise(pl.col(name).first()).alias(name)
        for name in ("size_bytes", "shape", "dtype")
    ]
    return [
        *of_first,
        *(pl.col(name).first() for name in ("made_event", "made_row", "made_ns", "position", "moment_ns")),
        pl.max_horizontal(pl.col("end_ns").max(), pl.col("made_ns").first()).alias("last_use_ns"),
        pl.col("row").get(pl.col("end_ns").arg_max()).alias("last_row"),
        (pl.col("is_weight") & forward).any().alias("as_weight"),
        pl.col("is_state").any().alias("as_state"),
        (pl.col("is_written") & optimizer).any().alias("updated"),
        pl.col("accumulates").any().alias("accumulated"),
        (pl.col("is_written") & (phase == Phase.ZERO_GRAD.value)).any().alias("zeroed"),
        (pl.col("is_written") & backward).any().alias("written_in_backward"),
        pl.col("communicates").any().alias("communicated"),
        (is_input & forward).any().alias("in_forward"),
        (is_input & backward).any().alias("in_backward"),
        (is_input & optimizer).any().alias("in_optimizer"),
        pl.col("end_ns").filter(forward).max().alias("last_forward_ns"),
        pl.col("start_ns").filter(backward & is_input).min().alias("first_backward_ns"),
    ]
