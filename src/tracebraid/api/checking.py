"""Checks of captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from tracebraid.api.checking_rank import CheckRank, RankChecked
from tracebraid.api.engines import AUTO, engine_of
from tracebraid.api.judging import judge
from tracebraid.api.stored_jobs import is_store, open_store
from tracebraid.api.traces import Progress, ReadAndLink, link
from tracebraid.errors import InputError
from tracebraid.filesystem.choose import archive_of, file_system_of, with_files
from tracebraid.filesystem.interface import Entry, Kind
from tracebraid.filesystem.paths import shown
from tracebraid.importers.discovery.archive_findings import with_text_path
from tracebraid.importers.discovery.capture_folder import manifests_of, size_beside, windows_of
from tracebraid.importers.discovery.discover import find_rank_files
from tracebraid.importers.discovery.sniff import is_candidate
from tracebraid.importers.trace import read_trace
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.check import Check, CheckedRank, Severity
from tracebraid.model.engine import Engine, LoadingWork, Outcome
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.job import Load
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import RankFiles
from tracebraid.store.answers.stored_answers import damaged_answers
from tracebraid.store.findings import findings_of
from tracebraid.store.layout import CAPTURE
from tracebraid.store.manifest import CaptureFacts
from tracebraid.store.opening import read_manifest
from tracebraid.store.sealed_json import read_sealed
from tracebraid.store.soundness import check_capture
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


@dataclass(frozen=True)
class _Run:
    """How the ranks are opened, matched and run."""

    load: Load
    matching: Matching
    engine: Engine
    progress: Progress | None


@dataclass
class _Window:
    """What was found in one folder of pairs."""

    name: str
    path: str
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


def check(
    path: str | Path,
    progress: Progress | None = None,
    only_rank: int | None = None,
    matching: Matching | str = "auto",
    engine: Engine | str = AUTO,
) -> Check:
    """Check a capture: each file, each pair, all ranks against each other, and what the manifests say.

    Args:
        path: a folder of traces, of windows (`window_<n>/`), or one trace, which is checked on its own; or a store,
            of which each file is compared with its hash, too.
        progress: is called with the share of the ranks of each window that is checked, 0 to 1.
        only_rank: of a folder only this rank; then others are not missed.
        matching: as in `link`; where alignment links what ids do not, that is no fault.
        engine: how the work over the ranks runs, see `engine_of`.

    Raises:
        InputError: there is nothing to check.
        ArgumentError: there is no such matching or engine.
    """
    where = with_files(path)
    how = Matching(matching) if isinstance(matching, str) else matching
    runs_in = engine_of(engine) if isinstance(engine, str) else engine
    run = _Run(ReadAndLink(None, how, archive_of(where)), how, runs_in, progress)
    if is_store(where):
        return _check_store(Path(where), only_rank, run)
    files = file_system_of(where)
    kind = files.kind(where)
    if kind is Kind.FILE:
        return _check_file(where, progress)
    inside = tuple(files.entries(where) if kind is Kind.FOLDER else ())
    return _check_folder(_Folder(where, inside), only_rank, run)


def _check_folder(folder: _Folder, only_rank: int | None, run: _Run) -> Check:
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
        window = _Window(name, path)
        if len(ranks) and not file_system_of(path).entries(path):
            findings.append(Finding(FindingCode.WINDOW_EMPTY, path))
            continue
        try:
            _check_window(window, _found_in(path), only_rank, run)
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
    return Check(str(where), tuple(ranks), diagnose([with_text_path(finding) for finding in findings]))


def faults(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without those that follow from others."""
    return without_consequences(findings)


def is_note(finding: Finding) -> bool:
    """Whether a finding is good to know, and nothing is wrong."""
    return diagnosis_of(finding).severity is Severity.NOTE


def _check_store(store: Path, only_rank: int | None, run: _Run) -> Check:
    """Check that each file of a store is whole, and what it holds, as the folder that it was packed from."""
    job, manifest = open_store(store, run.matching, None, run.engine), read_manifest(store)
    errors = list(damage(store, manifest))
    of_answers = damaged_answers(store, manifest.options.writer)
    damaged = [
        Finding.of(FindingCode.STORE_DAMAGED, error.path, error.where, problem=error.problem)
        for error in (*(error for _, error in errors), *of_answers)
    ]
    run = replace(run, load=_Undamaged(job.load, dict(errors)))
    if not (store / CAPTURE).exists():
        ranks, findings = _checked_alone(job.path, run.load(job.files[0], run.progress))
        return Check(job.path, ranks, diagnose([*findings, *damaged]))
    capture, _ = read_sealed(store / CAPTURE, CaptureFacts, check_capture)
    window = _Window(capture.window, capture.folder)
    found = _Found(job.files, (*job.findings, *findings_of(capture.leftovers)))
    _check_window(window, found, only_rank, run)
    for file, content in capture.manifests:
        window.findings += manifest_process_findings(content, file, window.processes)
    noticed = [*findings_of(capture.findings), *window.findings, *damaged]
    return Check(job.path, tuple(window.ranks), diagnose(noticed))


@dataclass(frozen=True)
class _Undamaged(LoadingWork):
    """Opens a rank of a store; one with a damaged file is not."""

    damaged: Mapping[int, InputError]

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        if files.rank in self.damaged:
            raise self.damaged[files.rank]
        linked: LinkedTrace = self.load(files, progress)
        return linked


def _found_in(folder: str) -> _Found:
    """The pairs of a folder.

    Raises:
        InputError: it has no Kineto trace.
    """
    found, unpaired = find_rank_files(folder)
    names = [entry.name for entry in file_system_of(folder).entries(folder)]
    return _Found(found, (*unpaired, *leftover_findings(folder, names)))


def _check_window(window: _Window, found: _Found, only_rank: int | None, run: _Run) -> None:
    """Check the pairs of a folder."""
    chosen = [files for files in found.files if only_rank is None or files.rank == only_rank]
    for outcome in run.engine.outcomes(CheckRank(run.load, run.matching), chosen, run.progress):
        _add_rank(window, outcome)
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


def _add_rank(window: _Window, outcome: Outcome[RankChecked | None]) -> None:
    """Add what was found in the files of a rank, or that they cannot be read."""
    files, of_rank, error = outcome.files, outcome.answer, outcome.error
    checked = CheckedRank(files.rank, window.name, files.et, files.kineto, (), None)
    window.worlds[files.rank] = None
    if error is not None:
        details = {"rank": files.rank, "problem": error.problem}
        window.findings.append(Finding(FindingCode.RANK_UNREADABLE, error.path, error.where, details=details))
    if of_rank is not None:
        window.processes.append(of_rank.processes)
        window.steps[files.rank] = of_rank.steps
        window.worlds[files.rank] = of_rank.world_size
        window.parts.append(of_rank.parts)
        window.findings += of_rank.findings
        checked = replace(
            checked,
            steps=tuple(step.name for step in of_rank.steps),
            coverage=of_rank.coverage,
            confidence=of_rank.confidence,
        )
    window.ranks.append(checked)


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
