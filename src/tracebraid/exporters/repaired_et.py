"""An Execution Trace again, with parents from the nesting in the Kineto trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.exporters.et_json import Bodies, as_json, document, header_of, write_lines
from tracebraid.model.check import Repair
from tracebraid.model.et_names import THREAD_ROOTS
from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.parents import JudgedParent, Verdict, judge_parents

__all__ = ["repaired_parents", "write_repaired_et"]


def write_repaired_et(linked: LinkedTrace, path: str | Path) -> Repair:
    """Write the rank's Execution Trace, with nodes whose parent is proven wrong under that of the op that called them.

    `model.parents.judge_parents` says what is proof; what lacks it stays. Nodes are written in the order of their
    ids. Where nothing has to change, nothing is written.

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
    judged = _judged(linked, et)
    parents = repaired_parents(et, judged)
    before = dict(et.nodes.select("node_id", "parent_id").iter_rows())
    linked_nodes = linked.host_links.get_column("node_id").drop_nulls()
    marks = as_text("key") == MISSING_PARENT
    solved = marks & pl.col("node_id").is_in(linked_nodes.implode())
    marked = not et.extra_attrs.filter(solved).is_empty()
    et = replace(et, extra_attrs=et.extra_attrs.filter(~solved))
    changed = tuple(node for node, parent in sorted(parents.items()) if before[node] != parent)
    if changed or marked:
        write_lines(path, _lines(et, {**before, **parents}))
    left = tuple(parent.node_id for parent in judged if parent.verdict is Verdict.UNPROVEN)
    return Repair(str(path), len(before), changed, bool(changed or marked), left)


def _judged(linked: LinkedTrace, et: ExecutionTrace) -> list[JudgedParent]:
    return judge_parents(et, linked.timeline, linked.host_tree_by_et, linked.host_links)


def repaired_parents(et: ExecutionTrace, judged: Iterable[JudgedParent]) -> dict[int, int]:
    """The parent of each node but the roots.

    A node gets another parent only where its own is proven wrong: the node of the op that
    called it, else under its thread's root. What is not linked stays where it is; without a parent in the file, a
    node gets its thread's root.

    Args:
        et: the Execution Trace.
        judged: its parents that differ from the nesting in time.
    """
    proven = {parent.node_id: parent.by_time for parent in judged if parent.is_proven}
    roots, process = _roots(et)
    known, all_roots = set(et.nodes.get_column("node_id")), {process, *roots.values()}
    parents = {}
    for node, parent, tid in et.op_nodes.select("node_id", "parent_id", "tid").iter_rows():
        root = roots.get(tid, process)
        if node in proven:
            by_time = proven[node]
            parents[node] = root if by_time is None else by_time
        else:
            parents[node] = root if parent not in known or parent in all_roots else parent
    return parents


def _roots(et: ExecutionTrace) -> tuple[dict[int, int], int]:
    """The root of each logical thread, and the process's."""
    roots = et.nodes.filter("is_root")
    threads = roots.filter(as_text("name").is_in(THREAD_ROOTS))
    process = roots.get_column("node_id").min()
    return dict(threads.select("tid", "node_id").iter_rows()), process if isinstance(process, int) else 1


def _lines(et: ExecutionTrace, parents: dict[int, int | None]) -> Iterator[str]:
    header = header_of(et)
    rest = {key: value for key, value in et.header.items() if key not in header}
    return document(header, _nodes(et, parents), rest)


def _nodes(et: ExecutionTrace, parents: dict[int, int | None]) -> Iterator[str]:
    bodies = Bodies(et)
    for node, name in et.nodes.select("node_id", as_text("name")).iter_rows():
        parent = parents[node]
        head = f'"id": {node}, "name": {as_json(name)}, "ctrl_deps": {node if parent is None else parent}'
        yield f"{{{head}, {bodies.of(node)}}}"
