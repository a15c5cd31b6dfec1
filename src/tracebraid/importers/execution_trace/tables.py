"""What was read of an Execution Trace, of whatever form, as an `ExecutionTrace`."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.importers.discovery.rank import rank_from_name
from tracebraid.importers.execution_trace.node_tree import last_inside, tidy_nodes
from tracebraid.importers.execution_trace.tensor_graph import tensor_graph
from tracebraid.importers.execution_trace.tensors import devices_of_values, tensor_uses
from tracebraid.importers.process_groups import groups_of_text
from tracebraid.model.et_names import PROCESS_GROUP_INIT
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.schema import PROCESS_GROUPS
from tracebraid.model.stage import Stage
from tracebraid.model.tensor_graph import TensorGraph, devices_of

__all__ = ["KNOWN_SCHEMAS", "Recorded", "assemble"]

KNOWN_SCHEMAS = (
    "1.0.1",
    "1.0.2-chakra.0.0.4",
    "1.0.3-chakra.0.0.4",
    "1.0.4-chakra.0.0.4",
    "1.1.0-chakra.0.0.4",
    "1.1.1-chakra.0.0.4",
)


@dataclass(frozen=True)
class Recorded:
    """The tables of an Execution Trace as the file has them.

    Args:
        path: the file.
        header: its members beside the nodes.
        nodes: the table `nodes`, each id once; `is_root` is null.
        values: the table `values`.
        collectives: the table `collectives`.
        extra_attrs: the table `extra_attrs`.
        uses: see `model.et_arrow.RECORDED_TENSOR_USES`; None where they are to be found in `values`.
        repeated: ids of nodes that were left out because an earlier node has that id.
        findings: what could not be read as it stood.
    """

    path: str
    header: dict[str, object]
    nodes: pl.DataFrame
    values: pl.DataFrame
    collectives: pl.DataFrame
    extra_attrs: pl.DataFrame
    uses: pl.DataFrame | None = None
    repeated: tuple[int, ...] = ()
    findings: tuple[Finding, ...] = ()


def assemble(recorded: Recorded) -> ExecutionTrace:
    """Put the tree of nodes in order. Tensors are followed from node to node when they are asked for."""
    path, schema = recorded.path, str(recorded.header.get("schema", ""))
    findings = list(recorded.findings)
    if schema not in KNOWN_SCHEMAS:
        findings.append(Finding.of(FindingCode.SCHEMA_UNKNOWN, path, schema=schema))
    nodes, tree_findings = tidy_nodes(recorded.nodes, list(recorded.repeated), path)
    values, uses = recorded.values, recorded.uses

    def graph() -> TensorGraph:
        return tensor_graph(nodes, tensor_uses(values) if uses is None else uses, last_inside(nodes))

    def devices() -> frozenset[str]:
        return devices_of_values(values) if uses is None else devices_of(uses)

    return ExecutionTrace(
        path=path,
        schema=schema,
        rank=rank_from_name(path),
        header=recorded.header,
        nodes=nodes,
        values=recorded.values,
        tensor_graph=Stage(graph),
        tensor_devices=Stage(devices),
        collectives=recorded.collectives,
        extra_attrs=recorded.extra_attrs,
        process_groups=_process_groups(nodes, recorded.values),
        findings=(*findings, *tree_findings),
    )


def _process_groups(nodes: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """The groups of the last `process_group:init` node: its list holds all groups so far."""
    inits = nodes.filter(as_text("name") == PROCESS_GROUP_INIT).get_column("node_id")
    if inits.is_empty():
        return PROCESS_GROUPS.empty()
    texts = values.filter(pl.col("node_id").is_in(inits.implode()) & ~pl.col("is_output")).get_column("value")
    if texts.is_empty():
        return PROCESS_GROUPS.empty()
    return groups_of_text(str(texts.cast(pl.String).to_list()[-1]))
