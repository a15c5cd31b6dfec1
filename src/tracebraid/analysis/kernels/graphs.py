"""Kernels that CUDA graphs run, and the ops they were captured from."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from tracebraid.analysis.answering import StepOptions, answer
from tracebraid.analysis.device import graph_events, launch_calls
from tracebraid.analysis.kernels.kernels import device_work_of
from tracebraid.analysis.statistics import mean_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.answers.efficiency import CaptureMatch
from tracebraid.model.category import Category, Role, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import MEMORY
from tracebraid.model.expressions import as_text
from tracebraid.model.kernel_family import (
    KernelFamily,
    family_of_kernel_name,
    family_of_op,
    kernel_families_of,
)
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

LEAST_AGREEMENT = 0.8
"""Minimum share of nodes with agreeing op and name for a capture to match a graph.

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
"""Families that an op of a family also launches: cuDNN multiplies matrices for a convolution."""
_KERNEL = "kernel"
_COPY = "copy"
_FILL = "fill"


class Capture(Struct, frozen=True, eq=False):
    """Capture between a begin and an end.

    Args:
        end_ns: when it ended.
        launches: in the order of the calls: `sort` (kernel, copy or fill), `op_event`, `op` (null: none around it).
    """

    end_ns: int
    launches: pl.DataFrame


class Joined(Struct, frozen=True):
    """Facts about the ops of a graph's nodes.

    Args:
        method: how they were found, or why not.
        ops: of each node; empty if they are not known.
        events: those ops' events; empty if they are not known, or several captures agree on the names alone.
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
    """The ops of a graph's nodes: of the capture with as many launches, of the same sorts in the same order."""
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
    """Share of nodes whose op and name show the same family, among those that show both; None without such nodes."""
    pairs = [
        (family_of_op(op), family_of_kernel_name(name)) for name, op in zip(names, ops, strict=True) if op
    ]
    agreed = [
        by_op is by_name or by_name in _ALSO.get(by_op, ()) for by_op, by_name in pairs if by_op and by_name
    ]
    return sum(agreed) / len(agreed) if agreed else None


