"""Checks of captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from tracebraid.api.job.aligning import rank_parts
from tracebraid.api.judging import judge, link_and_judge
from tracebraid.api.stored_jobs import is_store, open_store
from tracebraid.api.traces import Progress, ReadAndLink, link
from tracebraid.errors import InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Entry, Kind
from tracebraid.filesystem.paths import shown
from tracebraid.importers.discovery.capture_folder import manifests_of, size_beside, windows_of
from tracebraid.importers.discovery.discover import find_rank_files
from tracebraid.importers.discovery.sniff import is_candidate
from tracebraid.importers.trace import read_trace
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.check import Check, CheckedRank, Severity
from tracebraid.model.engine import InProcess
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.job import Load
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.process import process_of_et, process_of_timeline
from tracebraid.model.rank_files import RankFiles
from tracebraid.store.findings import findings_of
from tracebraid.store.layout import CAPTURE
from tracebraid.store.manifest import CaptureFacts
from tracebraid.store.opening import read_manifest
from tracebraid.store.sealed_json import read_sealed
from tracebraid.store.verifying import damage
from tracebraid.validation.advice import diagnose, diagnosis_of
from tracebraid.validation.clocks import clock_findings
from tracebraid.validation.consequences import without_consequences
from tracebraid.validation.identity import et_findings, recording_findings
from tracebraid.validation.manifest import leftover_findings, manifest_findings
from tracebraid.validation.processes import (
    RankProcesses,
    located_findings,
    manifest_process_findings,
    run_findings,
)
from tracebraid.validation.ranks import rank_findings
from tracebraid.validation.window import Step, rank_step_findings, steps_of, window_findings

__all__ = ["check", "faults", "is_note"]


@dataclass
class _Window:
    """What was found in one folder of pairs."""

    name: str
    path: str
    matching: Matching
    load: Load
    ranks: list[CheckedRank] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    steps: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    worlds: dict[int, int | None] = field(default_factory=dict)
    parts: list[RankParts] = field(default_factory=list)
    processes: list[RankProcesses] = field(default_factory=list)


@dataclass(frozen=True)
class _Found:
    """The files of the ranks of a window, and what was noticed about them."""

    files: tuple[RankFiles, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Folder:
    """The folder of a capture, with what lies in it."""

    path: str
    inside: tuple[Entry, ...]
    matching: Matching


def check(
    path: str | Path,
    progress: Progress | None = None,
    only_rank: int | None = None,
    matching: Matching | str = "auto",
) -> Check:
    """Check a capture: each file, each pair, all ranks against each other, and what the manifests say.

    Args:
        path: a folder of traces, of windows (`window_<n>/`), or one trace, which is checked on its own; or a store,
            of which each file is compared with its hash, too.
        progress: is called with the share of each Kineto trace that is read, 0 to 1.
        only_rank: of a folder only this rank; then others are not missed.
        matching: as in `link`; where alignment links what ids do not, that is no fault.

    Raises:
        InputError: there is nothing to check.
        ArgumentError: there is no such matching.
    """
    where = str(path)
    how = Matching(matching) if isinstance(matching, str) else matching
    if is_store(where):
        return _check_store(Path(where), how, only_rank, progress)
    files = file_system_of(where)
    kind = files.kind(where)
    if kind is Kind.FILE:
        return _check_file(where, progress)
    return _check_folder(
        _Folder(where, tuple(files.entries(where) if kind is Kind.FOLDER else ()), how), only_rank, progress
    )


def _check_folder(folder: _Folder, only_rank: int | None, progress: Progress | None) -> Check:
    where, inside = folder.path, folder.inside
    manifests, findings = manifests_of(where, only_rank) if inside else ([], [])
    for file, content in manifests:
        findings += manifest_findings(content, file, partial(size_beside, file))
    windows = windows_of(where, inside)
    if windows[0][0] and _has_traces(inside):
        findings.append(Finding(FindingCode.BESIDE_WINDOWS, where))
        windows = [("", where), *windows]
    ranks: list[CheckedRank] = []
    for name, path in windows:
        window = _Window(name, path, folder.matching, ReadAndLink(None, folder.matching))
        try:
            _check_window(window, _found_in(path), only_rank, progress)
        except InputError as error:
            if not manifests and len(windows) == 1:
                raise
            if name or _has_traces(inside):
                window.findings.append(
                    Finding.of(FindingCode.WINDOW_UNREADABLE, error.path, problem=error.problem)
                )
        for file, content in manifests:
            window.findings += manifest_process_findings(content, file, window.processes)
        findings += window.findings
        ranks += window.ranks
    if only_rank is not None and not ranks and not manifests:
        raise InputError(where, f"it has no rank {only_rank}", "Check the folder")
    return Check(where, tuple(ranks), diagnose(findings))


def faults(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without those that follow from others."""
    return without_consequences(findings)


