"""Every copy and fill on a device: its direction, its memories, its size, and what its call waits for."""

from __future__ import annotations

from enum import Enum

import polars as pl

from tracebraid.analysis.launches.launched_work import launched_work
from tracebraid.model.answers.launches import Direction, HostWait
from tracebraid.model.device_peaks import MEMORY
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does
from tracebraid.model.quantities import NS_PER_S

_BYTES_PER_S_PER_GB_PER_S = 1e9

_IS_FILL = r"(?i)memset|fill"
_LETTERS = r"(?i:memcpy)\s+([HDMAP])(?:to|2)([HDMAP])"
"""`Memcpy HtoD (Pinned -> Device)` of CUDA and ROCm, `Memcpy M2D` of XPU, where M is memory of the host."""
_WORDS = r"(?i)copy(host|device)to(host|device)|^(host|device)_to_(host|device)"
"""`CopyHostToDevice` of older ROCm, `HOST_TO_DEVICE` of MTIA."""
_MEMORIES = r"\(\s*([^()]+?)\s*->\s*([^()]+?)\s*\)"
_FILLED = r"\(\s*([^()]+?)\s*\)"

_SIZES_OF_CALLS = ["bytes", "size"]
"""Arguments that hold the size on ROCm's calls, where the device's event has none."""
_DIRECTION = "direction"
"""Argument that holds the direction on MTIA's events."""

_WAITS_FOR_ITS_STREAM = "WithStream"
"""Part of the name of HIP's copy that synchronises with its stream before it returns."""
_PAGEABLE, _PINNED = "Pageable", "Pinned"


def copied(linked: LinkedTrace) -> pl.DataFrame:
    """Device events of kind memory, as `launched_work` has them, with more columns.

    copy_kind, direction, source, target, pinned, host_wait: see `COPIES`; size_bytes, null if it is
    unknown; bandwidth, the size by the duration in B/s, and kineto_bandwidth, in B/s; null if they are unknown.
    """
    return linked.derived(_copied)


class CopyKind(Enum):
    """Kind of memory operation."""

    COPY = "copy"
    FILL = "fill"


def _copied(linked: LinkedTrace) -> pl.DataFrame:
    work = launched_work(linked).filter(pl.col("kind") == MEMORY)
    size, duration = pl.col("size_bytes"), pl.col("dur_ns")
    measured = linked.timeline.device_work.select("event_id", "size_bytes", "bandwidth_gb_per_s")
    kineto = pl.col("bandwidth_gb_per_s")
    return (
        work.join(measured, on="event_id", how="left", maintain_order="left")
        .join(_argument(linked, [_DIRECTION], "event_id"), on="event_id", how="left", maintain_order="left")
        .join(
            _argument(linked, _SIZES_OF_CALLS, "call_event"),
            on="call_event",
            how="left",
            maintain_order="left",
        )
        .with_columns(_sort_of_copy())
        .with_columns(
            pl.when(size >= 0)
            .then(size)
            .when(pl.col("call_event").is_unique())
            .then(pl.col("of_call_event").cast(pl.Int64, strict=False))
            .alias("size_bytes"),
            pl.when(pl.col("copy_kind") == CopyKind.COPY.value).then(_host_wait()).alias("host_wait"),
            _pinned().alias("pinned"),
            pl.when(kineto.is_finite() & (kineto >= 0))
            .then(kineto * _BYTES_PER_S_PER_GB_PER_S)
            .alias("kineto_bandwidth"),
        )
        .with_columns(pl.when(duration > 0).then(size / duration * NS_PER_S).alias("bandwidth"))
        .drop("of_event_id", "of_call_event", "bandwidth_gb_per_s")
    )


def _argument(linked: LinkedTrace, keys: list[str], event: str) -> pl.DataFrame:
    """Build an expression for the first available argument of an event."""
    return (
        linked.timeline.tables["extra_args"]
        .filter(as_text("key").is_in(keys))
        .select(pl.col("event_id").alias(event), pl.col("value").str.strip_chars('"').alias(f"of_{event}"))
        .unique(event, keep="first", maintain_order=True)
    )


def _sort_of_copy() -> list[pl.Expr]:
    name = pl.col("name")
    fills = name.str.contains(_IS_FILL)
    letters = [name.str.extract(_LETTERS, group).str.to_uppercase().replace("M", "H") for group in (1, 2)]
    words = [
        pl.coalesce(
            text.str.extract(_WORDS, group) for text in (name, pl.col("of_event_id")) for group in groups
        )
        .str.head(1)
        .str.to_uppercase()
        for groups in ((1, 3), (2, 4))
    ]
    direction = pl.coalesce(pl.format("{}to{}", *letters), pl.format("{}to{}", *words))
    known = [member.value for member in Direction]
    return [
        pl.when(fills)
        .then(pl.lit(CopyKind.FILL.value))
        .otherwise(pl.lit(CopyKind.COPY.value))
        .alias("copy_kind"),
        pl.when(~fills & direction.is_in(known)).then(direction).alias("direction"),
        pl.when(~fills).then(name.str.extract(_MEMORIES, 1)).alias("source"),
        pl.when(fills)
        .then(name.str.extract(_FILLED, 1))
        .otherwise(name.str.extract(_MEMORIES, 2))
        .alias("target"),
    ]


def _host_memory() -> pl.Expr:
    """The memory of the host that a copy reads, else that it writes; null without any."""
    direction = pl.col("direction")
    return (
        pl.when(direction.str.starts_with("H"))
        .then(pl.col("source"))
        .when(direction.str.ends_with("H"))
        .then(pl.col("target"))
    )


def _pinned() -> pl.Expr:
    memory = _host_memory()
    return pl.when(memory == _PINNED).then(pl.lit(True)).when(memory == _PAGEABLE).then(pl.lit(False))


def _host_wait() -> pl.Expr:
    """Wait of a copy's call (CUDA Runtime API, "API synchronization behavior"; ROCm follows it).

    A copy from pageable memory returns once that is staged; an asynchronous one to pageable memory, or from host to
    host, once it is complete. Other asynchronous copies and copies on the device wait for nothing.
    """
    direction, api = pl.col("direction"), pl.col("api")
    from_host, to_host = direction.str.starts_with("H"), direction.str.ends_with("H")
    pageable = _host_memory() == _PAGEABLE
    is_async = call_does(api, CallAction.ASYNCHRONOUS)
    return (
        pl.when(~call_does(api, CallAction.COPY) | direction.is_null() | api.is_null())
        .then(None)
        .when((from_host & to_host) | api.str.contains(_WAITS_FOR_ITS_STREAM, literal=True))
        .then(pl.lit(HostWait.COMPLETE.value))
        .when(from_host & pageable)
        .then(pl.lit(HostWait.STAGED.value))
        .when(to_host & (~is_async | pageable))
        .then(pl.lit(HostWait.COMPLETE.value))
        .when(from_host & ~is_async)
        .then(pl.lit(HostWait.COMPLETE.value))
        .otherwise(pl.lit(HostWait.NONE.value))
    )
