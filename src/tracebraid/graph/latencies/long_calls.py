"""Launches by calls that took much longer than usual: what the call did first is work of the launch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.launches.queues.full_queue import SLOW
from tracebraid.graph.latencies.samples import waited_for_alone
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["with_long_calls"]

_Ints = NDArray[np.int64]


def with_long_calls(edges: EdgeList, times_ns: _Ints, activities: pl.DataFrame) -> EdgeList:
    """Let what a call did before it launched be work of the launch, and belong to the call.

    A call that loads a module, or copies to a staging buffer, takes long, and its work cannot start before that is
    done: of a call that takes `SLOW` times the median of its name or more, what it took beyond that median until the
    work started is added to the usual latency, where the work waited for nothing else.

    Args:
        edges: all edges of a rank, with latencies.
        times_ns: of each moment.
        activities: `ACTIVITIES` of the rank.
    """
    ready = waited_for_alone(edges, times_ns, edges.work_ns)
    launch = np.flatnonzero((edges.kind == EdgeKind.LAUNCH) & ready)
    call = edges.before[launch] // 2
    lasted_ns = times_ns[2 * call + 1] - times_ns[2 * call]
    slack_ns = times_ns[edges.after[launch]] - times_ns[edges.before[launch]]
    usual_ns = _usual_ns(call, lasted_ns, activities)
    extra_ns = np.minimum(lasted_ns, slack_ns) - usual_ns
    long = (lasted_ns >= SLOW * usual_ns) & (extra_ns > 0)
    chosen = launch[long]
    work_ns, owner = edges.work_ns.copy(), edges.activity.copy()
    work_ns[chosen] = np.minimum(slack_ns[long], work_ns[chosen] + extra_ns[long])
    owner[chosen] = call[long]
    return replace(edges, work_ns=work_ns, activity=owner)


def _usual_ns(call: _Ints, lasted_ns: _Ints, activities: pl.DataFrame) -> _Ints:
    """The median duration of the calls of each call's name."""
    rows = pl.DataFrame({"call": call, "lasted_ns": lasted_ns}).with_columns(
        activities.select(as_text("name")).to_series().gather(call).alias("name")
    )
    calls = rows.unique("call").group_by("name").agg(pl.col("lasted_ns").median().alias("usual_ns"))
    found = rows.join(calls, on="name", how="left", maintain_order="left").get_column("usual_ns")
    usual: _Ints = found.fill_null(0).cast(pl.Int64).to_numpy()
    return usual