def is_note(finding: Finding) -> bool:
    """Whether a finding is good to know, and nothing is wrong."""
    return diagnosis_of(finding).severity is Severity.NOTE


def _check_store(store: Path, matching: Matching, only_rank: int | None, progress: Progress | None) -> Check:
    """Check that each file of a store is whole, and what it holds, as the folder that it was packed from."""
    job, manifest = open_store(store, matching, None, InProcess()), read_manifest(store)
    errors = list(damage(store, manifest))
    damaged = [
        Finding.of(FindingCode.STORE_DAMAGED, error.path, error.where, problem=error.problem)
        for _, error in errors
    ]
    if not (store / CAPTURE).exists():
        ranks, findings = _checked_alone(job.path, _undamaged(job.load, dict(errors), job.files[0], progress))
        return Check(job.path, ranks, diagnose([*findings, *damaged]))
    capture, _ = read_sealed(store / CAPTURE, CaptureFacts)
    window = _Window(capture.window, capture.folder, matching, partial(_undamaged, job.load, dict(errors)))
    _check_window(
        window, _Found(job.files, (*job.findings, *findings_of(capture.leftovers))), only_rank, progress
    )
    for file, content in capture.manifests:
        window.findings += manifest_process_findings(content, file, window.processes)
    noticed = [*findings_of(capture.findings), *window.findings, *damaged]
    return Check(job.path, tuple(window.ranks), diagnose(noticed))


def _undamaged(
    load: Load, damaged: Mapping[int, InputError], files: RankFiles, progress: Progress | None
) -> LinkedTrace:
    """Open a rank of a store.

    Raises:
        InputError: a file of the rank is damaged, or it could not be read when it was packed.
    """
    if files.rank in damaged:
        raise damaged[files.rank]
    return load(files, progress)


def _found_in(folder: str) -> _Found:
    """The pairs of a folder.

    Raises:
        InputError: it has no Kineto trace.
    """
    found, unpaired = find_rank_files(folder)
    names = [entry.name for entry in file_system_of(folder).entries(folder)]
    return _Found(found, (*unpaired, *leftover_findings(folder, names)))


def _check_window(window: _Window, found: _Found, only_rank: int | None, progress: Progress | None) -> None:
    """Check the pairs of a folder."""
    for files in found.files:
        if only_rank is None or files.rank == only_rank:
            _check_rank(window, files, progress)
    window.findings = located_findings(window.findings, window.processes)
    if only_rank is None:
        path = window.path
        mixed = run_findings(window.processes, path)
        window.findings += mixed
        window.findings += [*found.findings, *rank_findings(window.worlds, path)]
        # Ranks of two runs share neither collectives nor clocks.
        across = _step_findings(window, None) if mixed else _clock_and_step_findings(window)
        window.findings = [*window.findings, *across]


