"""What is known of each node, in the columns of `CHAKRA_NODES`."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.step_marks import step_at, step_marks
from tracebraid.exporters.chakra.nodes.tasks import NONE, TaskKind, Tasks
from tracebraid.exporters.chakra.rounding import rounded_micros
from tracebraid.model.chakra.codes import Detail, NodeType
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["DELAY", "node_columns"]

_Ints = NDArray[np.int64]

DELAY = "delay"
"""The kind of nodes in which nothing is done that is known, and of the host's time where that is not told apart."""

_OF_COMMUNICATION = ("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "collective")
_OF_EVENT = ("op", "et_node_id", "event_id", "shapes", "module")
_OF_ACTIVITY = ("name", "kind", "op", "node_id", "event_id", "shapes", "module", "step", "stream", "lane")
_ON_HOST = (TaskKind.HOST, TaskKind.HOST_DELAY)
_DELAYS = (TaskKind.HOST_DELAY, TaskKind.DEVICE_DELAY)


def node_columns(
    graph: RankGraph,
    tasks: Tasks,
    spans_ns: tuple[_Ints, _Ints],
    communication: pl.DataFrame,
    detail: Detail,
) -> pl.DataFrame:
    """`CHAKRA_NODES`, a row for each task; nodes are numbered in the order of tasks.

    Args:
        graph: of one rank.
        tasks: in the order of nodes.
        spans_ns: start and end of each.
        communication: `CHAKRA_COMMUNICATION`.
        detail: how much of the host is told apart.
    """
    start_ns, end_ns = spans_ns
    activity = pl.Series(tasks.activity)
    rows = graph.activities.select(_OF_ACTIVITY)[activity].rename({"node_id": "et_node_id", "kind": "_kind"})
    rows = rows.hstack(_of_communication(tasks, communication)).with_columns(
        pl.Series("_task", tasks.kind),
        node_id=pl.Series(np.arange(len(tasks))),
        duration_ns=pl.coalesce("transfer_ns", pl.Series(end_ns - start_ns)),
        start_time_micros=pl.Series((start_ns - (start_ns.min() if len(start_ns) else 0)) // 1000),
    )
    on_host = pl.Series(np.isin(tasks.kind, _ON_HOST))
    in_window = step_at(step_marks(graph), start_ns)
    rows = rows.with_columns(step=pl.when(on_host).then(in_window).otherwise(as_text("step")))
    lasts_ns, lane = rows.get_column("duration_ns").to_numpy(), _rounding_lanes(tasks)
    micros = pl.Series("duration_micros", rounded_micros(lasts_ns, lane))
    return CHAKRA_NODES.conform(rows.select(_described(detail)).with_columns(micros), fill_missing=True)


def _rounding_lanes(tasks: Tasks) -> _Ints:
    """Work of a thread or stream, its delays and its communication: each of them adds up for itself."""
    kind = np.select([np.isin(tasks.kind, _DELAYS), tasks.kind == TaskKind.COMMUNICATION], [1, 2], default=0)
    lanes: _Ints = 3 * tasks.lane + kind
    return lanes


def _of_communication(tasks: Tasks, communication: pl.DataFrame) -> pl.DataFrame:
    """The columns of communication for each task; null where it is none."""
    chosen = communication.select(*_OF_COMMUNICATION, "type", "transfer_ns")
    if chosen.is_empty():
        return chosen.clear(len(tasks))
    is_communication = pl.Series(tasks.row != NONE)
    rows = chosen[pl.Series(np.maximum(tasks.row, 0))]
    return rows.select(pl.when(is_communication).then(pl.col(name)).alias(name) for name in rows.columns)


def _described(detail: Detail) -> list[pl.Expr]:
    task = pl.col("_task")
    host = task == int(TaskKind.HOST)
    on_host = task.is_in([int(kind) for kind in _ON_HOST])
    is_delay = task.is_in([int(kind) for kind in _DELAYS])
    if detail is Detail.DEVICE:
        is_delay |= host
    of_event = [pl.when(~is_delay).then(pl.col(name)).alias(name) for name in _OF_EVENT]
    return [
        pl.col("node_id", "start_time_micros", "duration_ns", "step", *_OF_COMMUNICATION),
        pl.when(is_delay).then(pl.lit(DELAY)).otherwise(as_text("name")).alias("name"),
        pl.when(is_delay).then(pl.lit(DELAY)).otherwise(as_text("_kind")).alias("kind"),
        pl.coalesce(as_text("type"), pl.lit(NodeType.COMP_NODE.name)).alias("type"),
        on_host.alias("is_cpu_op"),
        *of_event,
        pl.when(~on_host).then("stream").alias("stream"),
        pl.when(on_host).then("lane").alias("thread"),
    ]
