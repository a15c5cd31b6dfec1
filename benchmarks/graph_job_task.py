"""Join and replay a generated job in this process: `python -m benchmarks.graph_job_task RANKS EVENTS` prints JSON.

Of each rank a third of the events are ops, a third calls that launch, and a third kernels, one in 32 of which is a
collective of all ranks.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from benchmarks.measure import Stopwatch

if TYPE_CHECKING:
    from tracebraid.model.graph.rank_graph import RankGraph
    from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["generated_rank", "generated_ranks"]

_PERIOD_NS, _CALL_NS, _OP_NS, _LAUNCH_NS = 20_000, 4_000, 8_000, 6_000
_BETWEEN_COLLECTIVES = 32
_STEPS = 4


def generated_rank(rank: int, events: int) -> RankGraph:
    """The part of a rank.

    Args:
        rank: the rank, also the seed of its durations.
        events: about how many events it has.
    """
    import numpy as np

    from tracebraid.model.graph.codes import EdgeKind
    from tracebraid.model.graph.rank_graph import EdgeList, RankGraph

    count = max(events // 3, 1)
    number = np.arange(count)
    times = _times(count, rank)
    op, call, thread, kernel = number, count + number, 2 * count, 2 * count + 1 + number
    between = 2 * thread + np.zeros(count, dtype=np.int64)
    between[1:] = 2 * op[:-1] + 1
    host = [(between, 2 * op, np.full(count, thread)), (2 * op, 2 * call, op)]
    host += [(2 * call, 2 * call + 1, call), (2 * call + 1, 2 * op + 1, op)]
    last = np.array([2 * op[-1] + 1])
    host.append((last, np.array([2 * thread + 1]), np.array([thread])))
    edges = [
        EdgeList.of(before, after, EdgeKind.HOST, owner, times[after] - times[before])
        for before, after, owner in host
    ]
    launch = np.full(count, _LAUNCH_NS)
    duration = times[2 * kernel + 1] - times[2 * kernel]
    edges += [
        EdgeList.of(2 * call, 2 * kernel, EdgeKind.LAUNCH, kernel, launch),
        EdgeList.of(2 * kernel, 2 * kernel + 1, EdgeKind.DEVICE, kernel, duration),
        EdgeList.of(2 * kernel[:-1] + 1, 2 * kernel[1:], EdgeKind.STREAM_ORDER, kernel[1:]),
    ]
    return RankGraph(rank, _activities(rank, count, times), times, EdgeList.joined(edges)).packed()


def _times(count: int, rank: int):  # type: ignore[no-untyped-def]
    import numpy as np

    number, random = np.arange(count), np.random.default_rng(rank)
    op = number * _PERIOD_NS
    kernel = op + 1_000 + _LAUNCH_NS + random.integers(0, 500, count)
    end = kernel + random.integers(2_000, 10_000, count)
    is_collective = number % _BETWEEN_COLLECTIVES == _BETWEEN_COLLECTIVES - 1
    end[is_collective] = op[is_collective] + 19_000
    starts = np.concatenate([op, op + 1_000, [0], kernel])
    ends = np.concatenate([op + _OP_NS, op + 1_000 + _CALL_NS, [op[-1] + _PERIOD_NS], end])
    return np.column_stack([starts, ends]).reshape(-1)


def _activities(rank: int, count: int, times):  # type: ignore[no-untyped-def]
    import numpy as np
    import polars as pl

    from tracebraid.model.schema.graph import ACTIVITIES

    number = np.arange(count)
    steps = pl.Series([f"ProfilerStep#{step}" for step in range(_STEPS)]).cast(pl.Categorical())
    per_step = -(-count // _STEPS)
    step = steps.gather(number // per_step)
    ops = pl.Series([f"aten::op{index}" for index in range(50)]).cast(pl.Categorical()).gather(number % 50)
    marks = pl.Series(number % per_step == 0)
    rows = {
        "op": pl.select(pl.when(marks).then(step).otherwise(ops)).to_series(),
        "call": pl.Series(["cudaLaunchKernel"]).cast(pl.Categorical()).new_from_index(0, count),
        "kernel": ops,
    }
    parts = [
        pl.DataFrame(
            {
                "event_id": first + number,
                "kind": pl.Series([kind]).cast(pl.Categorical()).new_from_index(0, count),
                "name": name,
                "op": ops,
                "op_event": number,
                "lane": np.full(count, int(kind == "kernel")),
                "stream": pl.Series([7 if kind == "kernel" else None], dtype=pl.Int64).new_from_index(
                    0, count
                ),
                "step": step,
            }
        )
        for (kind, name), first in zip(rows.items(), (0, count, 2 * count + 1), strict=True)
    ]
    parts.insert(2, pl.DataFrame({"kind": ["thread"], "name": ["main"], "lane": [0]}))
    whole = pl.concat([ACTIVITIES.conform(part, fill_missing=True) for part in parts])
    return ACTIVITIES.conform(
        whole.with_columns(
            pl.lit(rank).alias("rank"), pl.Series("start_ns", times[::2]), pl.Series("end_ns", times[1::2])
        ),
        fill_missing=True,
    ).rechunk()


def generated_ranks(parts: list[RankGraph]) -> LinkedRanks:
    """The ranks of generated parts, linked with each other."""
    import polars as pl

    from tracebraid.model.linked_ranks import LinkedRanks
    from tracebraid.model.schema.ranks import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

    ranks = [part.rank for part in parts]
    found = []
    for part in parts:
        kernels = part.activities.filter(pl.col("stream").is_not_null())
        every = kernels.gather_every(_BETWEEN_COLLECTIVES, _BETWEEN_COLLECTIVES - 1)
        found.append(
            every.select("rank", "event_id", "step", "start_ns", "end_ns").with_row_index("collective")
        )
    members = pl.concat(found).with_columns(
        pl.col("collective").cast(pl.Int64), pl.col("step").cast(pl.String), type=pl.lit("all_reduce")
    )
    members = members.with_columns(stream=pl.lit("7"), group_size=pl.lit(len(ranks)))
    collectives = members.group_by("collective").agg(pl.col("rank").alias("ranks")).sort("collective")
    collectives = collectives.with_columns(
        group=pl.lit("0"),
        type=pl.lit("all_reduce"),
        group_size=pl.lit(len(ranks)),
        missing=pl.lit([], dtype=pl.List(pl.Int64)),
        method=pl.lit("process group and sequence"),
        confidence=pl.lit(1.0),
    )
    rows = pl.DataFrame({"rank": ranks, "host": ["a"] * len(ranks)})
    clocks = rows.with_columns(
        method=pl.lit("same host"), offset_ns=0, offset_low_ns=0, offset_high_ns=0, at_ns=0, drift_ppm=0.0
    )
    return LinkedRanks(
        RANKS.conform(rows, fill_missing=True),
        CLOCKS.conform(clocks, fill_missing=True),
        MEMBERS.conform(members, fill_missing=True),
        MATCHED_COLLECTIVES.conform(collectives, fill_missing=True),
    )


def main() -> None:
    """Measure."""
    from tracebraid.graph.joining.join_ranks import join_ranks
    from tracebraid.simulation.replay import replay

    ranks, events = map(int, sys.argv[1:])
    small = [generated_rank(rank, 300) for rank in range(2)]
    join_ranks(small, generated_ranks(small))  # Compiles.
    watch = Stopwatch()
    parts = [generated_rank(rank, events) for rank in range(ranks)]
    linked = generated_ranks(parts)
    watch.lap("make")
    graph = join_ranks(parts, linked)
    watch.lap("join")
    edges, residual_ns = graph.edges, graph.moments.residual_ns
    replay(edges.first, edges.before, edges.work_ns, residual_ns)
    watch.lap("first replay")
    replay(edges.first, edges.before, edges.work_ns, residual_ns)
    watch.lap("replay")
    found = watch.stop()
    print(json.dumps(asdict(replace(found, parts={**found.parts, "edges": len(edges)}))))


if __name__ == "__main__":
    main()
