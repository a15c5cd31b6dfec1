"""What the name of a host event says about what the host does in it."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tracebraid.analysis.host.name_rules import is_in_role
from tracebraid.analysis.launches.syncs.synchronising import kinds_of_apis
from tracebraid.model.answers import SyncKind
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role

__all__ = ["activity_rules"]

_SYNC_OPS = ["aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"]
"""Ops whose result the host reads from the device."""

_DATA_RANGE = "enumerate(DataLoader)#"
_DATA_OPS = ["aten::pin_memory", "aten::_pin_memory"]
_DATA_FRAMES = (
    r"(^|/)torch/utils/data/.*: (__next__|_next_data|_get_data|_try_get_data|fetch|next|__iter__)$"
    r"|(^|/)queue\.py\(\d+\): get$|(^|/)multiprocessing/queues\.py\(\d+\): get$"
)
"""Frames of a program that waits for its DataLoader, or for another thread or process to feed a queue."""

_HOST_BACKEND = r"^(gloo|mpi|ucc):"
_WAIT_FRAMES = r"distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)$|^<built-in method wait of .*Work"
"""Ranges of collectives that run on the host, and frames that wait for a collective."""


_LAUNCHES = (CallAction.LAUNCH_KERNEL, CallAction.LAUNCH_GRAPH, CallAction.COPY, CallAction.FILL)
"""What calls launch by their names, where the trace has lost the work of all of them."""


def activity_rules(events: pl.DataFrame, with_work: Collection[str] = ()) -> pl.DataFrame:
    """The flags that each event bears by its name and category.

    `is_call`; `is_launch`, a call that launches; `is_data`, it waits for data; `is_sync`, for the device;
    `is_collective`.

    Args:
        events: columns `name` and `category` as text, each pair of them once.
        with_work: the names of calls of which some has work on a device.
    """
    name = pl.col("name")
    op, call, frame = (is_in_role(role) for role in (Role.OP, Role.CALL, Role.PYTHON))
    named = is_in_role(Role.OP, Role.ANNOTATION)
    return events.select(
        call.alias("is_call"),
        (
            call
            & pl.any_horizontal(name.is_in(with_work), *(call_does(name, action) for action in _LAUNCHES))
        ).alias("is_launch"),
        (
            (named & (name.str.starts_with(_DATA_RANGE) | name.is_in(_DATA_OPS)))
            | (frame & name.str.contains(_DATA_FRAMES))
        ).alias("is_data"),
        ((call & name.is_in(_synchronising(events))) | (op & name.is_in(_SYNC_OPS))).alias("is_sync"),
        ((named & name.str.contains(_HOST_BACKEND)) | (frame & name.str.contains(_WAIT_FRAMES))).alias(
            "is_collective"
        ),
    )


def _synchronising(events: pl.DataFrame) -> list[str]:
    """The names of calls that wait for the device: a query of an event only asks."""
    calls = events.filter(is_in_role(Role.CALL)).get_column("name")
    kinds = kinds_of_apis(calls).filter(pl.col("named_kind") != SyncKind.QUERY.value)
    return kinds.get_column("api").to_list()
