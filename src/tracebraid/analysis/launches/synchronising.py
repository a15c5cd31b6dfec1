"""Classify calls by whether they synchronise with the device, always or sometimes."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.launches.copied import copied
from tracebraid.model.answers.launches import HostWait, SyncKind
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

_KINDS = (
    (SyncKind.EVENT, CallAction.WAIT_FOR_EVENT),
    (SyncKind.STREAM, CallAction.WAIT_FOR_STREAM),
    (SyncKind.DEVICE, CallAction.WAIT),
    (SyncKind.QUERY, CallAction.QUERY),
    (SyncKind.ALLOCATION, CallAction.MANAGE_MEMORY),
    (SyncKind.COPY, CallAction.COPY),
)
"""The first that fits a call's name counts."""

_AWAITED = [HostWait.COMPLETE.value, HostWait.STAGED.value]


def synchronising_calls(linked: LinkedTrace) -> pl.DataFrame:
    """The calls in the order of their starts: call_event, api, kind, start_ns, host_ns, end_ns.

    A copy or an allocation whose name says `Async` does not count, but for a copy that the host waits for
    nevertheless (see `copied`). Calls inside others of these are left out: a driver's inside a runtime's, on its thread
    or, with its correlation, on another, as MTIA has them.
    """
    calls = linked.timeline.of_role(Role.CALL).select(
        pl.col("event_id").alias("call_event"),
        as_text("name").alias("api"),
        pl.col("ts_ns").alias("start_ns"),
        pl.col("dur_ns").alias("host_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    copying = copied(linked).filter(pl.col("host_wait").is_in(_AWAITED)).select("call_event")
    waiting_copy = pl.col("call_event").is_in(copying.get_column("call_event").implode())
    found = (
        calls.join(kinds_of_apis(calls.get_column("api")), on="api", maintain_order="left")
        .with_columns(
            pl.when(waiting_copy).then(pl.lit(SyncKind.COPY.value)).otherwise("named_kind").alias("kind")
        )
        .filter(pl.col("kind").is_not_null())
    )
    parents = linked.host_tree.select(pl.col("event_id").alias("call_event"), "parent_event")
    inside = found.join(parents, on="call_event").join(
        found.select(pl.col("call_event").alias("parent_event")), on="parent_event", how="semi"
    )
    outermost = found.join(inside, on="call_event", how="anti", maintain_order="left")
    return _once_per_correlation(outermost, linked).sort("start_ns", "call_event")


def _once_per_correlation(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Without the calls that run while another of the same correlation does, on whatever thread: they are one wait."""
    correlations = linked.timeline.host_calls.select(pl.col("event_id").alias("call_event"), "correlation")
    correlated = (
        calls.select("call_event", "start_ns", "end_ns")
        .join(correlations.filter(pl.col("correlation") > 0), on="call_event")
        .filter(pl.col("correlation").is_duplicated())
        .sort("start_ns", "end_ns", "call_event", descending=[False, True, False])
    )
    within = pl.col("end_ns") <= pl.col("end_ns").cum_max().shift(1).over("correlation")
    return calls.join(correlated.filter(within), on="call_event", how="anti", maintain_order="left")


def kinds_of_apis(names: pl.Series) -> pl.DataFrame:
    """Columns `api`, each name once, and `named_kind`: null for one that does not synchronise by itself."""
    distinct = pl.DataFrame({"api": names.unique(maintain_order=True).drop_nulls()})
    kind = pl.coalesce(
        pl.when(call_does(pl.col("api"), action)).then(pl.lit(kind.value)) for kind, action in _KINDS
    )
    waits = [SyncKind.EVENT.value, SyncKind.STREAM.value, SyncKind.DEVICE.value, SyncKind.QUERY.value]
    by_itself = ~call_does(pl.col("api"), CallAction.ASYNCHRONOUS) | pl.col("kind").is_in(waits)
    return distinct.with_columns(kind.alias("kind")).select(
        "api", pl.when(by_itself).then("kind").alias("named_kind")
    )
