"""Latencies that are usual as work of edges, so that what remains is what exceeds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.latencies.latency_groups import LATENT, latency_groups
from tracebraid.graph.latencies.samples import waited_for_alone
from tracebraid.graph.latencies.usual import usual_latencies
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList
from tracebraid.model.schema.graph import LATENCIES

__all__ = ["Learned", "with_latencies"]

_Ints = NDArray[np.int64]

_ROUNDS = 2
"""In the first, what else a moment waits for counts as ready at once; in the next, after its own latency."""


@dataclass(frozen=True, eq=False)
class Learned:
    """Edges with latencies as work.

    Args:
        edges: the edges, in the same order.
        latencies: `LATENCIES`, of one rank.
    """

    edges: EdgeList
    latencies: pl.DataFrame


def with_latencies(edges: EdgeList, times_ns: _Ints, activities: pl.DataFrame) -> Learned:
    """Give each edge that stands for a latency what is usual of it as work, at most the time that there is.

    Args:
        edges: all edges of a rank; none goes back in time.
        times_ns: of each moment.
        activities: `ACTIVITIES` of the rank.
    """
    latent = np.flatnonzero(np.isin(edges.kind, LATENT))
    if not len(latent):
        return Learned(edges, LATENCIES.empty())
    chosen = edges[latent]
    slack_ns = times_ns[chosen.after] - times_ns[chosen.before]
    rows = latency_groups(chosen, activities).with_columns(pl.Series("slack_ns", slack_ns))
    most_ns = edges.work_ns.copy()
    for _ in range(_ROUNDS):
        alone = waited_for_alone(edges, times_ns, most_ns)[latent]
        usual = usual_latencies(rows.with_columns(pl.Series("is_sample", alone)))
        found = rows.join(usual, on=["code", "key"], how="left", nulls_equal=True, maintain_order="left")
        most_ns[latent] = np.minimum(found.get_column("most_ns").to_numpy(), slack_ns).astype(np.int64)
    typical = np.minimum(found.get_column("typical_ns").to_numpy(), slack_ns).astype(np.int64)
    work_ns = edges.work_ns.copy()
    work_ns[latent] = typical
    return Learned(replace(edges, work_ns=work_ns), _table(usual, activities))


def _table(usual: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    names = {int(kind): kind.name.lower() for kind in EdgeKind}
    kind = pl.col("code").replace_strict(names, return_dtype=pl.String).alias("kind")
    rank = activities.get_column("rank").first()
    return LATENCIES.conform(usual.with_columns(kind, pl.lit(rank, dtype=pl.Int64).alias("rank")))
