"""Captures of graphs in the trace: what was launched in them, by which ops, and which graph they became.

While a stream is captured, launches run nothing: they become nodes of a graph, in their order. Which call launches what
is known by its name here: there is no device event to tell it.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.model.answers import CaptureMatch
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.kernel_family import family_of_kernel_name, family_of_op
from tracebraid.model.kernel_family_rules import KernelFamily
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["LEAST_AGREEMENT", "Capture", "Joined", "agreement", "captures", "join_captures"]

LEAST_AGREEMENT = 0.8
"""Below this share of nodes whose op and name agree, a capture is not taken for that of a graph.

Where the op is known for certain, in eager traces of eight machines, all kernels agree (1.0); with their ops shuffled
0.23 to 0.63 of them do, in those with more than three kernels.
"""
_F = KernelFamily
_ALSO: dict[KernelFamily, tuple[KernelFamily, ...]] = {
    _F.GEMM: (_F.REDUCTION, _F.COPY),
    _F.ATTENTION: (_F.GEMM, _F.SOFTMAX, _F.REDUCTION),
    _F.CONVOLUTION: (_F.GEMM, _F.COPY, _F.FFT, _F.REDUCTION),
    _F.NORMALISATION: (_F.REDUCTION, _F.ELEMENTWISE),
    _F.EMBEDDING: (_F.SORT, _F.INDEX, _F.OPTIMIZER),
    _F.INDEX: (_F.SORT, _F.COPY),
    _F.SORT: (_F.INDEX, _F.COPY),
    _F.LOSS: (_F.ELEMENTWISE, _F.REDUCTION, _F.SOFTMAX),
    _F.QUANTISATION: (_F.ELEMENTWISE,),
    _F.RANDOM: (_F.ELEMENTWISE,),
    _F.COPY: (_F.ELEMENTWISE,),
}
"""What an op of a family launches, too, by the kernels' names: cuDNN multiplies matrices for a convolution."""
_KERNEL, _COPY, _FILL = "kernel", "copy", "fill"


@dataclass(frozen=True, eq=False)
class Capture:
    """What was captured between a begin and an end.

    Args:
        end_ns: when it ended.
        launches: in the order of the calls: `sort` (kernel, copy or fill), `op_event`, `op` (null: none around it).
    """

    end_ns: int
    launches: pl.DataFrame


@dataclass(frozen=True)
class Joined:
    """What is known of the ops of a graph's nodes.

    Args:
        method: how they were found, or why not.
        ops: of each node; empty where they are not known.
        events: those ops' events; empty where they are not known, or several captures agree on the names alone.
        confidence: see `GRAPH_KERNELS`.
    """

    method: CaptureMatch
    ops: tuple[str | None, ...] = ()
    events: tuple[int | None, ...] = ()
    confidence: float | None = None


def captures(linked: LinkedTrace) -> list[Capture]:
    """The captures of a trace, in the order of their starts.

    A capture holds the launches of all threads (backward runs on its own), unless another one runs at the same time:
    then those of its own thread.
    """
    calls = linked.timeline.of_role(Role.CALL).with_columns(as_text("name"))
    begins = calls.filter(call_does(pl.col("name"), CallAction.BEGIN_CAPTURE)).sort("ts_ns", "event_id")
    ends = calls.filter(call_does(pl.col("name"), CallAction.END_CAPTURE)).sort("ts_ns", "event_id")
    if begins.is_empty() or ends.is_empty():
        return []
    windows = begins.select("lane", (pl.col("ts_ns") + pl.col("dur_ns")).alias("start_ns")).join_asof(
        ends.select("lane", pl.col("ts_ns").alias("end_ns")),
        left_on="start_ns",
        right_on="end_ns",
        by="lane",
        strategy="forward",
        coalesce=False,
        check_sortedness=False,
    )
    windows = (
        windows.drop_nulls("end_ns")
        .sort("start_ns", "end_ns")
        .unique(["lane", "end_ns"], maintain_order=True)
    )
    launches = _launches_without_work(linked, calls)
    found = []
    for window in windows.iter_rows(named=True):
        at_once = (pl.col("start_ns") < window["end_ns"]) & (pl.col("end_ns") > window["start_ns"])
        own_thread = windows.filter(at_once).height > 1
        found.append(Capture(window["end_ns"], _between(launches, window, own_thread)))
    return found


