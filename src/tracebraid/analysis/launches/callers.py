"""Who made a call: the ops, the annotation and the Python function around it."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host_parents import host_names, host_parents
from tracebraid.analysis.user_frames import is_user_frame
from tracebraid.model.category import Role, categories_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.nearest import nearest_rows
from tracebraid.model.step import is_step_name

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
    events = host_names(linked)
    is_op, is_annotation, is_frame, is_users = _flags(events, annotation)
    tree = host_parents(linked)
    all_calls = linked.timeline.host_calls.get_column("event_id").to_numpy()
    row = tree.rows(all_calls[np.isin(all_calls, tree.event_id, assume_unique=True)])
    is_root = tree.enclosing == np.arange(len(tree.enclosing))
    parent = np.where(is_root, -1, tree.enclosing)
    ids, names = events.get_column("event_id"), events.get_column("name")
    op, top_op = nearest_rows(parent, is_op), _outermost(parent, is_op)
    frames = _texts(nearest_rows(parent, is_frame)[row], names)
    of_user = _texts(nearest_rows(parent, is_users)[row], names)
    return pl.DataFrame(
        {
            "call_event": tree.event_id[row],
            "op_event": _at(op[row], ids),
            "op": _texts(op[row], names),
            "top_op": _texts(top_op[row], names),
            "annotation": _texts(nearest_rows(parent, is_annotation)[row], names),
            "frame": of_user.zip_with(of_user.is_not_null(), frames),
        }
    )


def _flags(events: pl.DataFrame, annotation: str) -> tuple[_Flags, _Flags, _Flags, _Flags]:
    name, category = events.get_column("name"), events.get_column("category")
    is_op, is_annotation, is_frame = (
        flags_by_name(category, partial(pl.Expr.is_in, other=categories_of(role)))
        for role in (Role.OP, Role.ANNOTATION, Role.PYTHON)
    )
    is_step = flags_by_name(name, lambda text: is_step_name(text, annotation))
    is_users = is_frame & flags_by_name(name, is_user_frame) if is_frame.any() else is_frame
    named = name.is_not_null().to_numpy()
    return is_op, is_annotation & ~is_step & named, is_frame, is_users


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


def _texts(rows: _Ints, names: pl.Series) -> pl.Series:
    texts: pl.Series = _at(rows, names).cast(pl.String)
    return texts
