"""The lanes of a rank: its threads, and its streams with annotations and synchronisation apart from their work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import Lane
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.wire_format import Ints

__all__ = ["Lanes", "lanes_of"]

_MOST_THREAD_ID = (1 << 31) - 1
"""Linux numbers no thread higher, and viewers keep 32 bits."""
_APART = {Role.DEVICE_ANNOTATION: "annotations", Role.SYNC: "synchronisation"}
_HOST = (Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON)
_DEVICE = (Role.DEVICE_WORK, *_APART)


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lanes of a rank.

    Args:
        lanes: threads first, then what is no thread and no stream, then streams.
        of_event: the lane of each event that was given.
    """

    lanes: list[Lane]
    of_event: Ints


def lanes_of(events: pl.DataFrame, lanes: pl.DataFrame) -> Lanes:
    """The lanes of some events of a rank.

    Args:
        events: `category` and `lane`.
        lanes: `LANES`.
    """
    group, kind = pl.lit(0), pl.lit(1)
    for number, role in enumerate(_APART, 1):
        group = pl.when(_is(role)).then(number).otherwise(group)
    kind = pl.when(_is(*_HOST)).then(0).when(_is(*_DEVICE)).then(2).otherwise(1)
    keyed = events.select("lane", group.cast(pl.Int64).alias("group"), kind.cast(pl.Int64).alias("kind"))
    key = keyed.get_column("lane").to_numpy() * (len(_APART) + 1) + keyed.get_column("group").to_numpy()
    kinds = keyed.group_by("lane").agg(
        (pl.col("kind") == 0).any().alias("is_host"), (pl.col("kind") == 2).any().alias("is_device")
    )
    distinct, of_event = np.unique(key, return_inverse=True)
    shown = (
        pl.DataFrame(
            {"lane": distinct // (len(_APART) + 1), "group": distinct % (len(_APART) + 1)},
            schema={"lane": pl.Int64, "group": pl.Int64},
        )
        .join(kinds, on="lane", how="left", maintain_order="left")
        .join(lanes, on="lane", how="left", maintain_order="left")
        .with_row_index("row")
        .sort(pl.col("is_device"), ~pl.col("is_host"), "lane", "group")
    )
    position = np.empty(len(distinct), dtype=np.int64)
    position[shown.get_column("row").to_numpy()] = np.arange(len(distinct))
    return Lanes(_lanes(shown), position[of_event.reshape(-1)])


def _is(*roles: Role) -> pl.Expr:
    return as_text("category").is_in(categories_of(*roles)).fill_null(value=False)


def _lanes(shown: pl.DataFrame) -> list[Lane]:
    apart, used, found = list(_APART.values()), set[int](), []
    for row in shown.iter_rows(named=True):
        device = row["process_labels"] if row["is_device"] else None
        number = row["tid"] if row["tid"] is not None else row["tid_text"]
        name = " ".join(part for part in (device, (row["thread_name"] or "").strip() or f"{number}") if part)
        if row["group"]:
            name = f"{name}: {apart[row['group'] - 1]}"
        is_thread = row["is_host"] and not row["is_device"] and row["tid"] is not None
        thread_id = row["tid"] if is_thread and 0 < row["tid"] <= _MOST_THREAD_ID else None
        if thread_id in used:
            thread_id = None
        elif thread_id is not None:
            used.add(thread_id)
        found.append(Lane(name, thread_id))
    return found
