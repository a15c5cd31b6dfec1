"""An Execution Trace again, with parents from the nesting in the Kineto trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.exporters.et_json import Bodies, as_json, document, header_of
from tracebraid.files import write_whole
from tracebraid.model.check import Repair
from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest

__all__ = ["repaired_parents", "write_repaired_et"]

_THREAD_ROOT = r"\|thread\]$"


def write_repaired_et(linked: LinkedTrace, path: str | Path) -> Repair:
    """Write the rank's Execution Trace with each node under the node of the op that was running around it.

    Nodes are written in the order of their ids. Where nothing has to change, nothing is written.

    Args:
        linked: a rank with an Execution Trace.
        path: where to; a file that is there is replaced once the new one is whole.

    Raises:
        ArgumentError: the rank has no Execution Trace.
        OutputError: the file cannot be written.
    """
    et = linked.et
    if et is None:
        raise ArgumentError(f"rank {linked.rank} has no Execution Trace to repair")
    parents = repaired_parents(linked, et)
    before = dict(et.nodes.select("node_id", "parent_id").iter_rows())
    placed = linked.host_links.get_column("node_id").drop_nulls()
    marks = pl.col("key").cast(pl.String) == MISSING_PARENT
    solved = marks & pl.col("node_id").is_in(placed.implode())
    marked = not et.extra_attrs.filter(solved).is_empty()
    et = replace(et, extra_attrs=et.extra_attrs.filter(~solved))
    changed = tuple(node for node, parent in sorted(parents.items()) if before[node] != parent)
    if changed or marked:
        write_whole(Path(path), (line.encode() for line in _lines(et, {**before, **parents})), overwrite=True)
    return Repair(str(path), len(before), changed, bool(changed or marked))


def repaired_parents(linked: LinkedTrace, et: ExecutionTrace) -> dict[int, int]:
    """The parent of each node but the roots.

    A linked node hangs under the node of the innermost op around it that has one, else under its thread's root. A
    node that is not linked stays where it is, or hangs under its thread's root where its parent is not there.
    """
    node_of = dict(
        linked.host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id").iter_rows()
    )
    around = dict(linked.host_tree.select("event_id", "op_event").iter_rows())
    event_of = {node: event for event, node in node_of.items()}
    roots, process = _roots(et)
    threads = set(roots.values())
    known, linked_nodes = set(et.nodes.get_column("node_id")), set(event_of)
    parent_of = dict(et.nodes.select("node_id", "parent_id").iter_rows())
    parents = {}
    for node, parent, tid in et.op_nodes.select("node_id", "parent_id", "tid").iter_rows():
        root = roots.get(tid, process)
        event = event_of.get(node)
        kept = parent if parent in known else root
        if event is None:
            parents[node] = kept
            continue
        outer = nearest(around[event], around, node_of)
        right = None if outer is None else node_of[outer]
        unlinked = kept not in linked_nodes and kept != process and kept not in threads
        agrees = unlinked and kept < node and nearest(kept, parent_of, linked_nodes) == right
        parents[node] = kept if agrees else root if right is None else right
    return parents


def _roots(et: ExecutionTrace) -> tuple[dict[int, int], int]:
    """The root of each logical thread, and the process's."""
    roots = et.nodes.filter("is_root")
    threads = roots.filter(pl.col("name").cast(pl.String).str.contains(_THREAD_ROOT))
    process = roots.get_column("node_id").min()
    return dict(threads.select("tid", "node_id").iter_rows()), process if isinstance(process, int) else 1


def _lines(et: ExecutionTrace, parents: dict[int, int | None]) -> Iterator[str]:
    header = header_of(et)
    rest = {key: value for key, value in et.header.items() if key not in header}
    return document(header, _nodes(et, parents), rest)


def _nodes(et: ExecutionTrace, parents: dict[int, int | None]) -> Iterator[str]:
    bodies = Bodies(et)
    for node, name in et.nodes.select("node_id", pl.col("name").cast(pl.String)).iter_rows():
        parent = parents[node]
        head = f'"id": {node}, "name": {as_json(name)}, "ctrl_deps": {node if parent is None else parent}'
        yield f"{{{head}, {bodies.of(node)}}}"
