"""One rank of a job as `.et` files: its own, and those of ranks that replicate it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from tracebraid.analysis.efficiency.costs_of_ops import costs_of_ops
from tracebraid.api.exports.chakra_options import ChakraOptions
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.errors import InputError
from tracebraid.exporters.chakra.astra_sim_nodes import for_astra_sim
from tracebraid.exporters.chakra.chosen_steps import in_chosen_steps
from tracebraid.exporters.chakra.costs import with_costs
from tracebraid.exporters.chakra.nodes.rank_nodes import rank_nodes
from tracebraid.exporters.chakra.repeating import repeated
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.chakra.chakra_rank import AttributeValue, ChakraRank
from tracebraid.model.chakra.codes import Dialect
from tracebraid.model.chakra.job_plan import JobPlan, PlannedRank
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.version import __version__

__all__ = ["PREFIX", "WriteRank", "WrittenFile", "WrittenRank"]

PREFIX = "job"
"""How the names of the files begin: `job.0.et`."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written.

    Args:
        rank: the simulated rank.
        nodes: how many nodes it has.
        dependencies: of its nodes.
        by_kind: nodes by their kind, and their time in ns.
    """

    rank: int
    nodes: int
    dependencies: int
    by_kind: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class WrittenRank:
    """What was written of a rank's trace.

    Args:
        files: the files.
        findings: what was noticed.
        nothing: why there is no file; None: there are files.
    """

    files: tuple[WrittenFile, ...]
    findings: tuple[Finding, ...]
    nothing: InputError | None = None


@dataclass(frozen=True, eq=False)
class WriteRank:
    """The question that writes a rank's files.

    Args:
        folder: an absolute path, where the files go.
        options: what of the rank becomes nodes.
        annotation: what marks a step.
        steps: names of the chosen steps; None: all of the trace.
        plan: of the job.
        begins_ns: by rank, when the simulation begins, on its own clock.
    """

    folder: str
    options: ChakraOptions
    annotation: str
    steps: tuple[str, ...] | None
    plan: JobPlan
    begins_ns: Mapping[int, int]

    def __call__(self, linked: LinkedTrace) -> WrittenRank:
        """Write the files; a rank with nothing to simulate says so in the answer, since it can be read."""
        graph, costs = rank_graph(linked, self.annotation), costs_of_ops(linked)
        files: list[WrittenFile] = []
        findings: dict[Finding, None] = {}
        for planned in self.plan.of_source(linked.rank):
            rank = self._nodes(graph, costs, planned)
            if not rank.nodes.height:
                return WrittenRank((), (), _nothing(linked, self.steps))
            write_rank(Path(self.folder) / f"{PREFIX}.{planned.rank}.et", rank)
            files.append(_written(rank))
            located = (
                replace(finding, path=finding.path or linked.timeline.path) for finding in rank.findings
            )
            findings |= dict.fromkeys(located)
        return WrittenRank(tuple(files), tuple(findings))

    def _nodes(self, graph: RankGraph, costs: pl.DataFrame, planned: PlannedRank) -> ChakraRank:
        communication = self.plan.communication_of(planned.rank)
        begins_ns = self.begins_ns.get(planned.source)
        rank = rank_nodes(graph, communication, self.options.nodes, begins_ns)
        rank = replace(rank, rank=planned.rank, attributes=(*self._attributes(planned), *rank.attributes))
        rank = replace(rank, nodes=with_costs(rank.nodes, graph, costs))
        if self.options.dialect is Dialect.ASTRA_SIM:
            rank = for_astra_sim(rank)
        if self.steps is not None:
            rank = in_chosen_steps(rank, self.steps)
        return repeated(rank, self.options.repeat)

    def _attributes(self, planned: PlannedRank) -> tuple[tuple[str, AttributeValue], ...]:
        return (
            ("exporter", f"tracebraid {__version__}"),
            ("detail", self.options.nodes.value),
            ("rank", planned.rank),
            ("world_rank", planned.world_rank),
            ("source_rank", planned.source),
            *self.plan.attributes(),
        )


def _written(rank: ChakraRank) -> WrittenFile:
    kinds = (
        rank.nodes.group_by(as_text("kind"))
        .agg(pl.len().alias("nodes"), pl.col("duration_ns").sum())
        .sort("kind")
    )
    by_kind = {kind or "unknown": (nodes, lasts_ns) for kind, nodes, lasts_ns in kinds.iter_rows()}
    return WrittenFile(rank.rank, rank.nodes.height, len(rank.data_deps), by_kind)


def _nothing(linked: LinkedTrace, steps: tuple[str, ...] | None) -> InputError:
    where = "no thread and no device does anything in it" if steps is None else "it has none of these steps"
    return InputError(
        linked.timeline.path,
        f"rank {linked.rank} has nothing to simulate: {where}",
        "Leave it out, or choose other steps",
    )
