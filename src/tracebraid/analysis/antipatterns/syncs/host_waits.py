"""Calls in which the host waits for a device inside of steps, and what kind of code makes each."""

from __future__ import annotations

from enum import Enum

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after
from tracebraid.analysis.antipatterns.host.ranges import all_ranges
from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.launches.copies.copied import copied
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.model.answers import Direction, SyncKind
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["Waiting", "host_waits", "waits_for"]


class Waiting(Enum):
    """What makes the host wait."""

    ITEM = "a value is read: `.item()`, `float(tensor)`, `if tensor:`"
    SIZE = "the size of a result depends on the data: `nonzero`, masks, `unique`"
    READ = "a tensor is copied to the host, and the host waits for it: `.cpu()`, `.tolist()`, `.numpy()`"
    PAGEABLE = "a tensor is copied to the device from memory that is not pinned"
    EXPLICIT = "the program asks for it: `torch.cuda.synchronize()`, `event.synchronize()`"


_ITEM_OPS = r"^aten::(item|_local_scalar_dense|is_nonzero|equal|allclose)$"
_SIZE_OPS = (
    r"^aten::(nonzero|nonzero_numpy|argwhere|masked_select|unique|unique_dim|_unique|_unique2|unique_consecutive"
    r"|bincount|repeat_interleave|where|index|index_put_?|_index_put_impl_|combinations|histc)$"
)
"""Ops whose outputs have shapes that depend on values, or that index by a mask."""

_COUNTED = [SyncKind.DEVICE.value, SyncKind.STREAM.value, SyncKind.EVENT.value, SyncKind.COPY.value]
_TO_DEVICE = [Direction.HOST_TO_DEVICE.value, Direction.HOST_TO_HOST.value]


def host_waits(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The calls that waited.

    Columns: `start_ns`, `end_ns`, `idle_from_ns` (when the awaited work had ended), `event_id`, `op`, `subject` (the
    API), `waiting`.

    `op` is the op that a user calls: the outermost around the call. Waits in saving, logging or compiling belong to
    those: they are left out.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_host_waits, annotation)


def waits_for(linked: LinkedTrace, annotation: str, waiting: Waiting) -> pl.DataFrame:
    """The evidence of all waits of a kind: what the device was idle because of them."""
    found = host_waits(linked, annotation).filter(pl.col("waiting") == waiting.name)
    return evidence_of(linked, annotation, idle_after(linked, annotation, found))


def _host_waits(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    calls = sync_calls(linked, annotation).filter(pl.col("kind").is_in(_COUNTED) & (pl.col("blocked_ns") > 0))
    copies = copied(linked, annotation).filter(pl.col("call_event").is_not_null())
    copies = copies.sort("call_event").unique("call_event", keep="first", maintain_order=True)
    rows = rows_of_events(copies.get_column("call_event"), calls.get_column("call_event"))
    directions = fetched(copies.select("direction"), rows).to_series()
    op = pl.coalesce("top_op", "op", pl.lit(""))
    ops = pl.coalesce("op", pl.lit(""))
    waiting = (
        pl.when(op.str.contains(_ITEM_OPS) | ops.str.contains(_ITEM_OPS))
        .then(pl.lit(Waiting.ITEM.name))
        .when(op.str.contains(_SIZE_OPS) | ops.str.contains(_SIZE_OPS))
        .then(pl.lit(Waiting.SIZE.name))
        .when(pl.Series(directions.is_in(_TO_DEVICE).fill_null(value=False)))
        .then(pl.lit(Waiting.PAGEABLE.name))
        .when((pl.col("kind") == SyncKind.COPY.value) | op.str.contains(r"^aten::"))
        .then(pl.lit(Waiting.READ.name))
        .otherwise(pl.lit(Waiting.EXPLICIT.name))
    )
    found = calls.with_columns(waiting.alias("waiting"))
    found = found.select(
        "start_ns",
        (pl.col("start_ns") + pl.col("host_ns")).alias("end_ns"),
        (pl.col("start_ns") + pl.col("blocked_ns")).alias("idle_from_ns"),
        pl.col("call_event").alias("event_id"),
        pl.col("top_op").alias("op"),
        pl.col("api").alias("subject"),
        "waiting",
    )
    starts = found.get_column("start_ns").to_numpy()
    return found.filter(pl.Series(all_ranges(linked).within(starts, starts + 1) == 0))
