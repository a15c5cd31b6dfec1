"""The nodes of all ranks in one table, by rank and id, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.errors import InputError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType

__all__ = ["RankNodes", "all_nodes"]

_Ints = NDArray[np.int64]

_COLUMNS = (
    *("node_id", "name", "duration_micros", "duration_ns", "is_cpu_op", "comm_size", "comm_src", "comm_dst"),
    *("comm_tag", "pg_name", "step", "stream", "thread"),
)
_CYCLE_SHOWN = 8
"""Nodes of a cycle that an error names."""


@dataclass(frozen=True, eq=False)
class RankNodes:
    """The nodes of all ranks.

    Args:
        table: their columns of `CHAKRA_NODES` that matter here, with `rank`, and `type` and `comm_type` as numbers (-1:
            none, or of no known name); by rank and id.
        paths: the file of each rank, by its number.
        first: where the nodes that wait for each begin in `after`; one entry more than there are nodes.
        after: the rows that wait.
        waits: how many rows each waits for.
    """

    table: pl.DataFrame
    paths: tuple[str, ...]
    first: _Ints
    after: _Ints
    waits: _Ints

    def ints(self, column: str, none: int = -1) -> _Ints:
        """A column of integers.

        Args:
            column: its name.
            none: what stands for null.
        """
        found: _Ints = self.table.get_column(column).cast(pl.Int64).fill_null(none).to_numpy()
        return found

    def problem(self, row: int, problem: str, advice: str) -> InputError:
        """The error of a node."""
        rank, node = self.table.select("rank", "node_id").row(row)
        return InputError(self.paths[rank], problem, advice, f"node {node}")


def all_nodes(ranks: Iterable[tuple[str, ChakraRank]]) -> RankNodes:
    """The nodes of all ranks, which are taken one after another: none is kept whole.

    Args:
        ranks: the file and what it holds, of ranks 0, 1, 2, ...

    Raises:
        InputError: there is none; ids are there twice, or are waited for and are not there; nodes wait in a circle.
    """
    tables: list[pl.DataFrame] = []
    paths: list[str] = []
    before: list[_Ints] = []
    after: list[_Ints] = []
    base = 0
    for number, (path, rank) in enumerate(ranks):
        table = _table(rank, number)
        order = table.get_column("node_id").arg_sort()
        ids = table.get_column("node_id").to_numpy()[order.to_numpy()]
        _refuse_twice(path, ids)
        position = np.empty(len(order), dtype=np.int64)
        position[order.to_numpy()] = np.arange(len(order))
        pairs = [_pairs(path, rank, deps, ids) for deps in (rank.data_deps, rank.ctrl_deps)]
        before.extend(pair[0] + base for pair in pairs)
        after.extend(position[pair[1]] + base for pair in pairs)
        tables.append(table[order])
        paths.append(path)
        base += len(order)
    if not tables:
        raise InputError(
            "", "there is no .et file", "Name a folder with a file for each rank, such as job.0.et"
        )
    joined = pl.concat(tables, rechunk=True)
    found = _joined(joined, tuple(paths), np.concatenate(before), np.concatenate(after))
    _refuse_cycles(found)
    return found


def _table(rank: ChakraRank, number: int) -> pl.DataFrame:
    codes = [
        pl.col(name)
        .cast(pl.String)
        .replace_strict({code.name: int(code) for code in enum}, default=-1, return_dtype=pl.Int64)
        for name, enum in (("type", NodeType), ("comm_type", CollectiveCommType))
    ]
    return rank.nodes.select(pl.lit(number, dtype=pl.Int64).alias("rank"), *codes, *_COLUMNS)


def _pairs(path: str, rank: ChakraRank, deps: NodeDeps, ids: _Ints) -> tuple[_Ints, _Ints]:
    """Rows among sorted ids that are waited for, and rows of the file that wait.

    Raises:
        InputError: an id is not there.
    """
    rows = deps.rows()
    found_at = np.searchsorted(ids, deps.node_id)
    known = (
        ids[np.minimum(found_at, len(ids) - 1)] == deps.node_id if len(ids) else np.zeros(0, dtype=np.bool_)
    )
    if not known.all():
        bad = int(np.argmin(known))
        node = rank.nodes.get_column("node_id")[int(rows[bad])]
        raise InputError(
            path,
            f"it waits for node {deps.node_id[bad]}, which the file does not hold",
            "Was the file cut, or nodes filtered out? Write it anew, or see: tracebraid chakra check",
            f"node {node}",
        )
    return found_at, rows


def _joined(table: pl.DataFrame, paths: tuple[str, ...], before: _Ints, after: _Ints) -> RankNodes:
    count = table.height
    # A data and a control dependency may be the same.
    key = np.sort(before * count + after)
    key = key[np.diff(key, prepend=-1) > 0]
    before, after = key // max(count, 1), key % max(count, 1)
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(before, minlength=count), out=first[1:])
    return RankNodes(table, paths, first, after, np.bincount(after, minlength=count).astype(np.int64))


def _refuse_twice(path: str, ids: _Ints) -> None:
    """Raise InputError where an id is there twice."""
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise InputError(path, "its id is there twice", "Ids have to be unique in a file", f"node {twice[0]}")


def _refuse_cycles(nodes: RankNodes) -> None:
    """Raise InputError where nodes wait in a circle."""
    waits = _unreached(nodes.first, nodes.after, nodes.waits)
    left = np.flatnonzero(waits)
    if not len(left):
        return
    before = np.repeat(np.arange(len(waits)), np.diff(nodes.first))
    inside = (waits[before] > 0) & (waits[nodes.after] > 0)
    waits_for = dict(zip(nodes.after[inside].tolist(), before[inside].tolist(), strict=True))
    seen: dict[int, None] = {}
    row = int(left[0])
    while row not in seen:
        seen[row] = None
        row = waits_for[row]
    circle = list(seen)[list(seen).index(row) :]
    ids = nodes.table.get_column("node_id").gather(circle).to_list()
    shown = " > ".join(
        str(node) for node in [*ids[:_CYCLE_SHOWN], *(["..."] if len(ids) > _CYCLE_SHOWN else []), ids[0]]
    )
    raise nodes.problem(
        row,
        f"{len(ids)} nodes wait for each other in a circle: {shown}",
        "None of them can ever start: remove one of these dependencies",
    )


@compiled
def _unreached(first: _Ints, after: _Ints, waits: _Ints) -> _Ints:
    """What each node still waits for when all that can run has run; 0 of those that can."""
    left: _Ints = waits.copy()
    stack = np.empty(len(left), dtype=np.int64)
    size = 0
    for row in range(len(left)):
        if left[row] == 0:
            stack[size] = row
            size += 1
    while size > 0:
        size -= 1
        row = stack[size]
        for index in range(first[row], first[row + 1]):
            left[after[index]] -= 1
            if left[after[index]] == 0:
                stack[size] = after[index]
                size += 1
    return left
