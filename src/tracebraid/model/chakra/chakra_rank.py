"""`ChakraRank`: the nodes of one `.et` file in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.finding import Finding

__all__ = ["AttributeValue", "ChakraRank", "NodeDeps"]

_Ints = NDArray[np.int64]

AttributeValue = str | int | float | bool
"""Of an attribute in the metadata of a file."""


@dataclass(frozen=True, eq=False)
class NodeDeps:
    """Of each node the nodes that it waits for: those of row `i` are the entries from `first[i]` up to `first[i + 1]`.

    Args:
        first: one entry more than there are nodes.
        node_id: ids as the file has them; a damaged file may name nodes that it does not hold.
    """

    first: _Ints
    node_id: _Ints

    def __len__(self) -> int:
        return len(self.node_id)

    @staticmethod
    def none(nodes: int) -> NodeDeps:
        """No dependency of any of so many nodes."""
        return NodeDeps(np.zeros(nodes + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @staticmethod
    def of_pairs(before: _Ints, after: _Ints, node_id: _Ints) -> NodeDeps:
        """From pairs of rows in any order; a pair that is there twice counts once.

        Args:
            before: rows that are waited for.
            after: rows that wait.
            node_id: the ids of all rows.
        """
        order = np.lexsort((before, after))
        before, after = before[order], after[order]
        new = np.ones(len(after), dtype=np.bool_)
        new[1:] = (after[1:] != after[:-1]) | (before[1:] != before[:-1])
        first = np.zeros(len(node_id) + 1, dtype=np.int64)
        np.cumsum(np.bincount(after[new], minlength=len(node_id)), out=first[1:])
        return NodeDeps(first, node_id[before[new]])

    def rows(self) -> _Ints:
        """The row that waits, of each entry."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


@dataclass(frozen=True, eq=False)
class ChakraRank:
    """What one `.et` file holds.

    Args:
        rank: the number in the file's name, which is the rank in a simulator.
        version: of the schema, as the file's metadata says.
        attributes: the metadata's attributes, by name, in the order of the file.
        nodes: `CHAKRA_NODES`, in the order of the file.
        data_deps: what each node waits for; real order belongs here.
        ctrl_deps: likewise, as other tools write it.
        findings: what was noticed while it was read or made.
    """

    rank: int
    version: str
    attributes: Sequence[tuple[str, AttributeValue]]
    nodes: pl.DataFrame
    data_deps: NodeDeps
    ctrl_deps: NodeDeps
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """What it is, in brief."""
        deps = len(self.data_deps) + len(self.ctrl_deps)
        return f"ChakraRank(rank={self.rank}, nodes={self.nodes.height}, deps={deps})"
