"""Which logical thread of an Execution Trace is which thread of a Kineto trace?"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.alignment.op_sequences import Codes, OpSequence

__all__ = ["threads_of"]

_LEAST_ALIKE = 0.1
"""Threads that share less (Dice's coefficient) are no pair.."""
_DIGITS = 2
"""Threads that are alike to so many digits are distinguished by when they ran."""
_NEARLY = 0.03
"""Pairs whose likeness differs by less could be exchanged: so much a few lost ops of a hundred make up. Chosen."""
_MOMENTS = np.linspace(0, 1, 11)
"""The shares of a thread's ops at which threads are compared: none, a tenth, ... all."""

_Floats = NDArray[np.float64]


def threads_of(nodes: OpSequence, ops: OpSequence, codes: tuple[Codes, Codes]) -> list[tuple[int, int]]:
    """Pairs of a thread of the nodes and one of the ops, one to one, the most alike first.

    Two threads are alike by the share of ops that both have (Dice's coefficient). Where several are equally alike,
    those are a pair that have the same rank in the order of their starts, of their first tenths, and so on.
    """
    alike = _alike(nodes, ops, codes)
    moments = _moments(nodes.rows), _moments(ops.rows)
    first = _best_pairs(
        (-round(share, _DIGITS), float(np.abs(moments[0][thread] - moments[1][lane]).mean()), thread, lane)
        for (thread, lane), share in alike.items()
    )
    pairs: list[tuple[int, int]] = []
    for group in _interchangeable(first, alike):
        threads, lanes = [thread for thread, _ in group], [lane for _, lane in group]
        ranks = [_ranks(sequence, which) for sequence, which in zip(moments, (threads, lanes), strict=True)]
        pairs += _best_pairs(
            (0.0, float(np.abs(ranks[0][i] - ranks[1][j]).sum()), thread, lane)
            for i, thread in enumerate(threads)
            for j, lane in enumerate(lanes)
        )
    return sorted(pairs)


def _alike(nodes: OpSequence, ops: OpSequence, codes: tuple[Codes, Codes]) -> dict[tuple[int, int], float]:
    """How alike two threads are, 0 to 1, where that is enough."""
    counts = [_counts(sequence, code) for sequence, code in zip((nodes, ops), codes, strict=True)]
    sizes = [of_thread.group_by("thread").agg(pl.col("count").sum().alias("size")) for of_thread in counts]
    shared = (
        counts[0]
        .join(counts[1], on="code", suffix="_op")
        .group_by("thread", "thread_op")
        .agg(pl.min_horizontal("count", "count_op").sum().alias("shared"))
        .join(sizes[0], on="thread")
        .join(sizes[1].rename({"thread": "thread_op", "size": "size_op"}), on="thread_op")
        .with_columns((2 * pl.col("shared") / (pl.col("size") + pl.col("size_op"))).alias("alike"))
        .filter(pl.col("alike") >= _LEAST_ALIKE)
        .sort("thread", "thread_op")
    )
    return {
        (thread, lane): alike
        for thread, lane, alike in shared.select("thread", "thread_op", "alike").iter_rows()
    }


def _best_pairs(candidates: Iterable[tuple[float, float, int, int]]) -> list[tuple[int, int]]:
    """The best candidates, each thread once."""
    threads: set[int] = set()
    lanes: set[int] = set()
    pairs = []
    for _, _, thread, lane in sorted(candidates):
        if thread not in threads and lane not in lanes:
            pairs.append((thread, lane))
            threads.add(thread)
            lanes.add(lane)
    return pairs


def _interchangeable(
    pairs: list[tuple[int, int]], alike: dict[tuple[int, int], float]
) -> list[list[tuple[int, int]]]:
    """Groups of pairs whose threads could be exchanged, as they are nearly as alike."""
    groups: list[list[tuple[int, int]]] = []
    for thread, lane in pairs:
        least = alike[thread, lane] - _NEARLY
        for group in groups:
            lead = group[0]
            if alike.get((thread, lead[1]), 0.0) >= least and alike.get((lead[0], lane), 0.0) >= least:
                group.append((thread, lane))
                break
        else:
            groups.append([(thread, lane)])
    return groups


def _ranks(moments: dict[int, _Floats], threads: list[int]) -> _Floats:
    """For each of some threads its rank among them by each of its moments."""
    reached = np.array([moments[thread] for thread in threads])
    ranks: _Floats = np.argsort(np.argsort(reached, axis=0, kind="stable"), axis=0).astype(np.float64)
    return ranks


def _counts(sequence: OpSequence, codes: Codes) -> pl.DataFrame:
    coded = sequence.rows.select("thread", pl.Series("code", codes.signatures))
    return coded.group_by("thread", "code").agg(pl.len().cast(pl.Int64).alias("count"))


def _moments(rows: pl.DataFrame) -> dict[int, _Floats]:
    """For each thread at which part of the trace it has done 0, a tenth, ... all of its ops."""
    ranked = rows.select("thread", (pl.col("order").rank("ordinal") / pl.len()).alias("moment"))
    return {
        int(thread[0]): np.quantile(part.get_column("moment").to_numpy(), _MOMENTS)
        for thread, part in ranked.partition_by("thread", as_dict=True).items()
    }
