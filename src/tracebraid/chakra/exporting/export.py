"""Write the ranks of a job as `.et` files, and what goes with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.efficiency.counted_ops import costs_of_ops
from tracebraid.chakra.codes import Dialect, NodeType
from tracebraid.chakra.exporting.astra_sim import SimulatorTraces, for_astra_sim, write_simulator_files
from tracebraid.chakra.exporting.rank_nodes import rank_nodes, with_costs
from tracebraid.chakra.exporting.reduction import (
    Beginning,
    beginning_of_steps,
    begun,
    in_chosen_steps,
    repeated,
)
from tracebraid.chakra.exporting.replay import ChakraReplay, ReplayPart, replay_part
from tracebraid.chakra.exporting.stages import as_stage
from tracebraid.chakra.job_files import COMM_GROUPS
from tracebraid.chakra.options import ChakraOptions
from tracebraid.chakra.plan.world import JobPlan, PlannedRank
from tracebraid.chakra.schema import AttributeValue, ChakraRank
from tracebraid.chakra.wire.writing import write
from tracebraid.errors import ArgumentError, InputError, OutputError
from tracebraid.files import write_whole
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.graph import RankGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.pipeline import PipelineWork
from tracebraid.model.quantities import number_ranges
from tracebraid.model.step import some_steps
from tracebraid.version import __version__

_NUMBERS = re.compile(r"[\d\s,.-]*")
_NUMBER_OF_STEP = re.compile(r".*#(\d{1,18})")


def steps_of_text(text: str | None, seen: Sequence[str], annotation: str) -> tuple[str, ...] | None:
    """Return the names of the selected steps in order; None: no selection."""
    if text is None:
        return None
    have = some_steps(seen) or f"none: no annotation {annotation}"
    if _NUMBERS.fullmatch(text):
        ranges = number_ranges(text.replace("..", "-"), "steps")
        number_of = {name: int(found[1]) for name in seen if (found := _NUMBER_OF_STEP.fullmatch(name))}
        chosen = [
            name for name in seen if name in number_of and any(number_of[name] in each for each in ranges)
        ]
        known = set(number_of.values())
        lacking = [each for each in ranges if not any(number in each for number in known)]
        wrong = f"{lacking[0].start}" if lacking else ""
    else:
        names = [part.strip() for part in text.split(",")]
        chosen = [name for name in seen if name in names]
        wrong = next((name for name in names if name not in seen), "")
    if wrong or not chosen:
        raise ArgumentError(f"there is no step {wrong or text}; there are: {have}")
    return tuple(chosen)


def behind_gap(chosen: Sequence[str] | None, seen: Sequence[str]) -> frozenset[str]:
    """Return the selected steps behind others that are not selected, but for those before all of them."""
    if chosen is None:
        return frozenset()
    first = seen.index(chosen[0])
    together = [name for name, own in zip(chosen, seen[first:], strict=False) if name == own]
    return frozenset(chosen[len(together) :])


def left_out(chosen: Sequence[str] | None, seen: Sequence[str]) -> frozenset[str]:
    """Return the steps between the selected ones that are not selected."""
    if chosen is None:
        return frozenset()
    return frozenset(seen[seen.index(chosen[0]) : seen.index(chosen[-1])]) - frozenset(chosen)


PREFIX = "job"
"""Prefix of the file names: `job.0.et`."""


class WrittenFile(Struct, frozen=True):
    """A file that was written.

    Args:
        rank: the simulated rank.
        nodes: the number of nodes.
        dependencies: the number of dependencies.
        by_kind: nodes and time in ns by kind.
        part: its part of a replay, without repeats.
    """

    rank: int
    nodes: int
    dependencies: int
    by_kind: Mapping[str, tuple[int, int]]
    part: ReplayPart


class WrittenRank(Struct, frozen=True):
    """Result of writing a rank's trace.

    Args:
        files: the files.
        findings: the findings.
        nothing: the reason if there is no file; else None.
    """

    files: tuple[WrittenFile, ...]
    findings: tuple[Finding, ...]
    nothing: InputError | None = None


_PEERS = ("comm_src", "comm_dst", "comm_tag", "pg_name")
"""Columns of communication, and of its nodes, that say with whom a rank communicates."""


class _Built(Struct, frozen=True, eq=False):
    """Nodes of a rank that others replicate, and its communication without `_PEERS`."""

    communication: pl.DataFrame
    rank: ChakraRank


def _without_peers(communication: pl.DataFrame) -> pl.DataFrame:
    """What nodes depend on, except the peers; the order among all ranks becomes that within this one."""
    return communication.drop(_PEERS).with_columns(pl.col("order").rank("dense"))


def _with_peers(nodes: pl.DataFrame, communication: pl.DataFrame) -> pl.DataFrame:
    """Give the nodes of communication the peers of their events, each of which is in one row."""
    communicates = pl.col("type") != NodeType.COMP_NODE.name
    rows = nodes.select(pl.when(communicates).then("event_id").alias("event_id"))
    peers = rows.join(
        communication.select("event_id", *_PEERS), on="event_id", how="left", maintain_order="left"
    )
    return nodes.with_columns(peers.select(_PEERS).get_columns())


class OtherRank(Protocol):
    """A rank that is exported otherwise than it was traced."""

    @property
    def pipeline(self) -> PipelineWork | None:
        """What of its work each stage of a pipeline does; None: it becomes none."""

    def graph(self, part: RankGraph) -> RankGraph:
        """Its graph, from that of its traces."""

    def costs(self, costs: pl.DataFrame) -> pl.DataFrame:
        """Its FLOPs and bytes, from `costs_of_ops` of its traces."""


class WriteRank(Struct, frozen=True, eq=False):
    """Question that writes a rank's files.

    Args:
        folder: absolute path of the files.
        options: which parts of the rank become nodes.
        steps: names of the selected steps; None: all of the trace.
        left_out: names of the others that lie between them.
        plan: the plan of the job.
        begins_ns: start of the simulation of all of the trace by rank, on its own clock.
        steps_begin_ns: likewise of the selected steps.
        others: ranks that are exported otherwise than they were traced.
    """

    folder: str
    options: ChakraOptions
    steps: tuple[str, ...] | None
    left_out: frozenset[str]
    plan: JobPlan
    begins_ns: Mapping[int, int]
    steps_begin_ns: Mapping[int, int]
    others: Mapping[int, OtherRank] = {}

    def __call__(self, linked: LinkedTrace) -> WrittenRank:
        """Write the files; a readable rank with nothing to simulate gives an answer without files."""
        graph, costs = rank_graph(linked), costs_of_ops(linked)
        if (other := self.others.get(linked.rank)) is not None:
            graph, costs = other.graph(graph), other.costs(costs)
        files: list[WrittenFile] = []
        findings: dict[Finding, None] = {}
        built: list[_Built] = []
        pipeline = None if other is None else other.pipeline
        for planned in self.plan.of_source(linked.rank):
            rank, beginning = self._nodes(graph, costs, planned, built, pipeline)
            if not rank.nodes.height:
                return WrittenRank((), (), _nothing(linked, self.steps))
            again = repeated(rank, self.options.repeat)
            if beginning is not None:
                rank, again = begun(rank, beginning), begun(again, beginning)
            _write(Path(self.folder) / f"{PREFIX}.{planned.rank}.et", again)
            files.append(
                _written(again, replay_part(rank, None if beginning is None else beginning.begins_ns))
            )
            located = (
                replace(finding, path=finding.path or linked.timeline.path) for finding in rank.findings
            )
            findings |= dict.fromkeys(located)
        return WrittenRank(tuple(files), tuple(findings))

    def _nodes(
        self,
        graph: RankGraph,
        costs: pl.DataFrame,
        planned: PlannedRank,
        built: list[_Built],
        pipeline: PipelineWork | None,
    ) -> tuple[ChakraRank, Beginning | None]:
        """The nodes of a rank, and what lies before the selected steps; replicas of a rank differ in their peers."""
        communication = self.plan.communication_of(planned.rank)
        begins_ns = self.begins_ns.get(planned.source)
        alike = _without_peers(communication)
        rank = next((each.rank for each in built if each.communication.equals(alike)), None)
        if rank is None:
            borders_ns = () if pipeline is None else pipeline.starts_ns[1:]
            rank = rank_nodes(graph, communication, self.options.nodes, begins_ns, borders_ns)
            rank = replace(rank, nodes=with_costs(rank.nodes, graph, costs))
            if not communication.get_column("event_id").is_duplicated().any():
                built.append(_Built(alike, rank))
        else:
            rank = replace(rank, nodes=_with_peers(rank.nodes, communication))
        rank = replace(rank, rank=planned.rank, attributes=(*self._attributes(planned), *rank.attributes))
        if pipeline is not None:
            chosen = rank if self.steps is None else in_chosen_steps(rank, self.steps, self.left_out)
            rank = as_stage(chosen, graph, pipeline, planned.pipeline)
        if self.options.dialect is Dialect.ASTRA_SIM:
            rank = for_astra_sim(rank)
        if self.steps is None or pipeline is not None:
            return rank, None
        begins_ns = self.steps_begin_ns.get(planned.source)
        beginning = (
            None if begins_ns is None else beginning_of_steps(rank, self.steps, begins_ns, self.left_out)
        )
        return in_chosen_steps(rank, self.steps, self.left_out), beginning

    def _attributes(self, planned: PlannedRank) -> tuple[tuple[str, AttributeValue], ...]:
        return (
            ("exporter", f"tracebraid {__version__}"),
            ("detail", self.options.nodes.value),
            ("rank", planned.rank),
            ("world_rank", planned.world_rank),
            ("source_rank", planned.source),
            *self.plan.attributes(),
        )


def _write(path: Path, rank: ChakraRank) -> None:
    """Write a file; invalid nodes are a bug of the export, not wrong usage."""
    try:
        write(path, rank)
    except ArgumentError as error:
        advice = "This is a fault of Tracebraid: please report it, with the trace if you can"
        raise OutputError(str(path), str(error), advice) from error


def _written(rank: ChakraRank, part: ReplayPart) -> WrittenFile:
    kinds = (
        rank.nodes.group_by(as_text("kind"))
        .agg(pl.len().alias("nodes"), pl.col("duration_ns").sum())
        .sort("kind")
    )
    by_kind = {kind or "unknown": (nodes, lasts_ns) for kind, nodes, lasts_ns in kinds.iter_rows()}
    return WrittenFile(rank.rank, rank.nodes.height, len(rank.data_deps), by_kind, part)


def _nothing(linked: LinkedTrace, steps: tuple[str, ...] | None) -> InputError:
    where = "no thread and no device does anything in it" if steps is None else "it has none of these steps"
    return InputError(
        linked.timeline.path,
        f"rank {linked.rank} has nothing to simulate: {where}",
        "Drop it, or select other steps",
    )


EXPORT_FACTS = "export.json"
"""Name of the facts file: ranks, groups, mappings, and the nodes of each file by kind."""
SIMULATOR_FOLDER = "astra-sim"
"""Name of the folder of ASTRA-sim's own files."""


