"""What does this rank communicate: its part in each collective, send and receive?"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracebraid.analysis.collectives.members.member_bytes import with_bytes
from tracebraid.analysis.collectives.members.member_groups import with_groups
from tracebraid.analysis.collectives.members.member_peers import with_asked_peers
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events
from tracebraid.analysis.time.collective_events import collective_events, host_ranges
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.analysis.time.work_events import HOST
from tracebraid.model.collectives.names import algorithm_of, library_of, protocol_of, type_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.ranks import MEMBERS
from tracebraid.model.step import PROFILER_STEP

__all__ = ["members"]

_AMD = "AMD"
"""In the names of devices whose NCCL is RCCL: its kernels bear NCCL's names."""


def members(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The rank's rows of `MEMBERS`, on its own clock, not matched.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_members, annotation)


def _members(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    found = pl.concat([collective_events(linked), host_ranges(linked)])
    if not found.is_empty():
        found = found.filter("counts")
    if found.is_empty():
        return MEMBERS.empty()
    found = found.with_columns(_issued(linked, found), pl.col("ts_ns").alias("start_ns"))
    given = linked.timeline.collectives
    rows = rows_of_events(given.get_column("event_id"), found.get_column("source"))
    arguments = fetched(given.drop("event_id", "dtype", "pg_name", "pg_desc"), rows)
    found = _with_names(found.hstack(arguments.get_columns()), linked)
    found = with_bytes(with_groups(with_asked_peers(found, linked), linked))
    moments = found.select(pl.coalesce("issued_ns", "start_ns").alias("ts_ns"))
    steps = step_of_moments(moments, step_windows(linked, annotation)).get_column("step")
    rank = pl.lit(linked.rank, dtype=pl.Int64).alias("rank")
    ordered = found.with_columns(steps, rank).sort("start_ns", "event_id")
    return MEMBERS.conform(ordered, fill_missing=True)


def _issued(linked: LinkedTrace, found: pl.DataFrame) -> pl.Series:
    """The start of the call, else of the op, that launched each event of a device; null on the host."""
    events = device_events(linked).select("event_id", call="call_event", op="op_event")
    launch = fetched(
        events.select(pl.coalesce("call", "op").alias("launch")),
        rows_of_events(events.get_column("event_id"), found.get_column("event_id")),
    )
    return event_columns(linked.timeline, launch.get_column("launch"), issued_ns="ts_ns")[0]


def _with_names(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """With type, library, algorithm and protocol; the host's ops of no type, such as waits, are left out."""
    kernel, name = found.get_column("kernel"), found.get_column("name")
    is_amd = any(_AMD in device for device in linked.timeline.device_names)
    library = pl.col("library").replace("NCCL", "RCCL") if is_amd else pl.col("library")
    typed = found.with_columns(
        pl.coalesce(_mapped(name, type_of), _mapped(kernel, type_of)).alias("type"),
        pl.coalesce(_mapped(kernel, library_of), _mapped(name, library_of)).alias("library"),
        _mapped(kernel, algorithm_of).alias("algorithm"),
        _mapped(kernel, protocol_of).alias("protocol"),
        pl.col("comms_id").alias("communicator"),
    ).with_columns(library)
    return typed.filter(pl.col("type").is_not_null() | (pl.col("device") != HOST))


def _mapped(names: pl.Series, function: Callable[[str], str | None]) -> pl.Series:
    """A function of each name, each asked for once."""
    found = {name: function(name) for name in names.drop_nulls().unique().to_list()}
    mapped: pl.Series = names.replace_strict(found, default=None, return_dtype=pl.String)
    return mapped
