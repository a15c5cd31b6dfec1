"""Do the rows of a store's tables name rows that there are? What reads them looks these up by their number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tracebraid.store.manifest import TableFile

__all__ = ["check_table"]

_EVENTS = (
    *("event_id", "parent_event", "op_event", "call_event", "forward_event", "backward_event"),
    *("before_event", "after_event"),
)
"""Columns that hold the row of an event."""
_TREES = ("host_tree", "host_tree_by_et")


def check_table(name: str, frame: pl.DataFrame, stated: Mapping[str, TableFile]) -> None:
    """Check a table of a rank.

    Args:
        name: of the table's folder.
        frame: the table.
        stated: the files of all tables of the rank.

    Raises:
        ValueError: it has other rows than are stated, or a row names an event, lane or parent that there is not.
    """
    if frame.height != stated[name].rows:
        raise ValueError(f"it has {frame.height:,} rows, and not {stated[name].rows:,}")
    rows = {table: file.rows for table, file in stated.items()}
    for column in _EVENTS:
        if column in frame.columns:
            _check_range(frame.get_column(column), rows.get("events", 0))
    if "lane" in frame.columns:
        _check_range(frame.get_column("lane"), rows.get("lanes", 0))
    if name in ("events", "lanes"):
        _check_rows(frame.to_series(0))
    if name in _TREES:
        _check_tree(frame, rows.get("events", 0))
    if name == "nodes":
        _check_parents(frame)


def _check_range(numbers: pl.Series, rows: int) -> None:
    least, most = numbers.min(), numbers.max()
    if isinstance(least, int) and isinstance(most, int) and not 0 <= least <= most < rows:
        raise ValueError(f"{numbers.name} goes from {least} to {most}, and there are {rows:,} of them")


def _check_rows(numbers: pl.Series) -> None:
    """The numbers of rows are all there, in any order."""
    if numbers.null_count() or numbers.n_unique() < len(numbers):
        raise ValueError(f"a {numbers.name} is missing, or there twice")


def _check_tree(tree: pl.DataFrame, events: int) -> None:
    """Each event lies one deeper than its parent: no event is in a circle."""
    if tree.get_column("event_id").null_count() or tree.get_column("depth").null_count():
        raise ValueError("an event of the tree has no id or no depth")
    depth = np.full(events, -1, dtype=np.int64)
    depth[tree.get_column("event_id").to_numpy()] = tree.get_column("depth").to_numpy()
    inner = tree.filter(pl.col("parent_event").is_not_null())
    parents = inner.get_column("parent_event").to_numpy()
    if (depth[parents] != inner.get_column("depth").to_numpy() - 1).any() or (depth[parents] < 0).any():
        raise ValueError("an event of the tree does not lie one deeper than its parent")


def _check_parents(nodes: pl.DataFrame) -> None:
    """Ids are there once, and no node is in a circle of parents."""
    _check_rows(nodes.get_column("node_id"))
    ids = nodes.get_column("node_id").to_numpy()
    order = np.argsort(ids, kind="stable")
    parents = nodes.get_column("parent_id").fill_null(-1).to_numpy()
    found = np.minimum(np.searchsorted(ids[order], parents), max(0, len(ids) - 1))
    rows = order[found] if len(ids) else found
    # The row behind the last stands for what has no parent.
    up = np.append(
        np.where(nodes.get_column("parent_id").is_null().to_numpy() | (ids[rows] != parents), len(ids), rows),
        len(ids),
    )
    # Each turn doubles the way that is gone up: after as many as the number of nodes has digits nothing is left.
    for _ in range(len(ids).bit_length() + 1):
        if (up == len(ids)).all():
            return
        up = up[up]
    raise ValueError("a node is its own parent, over others")
