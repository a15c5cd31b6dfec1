"""`ExecutionTrace`: one rank's ET, as a graph of operator nodes and tensor nodes in tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl
from msgspec import Struct

from tracebraid.errors import ArgumentError
from tracebraid.model import notebook
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.schema import ET_ITERATIONS
from tracebraid.model.stage import Stage
from tracebraid.model.step import PROFILER_STEP

MISSING_PARENT = "tracebraid_missing_parent"
"""The attribute that a capture gives to a node whose parent was never written: the id of that parent."""


class TensorGraph(Struct, frozen=True):
    """Tensor nodes, their uses, and the edges through them.

    Args:
        tensors: tensor nodes, see `model.schema.ET_TENSORS`.
        uses: which node takes or gives which tensor, see `model.schema.ET_TENSOR_USES`.
        edges: producer to consumer, see `model.schema.ET_TENSOR_EDGES`.
    """

    tensors: pl.DataFrame
    uses: pl.DataFrame
    edges: pl.DataFrame


def devices_of(tensors: pl.DataFrame) -> frozenset[str]:
    """The names of the devices that tensors, or their uses, lie on: the column `device`."""
    return frozenset(tensors.get_column("device").unique().drop_nulls().cast(pl.String))


@dataclass(frozen=True)
class ExecutionTrace:
    """One rank's Execution Trace.

    Args:
        path: the file it was read from.
        schema: its version, such as `1.1.1-chakra.0.0.4`.
        rank: the rank in the file's name; None if there is none (the file itself never holds it).
        header: the members of the file beside its nodes: `pid`, `time`, `start_ts` and `finish_ts` (both in ms
            of a steady clock that is not Kineto's).
        nodes: operator nodes, see `model.schema.ET_NODES`.
        values: inputs and outputs, see `model.schema.ET_VALUES`.
        tensor_graph: tensor nodes and the edges through them, computed when first asked for; read them as `tensors`,
            `tensor_uses` and `tensor_edges`.
        tensor_devices: names of the devices that tensors lie on, which need no graph.
        collectives: see `model.schema.ET_COLLECTIVES`.
        extra_attrs: see `model.schema.ET_EXTRA_ATTRS`.
        process_groups: see `model.schema.PROCESS_GROUPS`.
        findings: what was not as it should be, and what was done about it.
        recorder: who wrote it, as far as a manifest or its form shows: `native`, `torch`, or "".
        size_bytes: of the file; None if it was read from none.
    """

    path: str
    schema: str
    rank: int | None
    header: dict[str, object]
    nodes: pl.DataFrame
    values: pl.DataFrame
    tensor_graph: Stage[TensorGraph]
    tensor_devices: Stage[frozenset[str]]
    collectives: pl.DataFrame
    extra_attrs: pl.DataFrame
    process_groups: pl.DataFrame
    findings: tuple[Finding, ...] = field(default=())
    recorder: str = ""
    size_bytes: int | None = None

    def __repr__(self) -> str:
        """Return a short description: values and attributes may hold anything, and are long."""
        what = f"path={self.path!r}, schema={self.schema!r}, rank={self.rank}"
        return f"ExecutionTrace({what}, nodes={self.nodes.height}, findings={len(self.findings)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook; computes nothing."""
        facts = {
            "path": self.path,
            "schema": self.schema,
            "rank": self.rank,
            "recorder": self.recorder or None,
            "nodes": self.nodes.height,
            "values": self.values.height,
            "tensors": self.tensors.height if self.tensor_graph.is_computed else None,
            "process groups": self.process_groups.height,
            "findings": len(self.findings),
        }
        return notebook.shown("Execution Trace", notebook.facts_html(facts))

    @property
    def tensors(self) -> pl.DataFrame:
        """Tensor nodes, see `model.schema.ET_TENSORS`."""
        return self.tensor_graph().tensors

    @property
    def tensor_uses(self) -> pl.DataFrame:
        """Uses of tensors by nodes, see `model.schema.ET_TENSOR_USES`."""
        return self.tensor_graph().uses

    @property
    def tensor_edges(self) -> pl.DataFrame:
        """Producer to consumer, see `model.schema.ET_TENSOR_EDGES`."""
        return self.tensor_graph().edges

    @property
    def op_nodes(self) -> pl.DataFrame:
        """The nodes that stand for operators and annotations: all but the process's and the threads' roots."""
        return self.nodes.filter(~pl.col("is_root"))

    def iterations(self, annotation: str = PROFILER_STEP) -> pl.DataFrame:
        """Its iterations, each from a node whose name contains the annotation to the next: `ET_ITERATIONS`."""
        return _iterations(self, annotation)

    def trimmed(self, iteration: int, annotation: str = PROFILER_STEP) -> ExecutionTrace:
        """One of its iterations alone, by its index from 0, as a trace of its own.

        Raises:
            ArgumentError: there is no such iteration.
        """
        return _trimmed(self, iteration, annotation)


def _iterations(et: ExecutionTrace, annotation: str) -> pl.DataFrame:
    """The table `model.schema.ET_ITERATIONS`: from each node whose name contains the annotation to the next such."""
    marks = et.op_nodes.filter(as_text("name").str.contains(annotation, literal=True))
    # Of annotations inside each other the outer one counts.
    marks = marks.filter(~pl.col("parent_id").is_in(marks.get_column("node_id").implode()).fill_null(False))
    starts = marks.sort("node_id").select(
        pl.int_range(pl.len()).alias("iteration"),
        as_text("name"),
        pl.col("node_id").alias("first_node"),
    )
    nodes = et.op_nodes.select("node_id").sort("node_id")
    within = nodes.join_asof(
        starts.select("iteration", "first_node"), left_on="node_id", right_on="first_node"
    )
    counts = (
        within.drop_nulls("iteration")
        .group_by("iteration")
        .agg(pl.col("node_id").max().alias("last_node"), pl.len().alias("nodes"))
    )
    return ET_ITERATIONS.conform(starts.join(counts, on="iteration", maintain_order="left"))


def _trimmed(et: ExecutionTrace, iteration: int, annotation: str) -> ExecutionTrace:
    """One iteration alone, with the roots of the process and the threads, and what its nodes take and give."""
    found = _iterations(et, annotation)
    if not 0 <= iteration < found.height:
        raise ArgumentError(f"there is no iteration {iteration}; {annotation!r} begins {found.height}")
    first, last = found.select("first_node", "last_node").row(iteration)
    nodes = _under_roots(et.nodes.filter(pl.col("is_root") | pl.col("node_id").is_between(first, last)))
    kept = nodes.get_column("node_id").implode()
    graph = Stage(lambda: _restricted(et.tensor_graph(), kept))
    return replace(
        et,
        nodes=nodes,
        values=et.values.filter(pl.col("node_id").is_in(kept)),
        tensor_graph=graph,
        tensor_devices=Stage(lambda: devices_of(graph().tensors)),
        collectives=et.collectives.filter(pl.col("node_id").is_in(kept)),
        extra_attrs=et.extra_attrs.filter(pl.col("node_id").is_in(kept)),
    )


def _restricted(graph: TensorGraph, kept: pl.Series) -> TensorGraph:
    """Restrict a tensor graph to some nodes; tensors are rows, and are renumbered."""
    uses = graph.uses.filter(pl.col("node_id").is_in(kept))
    tensors = graph.tensors.filter(pl.col("tensor").is_in(uses.get_column("tensor").implode()))
    row = pl.col("tensor").replace_strict(
        tensors.get_column("tensor"), range(tensors.height), return_dtype=pl.Int64
    )
    edges = pl.col("producer").is_in(kept) & pl.col("consumer").is_in(kept)
    return TensorGraph(
        tensors.with_columns(row, pl.when(pl.col("producer").is_in(kept)).then("producer")),
        uses.with_columns(row),
        graph.edges.filter(edges).with_columns(row),
    )


def _under_roots(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes; where a node's parent is not among them, its thread's root becomes its parent."""
    roots = nodes.filter("is_root").group_by("tid").agg(pl.col("node_id").min().alias("root"))
    is_there = (
        pl.col("parent_id").is_in(nodes.get_column("node_id").implode()) | pl.col("parent_id").is_null()
    )
    return (
        nodes.join(roots, on="tid", how="left", maintain_order="left")
        .with_columns(pl.when(is_there).then("parent_id").otherwise("root").alias("parent_id"))
        .drop("root")
    )
