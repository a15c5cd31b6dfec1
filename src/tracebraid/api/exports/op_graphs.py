"""Graphs of ops for graph tools: as DOT and as GraphML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import polars as pl

from tracebraid.analysis.op_graph.op_graph import OpGraph, op_graph
from tracebraid.analysis.op_graph.part import near, top
from tracebraid.api.exports.asking import ask_in_step
from tracebraid.api.exports.options import Exported, ExportOptions
from tracebraid.errors import ArgumentError, InputError
from tracebraid.exporters.op_graphs.dot import dot_lines
from tracebraid.exporters.op_graphs.graphml import graphml_lines
from tracebraid.files import write_whole
from tracebraid.model.answers import OP_GRAPH_EDGES, OP_GRAPH_NODES
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["MOST_NODES", "write_dot", "write_graphml"]

MOST_NODES = 50_000
"""Nodes of a graph that is written, over all ranks: tools that lay graphs out take minutes for a tenth of them."""


def write_dot(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the graph of ops in DOT.

    Args:
        job: the ranks.
        path: the new file; compressed where it ends in `.gz`.
        options: what is exported.

    Returns:
        Its rows are nodes.

    Raises:
        ArgumentError: there is no such rank, step or op, or there are more nodes than `MOST_NODES`.
        InputError: no rank can be read, or there is no op.
        OutputError: the file is there, or cannot be written.
    """
    return _write(job, path, options, dot_lines)


def write_graphml(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the graph of ops in GraphML; see `write_dot`."""
    return _write(job, path, options, graphml_lines)


def _write(
    job: Job,
    path: Path,
    options: ExportOptions,
    lines: Callable[[pl.DataFrame, pl.DataFrame], Iterator[bytes]],
) -> Exported:
    findings: list[Finding] = []
    graph = _graph(job, options, findings)
    write_whole(path, lines(graph.nodes, graph.edges), overwrite=False)
    return Exported.of(path, graph.nodes.height, tuple(findings))


def _graph(job: Job, options: ExportOptions, findings: list[Finding]) -> OpGraph:
    """The graph of all ranks that are asked for, or the part of it.

    Raises:
        ArgumentError: there is no such op, or there are too many nodes.
        InputError: there is no op.
    """
    nodes, edges = [OP_GRAPH_NODES.empty()], [OP_GRAPH_EDGES.empty()]
    count = 0

    for of_rank, graph in ask_in_step(job, options, partial(_of_rank, options), findings):
        count += of_rank
        if graph is None or count > MOST_NODES:
            raise ArgumentError(
                f"the graph has more than {MOST_NODES:,} nodes: export a part of it, by the rank, a step, the ops that "
                f"take the most time (--top K), or what is near an op (--near NAME)"
            )
        nodes.append(graph.nodes)
        edges.append(graph.edges)
    if count == 0 and options.near is not None:
        raise ArgumentError(f"there is no op, annotation or device event of the name {options.near!r}")
    if count == 0:
        raise InputError(job.path, "there is no op", "Capture with ProfilerActivity.CPU")
    return OpGraph(pl.concat(nodes), pl.concat(edges))


def _of_rank(options: ExportOptions, linked: LinkedTrace, step: str | None) -> tuple[int, OpGraph | None]:
    """How many nodes a rank has, and its graph, where one of so many may be written."""
    graph = _part(op_graph(linked, options.annotation, step), options)
    return graph.nodes.height, graph if graph.nodes.height <= MOST_NODES else None


def _part(graph: OpGraph, options: ExportOptions) -> OpGraph:
    if options.near is not None:
        graph = near(graph, options.near)
    return graph if options.top is None else top(graph, options.top)
