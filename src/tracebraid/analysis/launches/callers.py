"""Who made a call: the ops, the annotation and the Python function around it."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_rows
from tracebraid.model.step import is_step_name
from tracebraid.model.user_frame import is_user_frame

__all__ = ["callers", "with_callers"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]


def with_callers(calls: pl.DataFrame, linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Add to calls what encloses each on its thread: `op_event`, and the names `op`, `top_op`, `annotation`, `frame`.

    `op` is the innermost op, `top_op` the outermost; `annotation` the innermost annotation that is no step; `frame` the
    innermost Python function of the user's (`is_user_frame`), or where there is none, the innermost function.

    Args:
        calls: have the column `call_event`.
        linked: one rank.
        annotation: what marks a step.
    """
    return calls.join(callers(linked, annotation), on="call_event", how="left", maintain_order="left")


def callers(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The same for every call of the host: `call_event` and those columns."""
    return linked.derived(_callers, annotation)


def _callers(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    tree = linked.host_tree
    event_id = tree.get_column("event_id").to_numpy()
    events = tree.select("event_id").join(
        linked.timeline.events.select("event_id", as_text("name", "category")),
        on="event_id",
        how="left",
        maintain_order="left",
    )
    is_op, is_annotation, is_frame, is_users = _flags(events, annotation)
    calls = (
        events.select("event_id")
        .with_row_index("row")
        .join(linked.timeline.host_calls.select("event_id"), on="event_id", how="semi")
    )
    row = calls.get_column("row").to_numpy()
    parent = _parents(tree, event_id)
    ids, names = events.get_column("event_id"), events.get_column("name")
    op, top_op = nearest_rows(parent, is_op), _outermost(parent, is_op)
    frames = _at(nearest_rows(parent, is_frame)[row], names)
    of_user = _at(nearest_rows(parent, is_users)[row], names)
    return pl.DataFrame(
        {
            "call_event": calls.get_column("event_id"),
            "op_event": _at(op[row], ids),
            "op": _at(op[row], names),
            "top_op": _at(top_op[row], names),
            "annotation": _at(nearest_rows(parent, is_annotation)[row], names),
            "frame": of_user.zip_with(of_user.is_not_null(), frames),
        }
    )


def _flags(events: pl.DataFrame, annotation: str) -> tuple[_Flags, _Flags, _Flags, _Flags]:
    name, category = pl.col("name"), pl.col("category")
    is_frame = category.is_in(categories_of(Role.PYTHON))
    is_users = is_frame & is_user_frame(name)
    is_mark = category.is_in(categories_of(Role.ANNOTATION)) & ~is_step_name(name, annotation)
    flags = [category.is_in(categories_of(Role.OP)), is_mark, is_frame, is_users]
    found = events.select(flag.fill_null(False).alias(str(i)) for i, flag in enumerate(flags))
    is_op, is_annotation, frame, users = (found.get_column(str(i)).to_numpy() for i in range(4))
    return is_op, is_annotation, frame, users


def _parents(tree: pl.DataFrame, event_id: _Ints) -> _Ints:
    parent = tree.get_column("parent_event").fill_null(-1).to_numpy()
    found: _Ints = np.where(parent < 0, -1, np.searchsorted(event_id, parent))
    return found


def _outermost(parent: _Ints, wanted: _Flags) -> _Ints:
    """For each row the outermost wanted row among itself and its ancestors; -1 where there is none."""
    nearest = nearest_rows(parent, wanted)
    above = np.where(parent >= 0, nearest[np.maximum(parent, 0)], -1)
    # The chain of wanted rows alone: each points at the next wanted row above it.
    chain = np.where(above >= 0, above, np.arange(len(parent)))
    while not np.array_equal(further := chain[chain], chain):
        chain = further
    found: _Ints = np.where(nearest >= 0, chain[np.maximum(nearest, 0)], -1)
    return found


def _at(rows: _Ints, values: pl.Series) -> pl.Series:
    """The value at each row; null at -1."""
    known = pl.Series(rows, dtype=pl.Int64)
    found: pl.Series = values.gather(known.set(known < 0, None))
    return found
