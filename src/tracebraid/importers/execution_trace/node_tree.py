"""The tree of an Execution Trace's nodes: what is wrong with it, and how far each node reaches."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.et_names import ROOTS
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["last_inside", "tidy_nodes"]


def tidy_nodes(nodes: pl.DataFrame, repeated: list[int], path: str) -> tuple[pl.DataFrame, list[Finding]]:
    """The nodes in the order of their ids, roots marked and without parent, no cycles of parents.

    A parent that is not in the trace stays as the file has it. What was found is said in findings.

    Args:
        nodes: the table `nodes`, each id once.
        repeated: ids of the nodes that were left out because an earlier one has their id.
        path: the file.
    """
    findings: list[Finding] = []
    ordered = nodes.sort("node_id")
    if repeated:
        twice = pl.Series(sorted(set(repeated)))
        findings.append(_finding(FindingCode.DUPLICATE_ID, path, twice, len(repeated)))
    ordered = ordered.with_columns(
        as_text("name").is_in(ROOTS).alias("is_root"),
        pl.when(pl.col("parent_id") != pl.col("node_id")).then("parent_id").alias("parent_id"),
    )
    ids = ordered.get_column("node_id")
    dangling = ordered.filter(pl.col("parent_id").is_not_null() & ~pl.col("parent_id").is_in(ids.implode()))
    if not dangling.is_empty():
        findings.append(
            _finding(FindingCode.PARENT_MISSING, path, dangling.get_column("node_id"), dangling.height)
        )
    cut = _cycle_entries(_parent_rows(ordered))
    if len(cut):
        at = ids.gather(cut)
        findings.append(_finding(FindingCode.PARENT_CYCLE, path, at, len(cut)))
        ordered = ordered.with_columns(
            pl.when(~pl.col("node_id").is_in(at.implode())).then("parent_id").alias("parent_id")
        )
    return ordered, findings


def _parent_rows(nodes: pl.DataFrame) -> NDArray[np.int64]:
    """The row of each node's parent; -1 where it has none in the trace. Nodes are in the order of ids."""
    ids = nodes.get_column("node_id").to_numpy()
    parents = nodes.get_column("parent_id").fill_null(-(2**62)).to_numpy()
    rows = np.minimum(np.searchsorted(ids, parents), len(ids) - 1)
    return np.where(ids[rows] == parents, rows, -1)


def last_inside(nodes: pl.DataFrame) -> NDArray[np.int64]:
    """The row of the last node inside each node, itself where there is none.

    A parent with a larger id than its child (PyTorch's observer writes such ones when an operator ends on
    another thread) cannot be around it, and does not count here.
    """
    parents = _parent_rows(nodes).tolist()
    last = list(range(len(parents)))
    for row in range(len(parents) - 1, -1, -1):
        parent = parents[row]
        if 0 <= parent < row and last[parent] < last[row]:
            last[parent] = last[row]
    return np.array(last, dtype=np.int64)


def _cycle_entries(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of each cycle."""
    if (parents < np.arange(len(parents))).all():
        return np.empty(0, dtype=np.int64)
    up = parents.tolist()
    seen = [0] * len(up)
    entries = []
    for start in range(len(up)):
        row = start
        while row >= 0 and not seen[row]:
            seen[row] = start + 1
            row = up[row]
        if row >= 0 and seen[row] == start + 1:
            entries.append(row)
    return np.array(entries, dtype=np.int64)


def _finding(code: FindingCode, path: str, ids: pl.Series, count: int) -> Finding:
    shown = ", ".join(str(node) for node in ids.head(3).to_list())
    more = ", ..." if len(ids) > 3 else ""
    return Finding(code, path, f"node{'s' if len(ids) > 1 else ''} {shown}{more}", count)
