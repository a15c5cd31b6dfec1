"""`ExecutionTrace`: one rank's ET, as a graph of operator nodes and tensor nodes in tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracebraid.model import et_iterations, notebook
from tracebraid.model.finding import Finding
from tracebraid.model.stage import Stage
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.tensor_graph import TensorGraph

__all__ = ["MISSING_PARENT", "ExecutionTrace"]

MISSING_PARENT = "tracebraid_missing_parent"
"""The attribute that a capture gives to a node whose parent was never written: the id of that parent."""


@dataclass(frozen=True)
class ExecutionTrace:
    """One rank's Execution Trace.

    Args:
        path: the file it was read from.
        schema: its version, such as `1.1.1-chakra.0.0.4`.
        rank: the rank in the file's name; None where there is none (the file itself never holds it).
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
        size_bytes: of the file; None where it was read from none.
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
        """What it is, in brief: values and attributes may hold anything, and are long."""
        what = f"path={self.path!r}, schema={self.schema!r}, rank={self.rank}"
        return f"ExecutionTrace({what}, nodes={self.nodes.height}, findings={len(self.findings)})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook; computes nothing."""
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
        """Which node takes or gives which tensor, see `model.schema.ET_TENSOR_USES`."""
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
        return et_iterations.iterations(self, annotation)

    def trimmed(self, iteration: int, annotation: str = PROFILER_STEP) -> ExecutionTrace:
        """One of its iterations alone, by its index from 0, as a trace of its own.

        Raises:
            ArgumentError: there is no such iteration.
        """
        return et_iterations.trimmed(self, iteration, annotation)
