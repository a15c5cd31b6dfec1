"""A job as a Chakra trace that simulators run: an `.et` file for each rank, and what goes with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.api.chakra.generating import COMM_GROUPS
from tracebraid.api.chakra.planning import plan_of_ranks
from tracebraid.api.exports.chakra_options import ChakraOptions
from tracebraid.api.exports.chakra_rank import PREFIX, WriteRank, WrittenFile
from tracebraid.api.exports.chakra_steps import steps_of_text
from tracebraid.api.exports.job_facts import FIRST_PASS
from tracebraid.api.exports.options import Exported, ExportOptions, ask_each
from tracebraid.api.job.aligning import linked_parts, rank_parts
from tracebraid.api.job.readable_ranks import UNREADABLE
from tracebraid.errors import InputError
from tracebraid.exporters.chakra.astra_sim import RUN_SCRIPT, SimulatorTraces, write_simulator_files
from tracebraid.files import whole_folder, write_whole
from tracebraid.model.chakra.job_plan import JobPlan, PlanOptions
from tracebraid.model.engine import InProcess
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.version import __version__

__all__ = ["EXPORT_FACTS", "RUN_SCRIPT", "SIMULATOR_FOLDER", "write_chakra"]

EXPORT_FACTS = "export.json"
"""What is what: ranks, groups, what was mapped, and the nodes of each file by kind."""
SIMULATOR_FOLDER = "astra-sim"
"""The folder of ASTRA-sim's own files."""


def write_chakra(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the job as a Chakra trace: a new folder with `job.<rank>.et`, process groups and facts.

    Args:
        job: the ranks.
        path: the new folder.
        options: what is exported; its `chakra` says how.

    Returns:
        Its rows are nodes.

    Raises:
        ArgumentError: there is no such step.
        InputError: no rank can be read, ranks of the world are missing and may not be, or there is nothing to simulate.
        OutputError: the folder is there, or cannot be written.
        MissingLibraryError: protobuf or numba is not installed.
    """
    wanted = options.chakra or ChakraOptions()
    findings: list[Finding] = []
    first = _first_pass(job, options, findings)
    steps = steps_of_text(wanted.steps, first.steps, options.annotation)
    planned = PlanOptions(wanted.missing, wanted.dialect, wanted.world_size, steps=steps)
    plan = plan_of_ranks(job.path, first.ranks, planned)
    with whole_folder(path) as folder:
        write = WriteRank(
            str(folder.resolve()), wanted, options.annotation, steps, plan, _beginnings(first.ranks)
        )
        files = _second_pass(first, options, write, findings)
        _write_beside(folder, wanted, plan, files)
    return Exported.of(
        path, sum(file.nodes for file in files), tuple(dict.fromkeys((*findings, *plan.findings)))
    )


@dataclass(frozen=True, eq=False)
class _First:
    """What is known before nodes are made.

    Args:
        job: the ranks.
        ranks: those that can be read, linked with each other.
        steps: the names of all steps, in their order.
        only: the only rank, where there is no other: it need not be read again.
    """

    job: Job
    ranks: LinkedRanks
    steps: tuple[str, ...]
    only: LinkedTrace | None


def _first_pass(job: Job, options: ExportOptions, findings: list[Finding]) -> _First:
    progress = options.progress
    half = replace(options, progress=None if progress is None else lambda done: progress(done * FIRST_PASS))
    alone = len(job.ranks) == 1
    if alone:
        # The only rank is asked here, whatever the engine, and written next: it is not read twice.
        job = replace(job, engine=InProcess())
    found = list(ask_each(job, half, partial(_facts, options.annotation, alone), findings))
    steps = tuple(dict.fromkeys(name for _, names, _ in found for name in names))
    return _First(job, linked_parts([parts for parts, _, _ in found]), steps, found[0][2] if alone else None)


def _facts(
    annotation: str, keeps: bool, linked: LinkedTrace
) -> tuple[RankParts, tuple[str, ...], LinkedTrace | None]:
    names = tuple(step_windows(linked, annotation).get_column("step").to_list())
    return rank_parts(linked, annotation), names, linked if keeps else None


def _second_pass(
    first: _First, options: ExportOptions, write: WriteRank, findings: list[Finding]
) -> list[WrittenFile]:
    """The files, by rank.

    Raises:
        InputError: a rank has nothing to simulate, or not all of it can be read.
    """
    if first.only is not None:
        written = [write(first.only)]
    else:
        progress = options.progress
        rest = replace(
            options,
            progress=None
            if progress is None
            else lambda done: progress(FIRST_PASS + done * (1 - FIRST_PASS)),
        )
        written = list(ask_each(first.job, rest, write, findings))
    for rank in written:
        if rank.nothing is not None:
            raise rank.nothing
        findings += rank.findings
    files = sorted((file for rank in written for file in rank.files), key=lambda file: file.rank)
    lost = {rank.rank for rank in write.plan.ranks} - {file.rank for file in files}
    if lost:
        raise _lost(first.job, write.plan.ranks[min(lost)].source, findings)
    return files


def _lost(job: Job, rank: int, findings: Sequence[Finding]) -> InputError:
    """Why a rank has no file though it could be read before: its nodes need more of its files than its plan."""
    for finding in findings:
        if finding.code is UNREADABLE and finding.details.get("rank") == rank:
            advice = f"Mend that file, or leave rank {rank} out, as with --ranks"
            return InputError(finding.path, str(finding.details["problem"]), advice, finding.where)
    return InputError(job.path, f"rank {rank} could not be read a second time", "Export again")


def _beginnings(ranks: LinkedRanks) -> Mapping[int, int]:
    """When the first event of all ranks is, on the own clock of each."""
    own = ranks.ranks.select("rank", "start_ns").drop_nulls()
    aligned = ranks.aligned(own, "start_ns").get_column("start_ns")
    earliest = aligned.min()
    begins = own.with_columns((pl.col("start_ns") - (aligned - earliest)).alias("begins_ns"))
    return dict(begins.select("rank", "begins_ns").iter_rows())


def _write_beside(folder: Path, wanted: ChakraOptions, plan: JobPlan, files: Sequence[WrittenFile]) -> None:
    groups = plan.comm_groups()
    _write_json(folder / COMM_GROUPS, groups)
    facts = {
        "format": "chakra",
        "written_by": f"tracebraid {__version__}",
        "detail": wanted.nodes.value,
        "steps": wanted.steps,
        "repeat": wanted.repeat,
        **plan.facts(),
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
