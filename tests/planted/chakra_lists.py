"""Ranks of a few nodes, made by hand: each has a name, a lane, and the names of what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracebraid.chakra import ChakraRank, NodeDeps
from tracebraid.chakra.schema import CHAKRA_NODES


@dataclass(frozen=True)
class Listed:
    """A node.

    Args:
        name: its name, its own.
        waits: names of earlier nodes, with commas between.
        stream: null: on the host, or communication.
        step: its step.
        kind: its `NodeType`.
        tag: of a send or receive.
    """

    name: str
    waits: str = ""
    stream: int | None = None
    step: str | None = None
    kind: str = "COMP_NODE"
    tag: int | None = None


def rank_of(listed: Sequence[Listed]) -> ChakraRank:
    """The rank: 10 us for each node, which start by their rows."""
    rows = [
        {
            "node_id": row,
            "name": node.name,
            "type": node.kind,
            "start_time_micros": 10 * row,
            "duration_micros": 10,
            "comm_tag": node.tag,
            "duration_ns": 10_000,
            "step": node.step,
            "stream": node.stream,
            "thread": 1 if node.stream is None and node.kind == "COMP_NODE" else None,
        }
        for row, node in enumerate(listed)
    ]
    nodes = CHAKRA_NODES.conform(pl.DataFrame(rows, infer_schema_length=None), fill_missing=True)
    row_of = {node.name: row for row, node in enumerate(listed)}
    pairs = [(row_of[name], row_of[node.name]) for node in listed for name in node.waits.split(", ") if name]
    before, after = (np.array([pair[at] for pair in pairs], dtype=np.int64) for at in range(2))
    ids = np.arange(len(listed))
    return ChakraRank(
        0, "0.0.4", (), nodes, NodeDeps.of_pairs(before, after, ids), NodeDeps.none(len(listed))
    )


def names_of_pairs(rank: ChakraRank) -> set[tuple[str, str]]:
    """What waits for what, by names: (what is waited for, what waits)."""
    names = rank.nodes.get_column("name").to_list()
    deps = rank.data_deps
    return {
        (names[before], names[after])
        for before, after in zip(deps.node_id.tolist(), deps.rows().tolist(), strict=True)
    }
