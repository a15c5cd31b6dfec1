"""Export a job to `.et` files in two passes over its ranks: plan all of them, then write each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.time.step_windows import windows_apart
from tracebraid.api.exports.export import Exported, ExportOptions
from tracebraid.api.exports.job_facts import FIRST_PASS
from tracebraid.api.graphing import dependency_graph
from tracebraid.api.job_answers import linked_parts, rank_parts
from tracebraid.chakra.codes import Detail, MissingRanks
from tracebraid.chakra.exporting.export import (
    OtherRank,
    WriteRank,
    WrittenFile,
    beginnings,
    behind_gap,
    left_out,
    steps_of_text,
    write_beside,
)
from tracebraid.chakra.exporting.replay import replayed
from tracebraid.chakra.options import ChakraOptions
from tracebraid.chakra.plan.job_plan import plan_job
from tracebraid.chakra.plan.world import PlanOptions
from tracebraid.errors import AloneError, ArgumentError, InputError
from tracebraid.files import whole_folder
from tracebraid.graph.rank_graph import late_communication
from tracebraid.model.collectives import Division, ranks_of
from tracebraid.model.engine import InProcess, Job
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.simulation.changes.verbs import change_of
from tracebraid.simulation.predicted_job import predicted_job

_ALONE_ADVICE = (
    "Capture the same steps on all ranks with Tracebraid's native recorder, which writes the group of each collective, "
    "or give --allow-alone (allow_alone=True) to export it all the same"
)


def write_chakra(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the job as a Chakra trace: a new folder with `job.<rank>.et`, process groups and facts."""
    wanted = options.chakra or ChakraOptions()
    first = _changed_pass(job, wanted) if wanted.changes else _first_pass(job)
    steps = steps_of_text(wanted.steps, first.steps, job.annotation)
    single_lane = wanted.nodes is Detail.MERGED
    planned = PlanOptions(
        wanted.missing_ranks if first.world_size is None else MissingRanks.REPLICATE,
        wanted.dialect,
        first.world_size or (wanted.world_size and wanted.world_size // ranks_of(first.divisions)),
        steps,
        single_lane,
        first.divisions,
    )
    plan = plan_job(job.path, first.ranks, planned)
    if plan.mostly_alone is not None and not wanted.allow_alone:
        raise AloneError(job.path, plan.mostly_alone, _ALONE_ADVICE)
    with whole_folder(path) as folder:
        begins_ns = beginnings(first.ranks, first.ranks.ranks.select("rank", "start_ns"))
        steps_begin_ns = beginnings(first.ranks, first.starts_of(steps))
        write = WriteRank(
            str(folder.resolve()),
            wanted,
            steps,
            left_out(steps, first.steps),
            plan,
            begins_ns,
            steps_begin_ns,
            first.others,
        )
        files = _second_pass(first, write)
        parts = [file.part for file in files]
        replay = replayed(parts, plan.comm_groups(), single_lane, behind_gap(steps, first.steps))
        write_beside(folder, wanted, plan, files, replay)
    job.add_findings(plan.findings)
    return replace(Exported.of(path, sum(file.nodes for file in files)), replay=replay)


class _First(Struct, frozen=True, eq=False):
    """Facts that are needed before nodes are made.

    Args:
        job: the ranks.
        ranks: the readable ranks, linked with each other.
        windows: the steps of all ranks: `rank`, `step`, `start_ns`.
        only: the only rank, which need not be read again; None: there are several.
        others: ranks that are exported otherwise than they were traced.
        world_size: ranks of the job after a change of their groups; None: there is none.
        divisions: by which each rank becomes several.
    """

    job: Job
    ranks: LinkedRanks
    windows: pl.DataFrame
    only: LinkedTrace | None = None
    others: Mapping[int, OtherRank] = {}
    world_size: int | None = None
    divisions: tuple[Division, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of all steps in order."""
        return tuple(self.windows.get_column("step").unique(maintain_order=True).to_list())

    def starts_of(self, steps: tuple[str, ...] | None) -> pl.DataFrame:
        """The start of the first of some steps on each rank: `rank`, `start_ns`."""
        chosen = self.windows.filter(pl.col("step").is_in(list(steps or ())))
        return chosen.group_by("rank", maintain_order=True).agg(pl.col("start_ns").min())


def _first_pass(job: Job) -> _First:
    alone = len(job.ranks) == 1
    if alone:
        # The only rank is asked here, whatever the engine, and written next: it is not read twice.
        job = dataclasses.replace(job, engine=InProcess())
    found = list(job.with_progress(0.0, FIRST_PASS).each(partial(_facts, alone)))
    windows = pl.concat([each for _, each, _ in found])
    return _First(
        job, linked_parts([parts for parts, _, _ in found]), windows, found[0][2] if alone else None
    )


def _changed_pass(job: Job, wanted: ChakraOptions) -> _First:
    """What changes predict instead."""
    predicted = predicted_job(dependency_graph(job), [change_of(each) for each in wanted.changes])
    size, asked, each = predicted.world_size, wanted.world_size, ranks_of(predicted.divisions)
    if asked is not None and asked % each:
        raise ArgumentError(
            f"the changes make {each} ranks of each: --world-size {asked} is no multiple of it"
        )
    if size is not None and asked not in (None, size * each):
        raise ArgumentError(
            f"the changes make a job of {size * each} ranks, which is not --world-size {asked}"
        )
    if size is not None and wanted.missing_ranks is MissingRanks.SHRINK:
        raise ArgumentError(
            f"the changes make a job of {size * each} ranks, and --missing shrink leaves out those without a trace"
        )
    # The predicted ranks are in this process.
    return _First(
        dataclasses.replace(job, engine=InProcess()),
        predicted.ranks,
        predicted.starts,
        others=predicted.of_rank,
        world_size=size,
        divisions=predicted.divisions,
    )


def _facts(keeps: bool, linked: LinkedTrace) -> tuple[RankParts, pl.DataFrame, LinkedTrace | None]:
    rank = pl.lit(linked.rank, dtype=pl.Int64).alias("rank")
    windows = windows_apart(linked).select(rank, "step", "start_ns")
    return planned_parts(linked), windows, linked if keeps else None


def planned_parts(linked: LinkedTrace) -> RankParts:
    """Return the parts of a rank for a plan.

    Communication ends as in the rank's graph, from which nodes are made.
    """
    parts = rank_parts(linked)
    late = late_communication(linked)
    if late.is_empty():
        return parts
    members = parts.members.join(late, on="event_id", how="left", maintain_order="left", suffix="_earlier")
    ends = members.with_columns(pl.coalesce("end_ns_earlier", "end_ns").alias("end_ns"))
    return replace(parts, members=ends.drop("end_ns_earlier"))


def _second_pass(first: _First, write: WriteRank) -> list[WrittenFile]:
    """Write the files; return them by rank."""
    job = first.job
    second = job.with_progress(FIRST_PASS, 1.0)
    written = list(second.each(write)) if first.only is None else [write(first.only)]
    for rank in written:
        if rank.nothing is not None:
            raise rank.nothing
        job.add_findings(rank.findings)
    files = sorted((file for rank in written for file in rank.files), key=lambda file: file.rank)
    lost = {rank.rank for rank in write.plan.ranks} - {file.rank for file in files}
    if lost:
        raise _lost(job, write.plan.ranks[min(lost)].source)
    return files


def _lost(job: Job, rank: int) -> InputError:
    """Explain why a readable rank has no file: its nodes need more of its files than its plan."""
    for finding in job.findings:
        if finding.code is FindingCode.RANK_UNREADABLE and finding.details.get("rank") == rank:
            advice = f"Mend that file, or leave rank {rank} out, as with --ranks"
            return InputError(finding.path, str(finding.details["problem"]), advice, finding.where)
    return InputError(job.path, f"rank {rank} could not be read a second time", "Export again")