def _clock_and_step_findings(window: _Window) -> list[Finding]:
    """What the ranks' collectives say, and their steps, on clocks that are aligned by those."""
    if len(window.parts) < 2:
        return _step_findings(window, None)
    linked = link_ranks(window.parts)
    clocks = {row["rank"]: row for row in linked.clocks.to_dicts()}
    window.ranks = [replace(checked, clock=clocks.get(checked.rank)) for checked in window.ranks]
    if any(finding.code is FindingCode.WORLD_DIFFERS for finding in linked.findings):
        # That names the file: the finding of the folder would say it again.
        window.findings = [finding for finding in window.findings if not _is_of_worlds(finding)]
    return [
        *linked.findings,
        *clock_findings(linked.clocks, window.path),
        *_step_findings(window, linked),
    ]


def _is_of_worlds(finding: Finding) -> bool:
    return finding.code is FindingCode.WORLD_DIFFERS and "case" not in finding.details


def _step_findings(window: _Window, linked: LinkedRanks | None) -> list[Finding]:
    """Whether all ranks recorded the same steps, and, where the ranks are linked with each other, at the same time."""
    path = window.path
    if linked is None:
        found = rank_step_findings(window.steps, path)
        return [finding for finding in found if finding.code is not FindingCode.CLOCKS_DIFFER]
    rows = [(rank, *astuple(step)) for rank, steps in window.steps.items() for step in steps]
    schema = {"rank": pl.Int64, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    frame = linked.aligned(pl.DataFrame(rows, schema=schema, orient="row"), "start_ns", "end_ns")
    steps: dict[int, list[Step]] = {rank: [] for rank in window.steps}
    for rank, *step in frame.iter_rows():
        steps[rank].append(Step(*step))
    return rank_step_findings({rank: tuple(own) for rank, own in steps.items()}, path)


def _has_traces(inside: Iterable[Entry]) -> bool:
    return any(is_candidate(entry.name) for entry in inside if entry.kind is Kind.FILE)


def _check_rank(window: _Window, files: RankFiles, progress: Progress | None) -> None:
    checked = CheckedRank(files.rank, window.name, files.et, files.kineto, (), None)
    window.worlds[files.rank] = None
    if files.kineto is not None:
        try:
            linked, judgement = link_and_judge(window.load(files, progress), window.matching)
        except InputError as error:
            details = {"rank": files.rank, "problem": error.problem}
            window.findings.append(
                Finding(FindingCode.RANK_UNREADABLE, error.path, error.where, details=details)
            )
        else:
            steps = steps_of(linked.timeline)
            window.processes.append(_processes(files, linked, steps))
            window.steps[files.rank] = steps
            window.worlds[files.rank] = linked.timeline.world_size
            window.parts.append(rank_parts(linked))
            window.findings += [*judgement.findings, *recording_findings(linked)]
            window.findings += window_findings(linked.timeline, steps)
            checked = replace(
                checked,
                steps=tuple(step.name for step in steps),
                coverage=linked.coverage,
                confidence=judgement.confidence,
            )
    window.ranks.append(checked)


def _processes(files: RankFiles, linked: LinkedTrace, steps: tuple[Step, ...]) -> RankProcesses:
    return RankProcesses(
        rank=files.rank,
        et_path="" if linked.et is None else linked.et.path,
        kineto_path=linked.timeline.path,
        et=None if linked.et is None else process_of_et(linked.et),
        kineto=process_of_timeline(linked.timeline),
        steps=tuple(step.name for step in steps),
    )


def _check_file(path: str, progress: Progress | None) -> Check:
    trace, _ = read_trace(path, progress)
    if isinstance(trace, ExecutionTrace):
        return Check(shown(path), (), diagnose([*trace.findings, *et_findings(trace)]))
    ranks, findings = _checked_alone(shown(path), link(None, trace))
    return Check(shown(path), ranks, diagnose(findings))


def _checked_alone(path: str, linked: LinkedTrace) -> tuple[tuple[CheckedRank, ...], list[Finding]]:
    """A Kineto trace without its folder, and what was noticed."""
    linked.stages.host_links()
    trace = linked.timeline
    steps = steps_of(trace)
    findings = [*judge(linked).findings, *recording_findings(linked), *window_findings(trace, steps)]
    names = tuple(step.name for step in steps)
    return (CheckedRank(trace.rank, "", None, path, names, linked.coverage),), findings
