"""Times of ranks, of steps and of kinds of communication in a run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.answers.chakra import CHAKRA_RUN_COLLECTIVES, CHAKRA_RUN_RANKS, CHAKRA_RUN_STEPS
from tracebraid.simulation.chakra.happened import Happened, union_ns

__all__ = ["collectives_of", "ranks_of", "steps_of"]

_Ints = NDArray[np.int64]


def ranks_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_RANKS` without the network."""
    rank = happened.nodes.ints("rank")
    bounds = np.searchsorted(rank, np.arange(len(happened.nodes.paths) + 1))
    rows = [
        _rank(happened, number, slice(first, last))
        for number, (first, last) in enumerate(pairwise(bounds.tolist()))
    ]
    return pl.DataFrame(rows, schema=_schema(CHAKRA_RUN_RANKS.polars_schema()))


def _rank(happened: Happened, number: int, own: slice) -> dict[str, int]:
    done = happened.done[own]
    start, end = happened.played.start_ns[own], happened.played.end_ns[own]

    def covered(chosen: NDArray[np.bool_]) -> int:
        chosen = chosen & done
        first, last = union_ns(start[chosen], end[chosen])
        return int((last - first).sum())

    compute, host, communication = (
        part[own] for part in (happened.is_compute, happened.is_host, happened.is_communication)
    )
    finish = int(end.max(initial=0))
    computing = covered(compute)
    return {
        "rank": number,
        "end_ns": finish,
        "nodes": int(np.count_nonzero(done)),
        "compute_ns": computing,
        "host_ns": covered(host),
        "communication_ns": covered(communication),
        "exposed_communication_ns": covered(compute | communication) - computing,
        "waiting_ns": int(happened.waiting_ns[own][done].sum()),
        "idle_ns": finish - covered(np.ones(len(done), dtype=np.bool_)),
        "not_computing_ns": finish - int((end - start)[compute & done].sum()),
    }


def steps_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_STEPS` without the network; by the start of the steps."""
    schema = _schema(CHAKRA_RUN_STEPS.polars_schema())
    frame = happened.nodes.table.select("rank", pl.col("step").cast(pl.String)).with_columns(
        pl.Series("start_ns", happened.played.start_ns), pl.Series("end_ns", happened.played.end_ns)
    )
    frame = frame.filter(pl.col("step").is_not_null(), pl.col("end_ns") >= 0)
    times = (pl.col("start_ns").min(), pl.col("end_ns").max())
    of_ranks = frame.group_by("step", "rank", maintain_order=True).agg(*times)
    of_all = frame.group_by("step", maintain_order=True).agg(*times)
    of_all = of_all.with_columns(pl.lit(None, dtype=pl.Int64).alias("rank")).select(of_ranks.columns)
    rows = pl.concat([of_all, of_ranks]).sort(
        pl.col("rank").is_not_null(), "rank", "start_ns", "end_ns", "step"
    )
    before = pl.col("end_ns").shift().over("rank", order_by="start_ns")
    return rows.with_columns(duration_ns=pl.col("end_ns") - before.fill_null(pl.col("start_ns"))).select(
        list(schema)
    )


def collectives_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_COLLECTIVES` without the network."""
    rows = np.flatnonzero(happened.is_communication & happened.done)
    played = happened.played
    waiting = happened.waiting_ns[rows]
    # A send and its receive are one message, which each of them counts; what meets nobody counts for itself.
    alone = happened.is_replayed[rows]
    frame = pl.DataFrame(
        {
            "kind": pl.Series(happened.kinds(rows), dtype=pl.String),
            "slot": np.where(alone, -1 - rows, played.slot[rows]),
            "size_bytes": happened.nodes.ints("comm_size", 0)[rows],
            "waiting_ns": waiting,
            "transfer_ns": (played.end_ns - played.start_ns)[rows] - waiting,
        }
    )
    found = frame.group_by("kind").agg(
        pl.col("slot").n_unique().cast(pl.Int64).alias("count"),
        pl.len().cast(pl.Int64).alias("nodes"),
        pl.col("size_bytes", "waiting_ns", "transfer_ns").sum(),
    )
    found = found.sort("transfer_ns", "kind", descending=[True, False])
    return found.select(name for name in CHAKRA_RUN_COLLECTIVES.polars_schema() if name != "network")


def _schema(schema: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
    return {name: dtype for name, dtype in schema.items() if name != "network"}
