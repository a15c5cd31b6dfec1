"""A rank's nodes several times, one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.exporters.chakra.node_lanes import lane_borders, node_lanes
from tracebraid.exporters.chakra.reduction import reduced
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.expressions import as_text

__all__ = ["repeated"]

_Ints = NDArray[np.int64]

_HIGHEST_TAG = 2**31 - 1
"""Tags are read as 32 bits by older readers."""


def repeated(rank: ChakraRank, times: int) -> ChakraRank:
    """The nodes so many times: each thread, each stream and communication begin again behind what they did before.

    Steps of the second time are named `ProfilerStep#3 (2)`, and so on. Tags of sends and receives are other ones each
    time, by the same rule on all ranks.

    Args:
        rank: its nodes stand behind all that they wait for, and are numbered by rows.
        times: 1 or more.

    Raises:
        ArgumentError: `times` is less than 1, or there are too many tags.
    """
    if times < 1:
        raise ArgumentError(f"{times} times is none; give 1 or more")
    if times == 1:
        return rank
    nodes = rank.nodes
    _check_tags(nodes, times)
    count, number = nodes.height, np.repeat(np.arange(times), nodes.height)
    found = pl.concat([nodes] * times).with_columns(
        pl.Series("_time", number),
        node_id=pl.int_range(times * count, dtype=pl.Int64),
    )
    span_us = _span_micros(nodes)
    again = pl.col("_time") > 0
    named = pl.format("{} ({})", as_text("step"), pl.col("_time") + 1)
    found = found.with_columns(
        pl.when(again).then(named).otherwise(as_text("step")).cast(nodes.schema["step"]).alias("step"),
        comm_tag=pl.col("comm_tag") * times + pl.col("_time"),
        start_time_micros=pl.col("start_time_micros") + pl.col("_time") * span_us,
    )
    return replace(
        rank,
        attributes=(*rank.attributes, ("repeat", times)),
        nodes=found.select(nodes.columns),
        data_deps=_deps(rank, times),
        ctrl_deps=NodeDeps.none(times * count),
    )


def _check_tags(nodes: pl.DataFrame, times: int) -> None:
    highest = nodes.get_column("comm_tag").drop_nulls().to_numpy().max(initial=0)
    if (int(highest) + 1) * times - 1 > _HIGHEST_TAG:
        raise ArgumentError(
            f"tag {highest} times {times} is more than {_HIGHEST_TAG}, the highest tag of a send; repeat it less often"
        )


def _span_micros(nodes: pl.DataFrame) -> int:
    """How long the nodes take, by their starts."""
    ends = nodes.select(pl.col("start_time_micros") + pl.col("duration_micros")).to_series().drop_nulls()
    return int(ends.to_numpy().max(initial=0))


def _deps(rank: ChakraRank, times: int) -> NodeDeps:
    """The dependencies of each time, and those of the first nodes of a lane on its last ones of the time before."""
    count, deps = rank.nodes.height, rank.data_deps
    lane, lanes = node_lanes(rank.nodes)
    borders = lane_borders(deps.first, deps.node_id, lane, lanes)
    before, after = [deps.node_id], [deps.rows()]
    firsts, lasts = np.flatnonzero(borders.first), np.flatnonzero(borders.last)
    between = [
        (np.repeat(last, len(first)), np.tile(first + count, len(last)))
        for last, first in (
            (lasts[lane[lasts] == each], firsts[lane[firsts] == each]) for each in range(lanes)
        )
    ]
    before += [pair[0] for pair in between]
    after += [pair[1] for pair in between]
    # Twice is enough to see what implies what; it is the same from each time to the next.
    twice = reduced(
        np.r_[np.concatenate(before), deps.node_id + count],
        np.r_[np.concatenate(after), deps.rows() + count],
        np.r_[lane, lane],
    )
    again = twice.after >= count
    own_before, own_after = twice.before[~again], twice.after[~again]
    shift = np.repeat(np.arange(times - 1) * count, int(np.count_nonzero(again)))
    return NodeDeps.of_pairs(
        np.r_[own_before, np.tile(twice.before[again], times - 1) + shift],
        np.r_[own_after, np.tile(twice.after[again], times - 1) + shift],
        np.arange(times * count),
    )