def graph_nodes(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The device events of graphs, by graph, launch and node.

    A graph is what has the same graph id; without ids, launches that ran the same kernels, in the same order on each
    stream. Its nodes are numbered in the order of their ids, without ids in the order of streams and starts.
    """
    graphs = graph_events(linked).select("event_id", "correlation", "graph_id", "graph_node_id")
    calls = launch_calls(linked).select("event_id", "call", "call_ns")
    work = (
        device_work_of(linked, options)
        .join(graphs, on="event_id", maintain_order="left")
        .join(calls, on="event_id", how="left", maintain_order="left")
    )
    launch = pl.struct("call_event", pl.when(pl.col("call_event").is_null()).then("correlation"))
    launched = work.with_columns(launch.rank("dense").cast(pl.Int64).alias("launch")).sort(
        "launch", "lane", "ts_ns", "event_id"
    )
    return launched.pipe(_with_graph).pipe(_with_node)


def _with_graph(work: pl.DataFrame) -> pl.DataFrame:
    number, stream = pl.col("name").rank("dense").fill_null(0), pl.col("lane").rank("dense").over("launch")
    launches = (
        work.with_columns(pl.concat_str(stream, number, separator=":").alias("number"))
        .group_by("launch", maintain_order=True)
        .agg(
            pl.col("graph_id").first(),
            pl.col("ts_ns").min().alias("first_ns"),
            pl.col("number").str.join(",").alias("numbers"),
        )
    )
    same = pl.when(pl.col("graph_id").is_null()).then("numbers").alias("signature")
    graphs = (
        launches.group_by("graph_id", same)
        .agg(pl.col("first_ns").min(), pl.col("launch"))
        .sort("first_ns", "graph_id")
        .with_row_index("graph")
        .select(pl.col("graph").cast(pl.Int64), "launch")
        .explode("launch")
    )
    return work.drop("graph_id").join(
        graphs.join(launches.select("launch", "graph_id"), on="launch", how="left"),
        on="launch",
        how="left",
        maintain_order="left",
    )


def _with_node(work: pl.DataFrame) -> pl.DataFrame:
    by_id = pl.col("graph_node_id").rank("dense").over("graph").cast(pl.Int64) - 1
    by_order = pl.int_range(pl.len(), dtype=pl.Int64).over("launch")
    all_given = pl.col("graph_node_id").is_not_null().all().over("graph")
    return work.with_columns(pl.when(all_given).then(by_id).otherwise(by_order).alias("node")).sort(
        "graph", "launch", "node", "ts_ns"
    )


_IDS = {"graph": pl.Int64, "node": pl.Int64, "op": pl.String, "op_event": pl.Int64}


GRAPH_KERNELS = Table(
    "graph_kernels",
    "One row per graph and node: what ran when the graph was launched, in the order of its nodes.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column(
            "graph", Kind.INT, "number of the graph in this answer, from 0, in the order of first launches"
        ),
        Column("graph_id", Kind.INT, "the graph's id in the trace; null: the trace has none"),
        Column("launches", Kind.INT, "launches of the graph"),
        Column("node", Kind.INT, "number of the node in the graph, from 0"),
        Column("graph_node_id", Kind.INT, "the node's id in the trace; null: the trace has none"),
        Column("family", Kind.TEXT, "a code of `KernelFamily`; by the op, where it is known"),
        Column("name", Kind.TEXT, "name of the kernel or copy"),
        Column(
            "op", Kind.TEXT, "op that launched it when the graph was captured; null: not known, see `method`"
        ),
        Column("op_event", Kind.INT, "that op: its row in `events`; null without an op"),
        Column("method", Kind.TEXT, "how the op was found, or why not: a code of `CaptureMatch`"),
        Column(
            "confidence",
            Kind.FLOAT,
            "of the graph's nodes whose op and name both show a family the share where these agree; null: no such node",
        ),
        Column("count", Kind.INT, "how often it ran"),
        Column("total_ns", Kind.INT, "sum of its durations"),
        Column(
            "mean_ns",
            Kind.FLOAT,
            "mean duration, doubtful steps left out unless asked for; null: none is left",
        ),
        Column("share", Kind.FLOAT, "of the sum of the graph's kernels' durations, 0 to 1"),
        DOUBTFUL,
    ),
)


@analysis(
    GRAPH_KERNELS,
    Family.KERNELS,
    needs=(Need.GRAPH_LAUNCHES,),
    uses=(Need.HOST_OPS,),
    shown="graph node name op total_ns share count mean_ns family method",
)
def graph_kernels(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """What runs in each graph launch, and from which op?

    The nodes of each graph that was launched, summed over its launches.

    Where the trace holds the capture, the launches recorded in it are the nodes, in their order; `method` says so, or
    why no op is said. Without a capture the ops of a graph's kernels are not in the trace.

    Args:
        linked: one rank.
        per_step: rows for each step in which graphs were launched, instead of over all.
        with_doubtful: count the work of doubtful steps in the mean, too.
    """
    work = graph_nodes(linked, StepOptions(per_step, with_doubtful))
    if work.is_empty():
        return GRAPH_KERNELS.empty()
    joined = _joined(linked, work)
    return (
        work.group_by("step", "graph", "node")
        .agg(
            pl.col("graph_id", "graph_node_id", "name", "kind").first(),
            pl.len().alias("count"),
            pl.col("dur_ns").sum().alias("total_ns"),
            mean_of(pl.col("dur_ns").filter("in_means")),
        )
        .join(_launches(work), on=["step", "graph"], how="left", nulls_equal=True)
        .join(joined, on=["graph", "node"], how="left")
        .pipe(_with_family)
        .with_columns(
            (pl.col("total_ns") / pl.col("total_ns").sum().over("step", "graph")).fill_nan(0.0).alias("share")
        )
        .sort("graph", "node")
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(GRAPH_KERNELS, frame, linked))
    )


def _launches(work: pl.DataFrame) -> pl.DataFrame:
    return work.group_by("step", "graph").agg(pl.col("launch").n_unique().alias("launches"))


def _joined(linked: LinkedTrace, work: pl.DataFrame) -> pl.DataFrame:
    """For each graph and node: op, op_event, method, confidence."""
    found = captures(linked)
    is_memory = pl.col("kind") == MEMORY
    is_fill = is_memory & (pl.col("family") == KernelFamily.FILL.value)
    sort = (
        pl.when(is_fill).then(pl.lit("fill")).when(is_memory).then(pl.lit("copy")).otherwise(pl.lit("kernel"))
    )
    nodes = (
        work.group_by("graph", "node")
        .agg(
            pl.col("name", "lane").first(),
            sort.first().alias("sort"),
            pl.col("graph_node_id").is_not_null().all().alias("with_id"),
            pl.col("ts_ns").min().alias("first_ns"),
        )
        .sort("graph", "node")
    )
    return pl.concat(
        [
            _of_graph(part, join_captures(part, found))
            for part in nodes.partition_by("graph", maintain_order=True)
        ]
    )


def _of_graph(nodes: pl.DataFrame, joined: Joined) -> pl.DataFrame:
    none = [None] * len(nodes)
    return nodes.select(
        "graph",
        "node",
        pl.Series("op", joined.ops or none, dtype=pl.String),
        pl.Series("op_event", joined.events or none, dtype=pl.Int64),
        pl.lit(joined.method.value).alias("method"),
        pl.lit(joined.confidence, dtype=pl.Float64).alias("confidence"),
    )


def _with_family(nodes: pl.DataFrame) -> pl.DataFrame:
    as_op = pl.when(pl.col("op").is_not_null()).then(pl.lit(Category.CPU_OP.value))
    work = nodes.select("name", "kind", pl.col("op").alias("op_name"), as_op.alias("op_category"))
    return nodes.with_columns(kernel_families_of(work).get_column("family"))