def _launches_without_work(linked: LinkedTrace, calls: pl.DataFrame) -> pl.DataFrame:
    worked = linked.launches.select(pl.col("call_event").alias("event_id")).drop_nulls().unique()
    name = pl.col("name")
    sort = (
        pl.when(call_does(name, CallAction.LAUNCH_KERNEL))
        .then(pl.lit(_KERNEL))
        .when(call_does(name, CallAction.COPY))
        .then(pl.lit(_COPY))
        .when(call_does(name, CallAction.FILL))
        .then(pl.lit(_FILL))
    )
    events = linked.timeline.events
    is_op = as_text("category").is_in(categories_of(Role.OP, Role.ANNOTATION))
    ops = events.filter(is_op).select(pl.col("event_id").alias("op_event"), as_text("name").alias("op"))
    return (
        calls.with_columns(sort.alias("sort"))
        .filter(pl.col("sort").is_not_null())
        .join(worked, on="event_id", how="anti")
        .join(linked.host_tree.select("event_id", "op_event"), on="event_id", how="left")
        .join(ops, on="op_event", how="left")
        .sort("ts_ns", "event_id")
    )


def _between(launches: pl.DataFrame, window: dict[str, int], own_thread: bool) -> pl.DataFrame:
    inside = pl.col("ts_ns").is_between(window["start_ns"], window["end_ns"])
    of_thread = pl.col("lane") == window["lane"] if own_thread else pl.lit(value=True)
    return launches.filter(inside & of_thread).select("sort", "op_event", "op")


def join_captures(nodes: pl.DataFrame, found: list[Capture]) -> Joined:
    """The ops of a graph's nodes: of the capture with as many launches, of the same sorts in the same order.

    Args:
        nodes: of one graph, in order: `name`, `sort`, `with_id` (whether nodes have ids), `lane`, `first_ns` (its first
            launch).
        found: the captures of the trace.
    """
    ended = [
        capture for capture in found if capture.end_ns <= int(nodes.get_column("first_ns").to_numpy().min())
    ]
    with_id = bool(nodes.get_column("with_id").all())
    if not ended or not (with_id or nodes.get_column("lane").n_unique() == 1):
        return Joined(CaptureMatch.NO_CAPTURE)
    sorts = nodes.get_column("sort").to_list()
    alike = [capture for capture in ended if capture.launches.get_column("sort").to_list() == sorts]
    if not alike:
        return Joined(CaptureMatch.NO_CAPTURE)
    names = nodes.get_column("name").to_list()
    agreed = [(capture, agreement(names, capture.launches.get_column("op").to_list())) for capture in alike]
    likely = [(capture, share) for capture, share in agreed if share is None or share >= LEAST_AGREEMENT]
    if not likely:
        return Joined(
            CaptureMatch.FAMILIES_DIFFER, confidence=max(share for _, share in agreed if share is not None)
        )
    ops = {tuple(capture.launches.get_column("op").to_list()) for capture, _ in likely}
    if len(ops) > 1:
        return Joined(CaptureMatch.SEVERAL_CAPTURES)
    method = CaptureMatch.NODE_ORDER if with_id else CaptureMatch.STREAM_ORDER
    events = tuple(likely[0][0].launches.get_column("op_event").to_list()) if len(likely) == 1 else ()
    return Joined(method, ops.pop(), events, likely[0][1])


def agreement(names: list[str], ops: list[str | None]) -> float | None:
    """Of the nodes whose op and name both show a family the share where these agree; None without such nodes."""
    pairs = [
        (family_of_op(op), family_of_kernel_name(name)) for name, op in zip(names, ops, strict=True) if op
    ]
    agreed = [
        by_op is by_name or by_name in _ALSO.get(by_op, ()) for by_op, by_name in pairs if by_op and by_name
    ]
    return sum(agreed) / len(agreed) if agreed else None