def beginnings(ranks: LinkedRanks, starts: pl.DataFrame) -> Mapping[int, int]:
    """Return the earliest of some starts of all ranks, on each rank's own clock.

    Args:
        ranks: the ranks.
        starts: `rank`, `start_ns`.
    """
    own = starts.drop_nulls()
    aligned = ranks.aligned(own, "start_ns").get_column("start_ns")
    earliest = aligned.min()
    begins = own.with_columns((pl.col("start_ns") - (aligned - earliest)).alias("begins_ns"))
    return dict(begins.select("rank", "begins_ns").iter_rows())


def write_beside(
    folder: Path, wanted: ChakraOptions, plan: JobPlan, files: Sequence[WrittenFile], replay: ChakraReplay
) -> None:
    """Write the process groups, the facts of the export, and the simulator's files."""
    groups = plan.comm_groups()
    _write_json(folder / COMM_GROUPS, groups)
    facts = {
        "format": "chakra",
        "written_by": f"tracebraid {__version__}",
        "detail": wanted.nodes.value,
        "steps": wanted.steps,
        "repeat": wanted.repeat,
        "changes": list(wanted.changes),
        **plan.facts(),
        "replay": replay.facts(),
        "files": [_file_facts(file) for file in files],
    }
    _write_json(folder / EXPORT_FACTS, facts)
    simulator = wanted.simulator_options
    if simulator is None:
        return
    own = folder / SIMULATOR_FOLDER
    own.mkdir()
    traces = SimulatorTraces(len(files), f"../{PREFIX}", f"../{COMM_GROUPS}" if groups else None)
    write_simulator_files(own, traces, simulator)


def _file_facts(file: WrittenFile) -> dict[str, object]:
    kinds = {kind: {"nodes": nodes, "ns": lasts_ns} for kind, (nodes, lasts_ns) in file.by_kind.items()}
    return {
        "rank": file.rank,
        "file": f"{PREFIX}.{file.rank}.et",
        "nodes": file.nodes,
        "dependencies": file.dependencies,
        "kinds": kinds,
    }


def _write_json(path: Path, content: object) -> None:
    write_whole(path, [json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"], overwrite=False)
