"""What the host does in each of its events, and in which op, annotation, module and Python frame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device_events import device_events
from tracebraid.analysis.time.idle.activity_rules import name_rules
from tracebraid.analysis.time.idle.thread_timelines import NO_ROW, host_rows
from tracebraid.model.answers import HostActivity
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_rows
from tracebraid.model.step import is_step_name

__all__ = ["ACTIVITIES", "FIRST_OF_WORK", "Activity", "HostContext", "host_context"]

_Ints = NDArray[np.int64]


class Activity(IntEnum):
    """The activities of a host thread by number."""

    OUTSIDE_OF_OPS = 0
    PYTHON = 1
    COMPUTED = 2
    COMMUNICATED = 3
    LAUNCHED = 4
    SYNCHRONIZED = 5
    WAITED_FOR_DATA = 6
    WORKS = 2


ACTIVITIES: tuple[str, ...] = tuple(HostActivity[activity.name].value for activity in Activity)
"""The code of each activity, by its number."""

FIRST_OF_WORK = Activity.COMPUTED
"""From this one on, the trace shows that a thread works itself and does not just wait for another."""

_PAIR = pl.sum_horizontal(
    pl.col("name").to_physical().cast(pl.Int64).fill_null(-1) * 2**32,
    pl.col("category").to_physical().cast(pl.Int64).fill_null(2**32 - 1),
)
"""Name and category as a single number, by which rows are joined faster."""

_BLOCKING_COPY = r"(DtoH|DeviceToHost).*Pageable"
"""Copies to pageable memory of the host: their call returns when the copy is done, asynchronous or not."""


@dataclass(frozen=True)
class HostContext:
    """For each row of `HostRows`, itself included: what encloses it. Rows; -1 where there is none.

    One more row at the end, which index -1 finds, stands for no host event at all.

    Args:
        activity: a number of `Activity`.
        op: innermost op.
        top_op: outermost op.
        annotation: innermost annotation that is no step.
        module: innermost nn.Module; of the backward pass that of the forward op.
        frame: innermost Python frame of the user's; where there is none, the innermost of all.
        sync: innermost call or op that synchronizes.
    """

    activity: NDArray[np.int8]
    op: _Ints
    top_op: _Ints
    annotation: _Ints
    module: _Ints
    frame: _Ints
    sync: _Ints


def host_context(linked: LinkedTrace, annotation: str) -> HostContext:
    """The context of all host events, computed once.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_host_context, annotation)


def _host_context(linked: LinkedTrace, annotation: str) -> HostContext:
    host = host_rows(linked)
    flags = _flags(linked, host.event_id, annotation)
    parent = host.parent

    def nearest(*names: str) -> _Ints:
        wanted = np.logical_or.reduce([flags[name] for name in names])
        if not wanted.any():
            return np.full(len(parent) + 1, NO_ROW, dtype=np.int64)
        found: _Ints = np.r_[nearest_rows(parent, wanted), NO_ROW]
        return found

    op = nearest("is_op")
    code = nearest("is_op", "is_frame") if flags["is_frame"].any() else op
    is_op = np.r_[flags["is_op"], False]
    user_frame = nearest("is_user_frame")
    sync = nearest("is_sync")
    activity = np.select(
        [
            nearest("is_data") >= 0,
            sync >= 0,
            nearest("is_call") >= 0,
            nearest("is_collective") >= 0,
            is_op[code],
            code >= 0,
        ],
        [
            np.int8(number)
            for number in (
                Activity.WAITED_FOR_DATA,
                Activity.SYNCHRONIZED,
                Activity.LAUNCHED,
                Activity.COMMUNICATED,
                Activity.COMPUTED,
                Activity.PYTHON,
            )
        ],
        np.int8(Activity.OUTSIDE_OF_OPS),
    )
    return HostContext(
        activity.astype(np.int8),
        op,
        _outermost(parent, op, flags["is_op"]),
        nearest("is_range"),
        _modules(linked, nearest("is_module")),
        np.where(user_frame >= 0, user_frame, nearest("is_frame")),
        sync,
    )


def _outermost(parent: _Ints, op: _Ints, is_op: NDArray[np.bool_]) -> _Ints:
    """The outermost op of each row, from the innermost: the op that the parent of no op lies in."""
    is_root = is_op & (op[parent] < 0)
    found: _Ints = np.r_[nearest_rows(parent, is_root), NO_ROW]
    return found


def _modules(linked: LinkedTrace, module: _Ints) -> _Ints:
    """The module of each row; of a backward op that lies in none, and of what it encloses, that of its forward op."""
    if (module < 0).all():
        return module
    host, pairs = host_rows(linked), linked.forward_backward
    forward, backward = (
        host.rows(pairs.get_column(name).to_numpy()) for name in ("forward_event", "backward_event")
    )
    of_forward = np.full(len(module), NO_ROW, dtype=np.int64)
    of_forward[backward] = module[forward]
    of_forward[NO_ROW] = NO_ROW
    nearest = np.r_[nearest_rows(host.parent, of_forward[:-1] >= 0), NO_ROW]
    return np.where(module >= 0, module, of_forward[nearest])


def _flags(linked: LinkedTrace, event_id: _Ints, annotation: str) -> dict[str, NDArray[np.bool_]]:
    names = linked.timeline.events.select("name", "category")[event_id].with_columns(_PAIR.alias("pair"))
    distinct = names.unique("pair", maintain_order=True)
    rules = name_rules(distinct)
    is_step = distinct.select(is_step_name(as_text("name"), annotation).fill_null(value=False)).to_series()
    rules = rules.with_columns(
        (pl.col("is_annotation") & ~is_step).alias("is_range"), distinct.get_column("pair")
    )
    found = names.select("pair").join(rules, on="pair", how="left", maintain_order="left").drop("pair")
    flags = {column.name: column.to_numpy() for column in found.get_columns()}
    copies = device_events(linked).filter(pl.col("name").str.contains(_BLOCKING_COPY))
    calls = host_rows(linked).rows(copies.get_column("call_event").drop_nulls().to_numpy())
    flags["is_sync"] = flags["is_sync"].copy()
    flags["is_sync"][calls[calls >= 0]] = True
    return flags
