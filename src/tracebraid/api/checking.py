"""Checks of captures."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from tracebraid.analysis.collectives.hangs import hang_findings, last_activity
from tracebraid.analysis.gaps import gaps
from tracebraid.analysis.launches.lost_work import unended
from tracebraid.api.engines import AUTO, engine_of
from tracebraid.api.job_answers import rank_parts
from tracebraid.api.stored_jobs import open_store
from tracebraid.api.traces import ReadAndLink, link
from tracebraid.ctrl_c import raised_outside_polars
from tracebraid.errors import ArgumentError, CaptureWarning, InputError, ProgramError, sentences
from tracebraid.filesystem.choose import archive_of, file_system_of, with_files
from tracebraid.filesystem.interface import Entry, Kind
from tracebraid.filesystem.paths import joined, shown
from tracebraid.importers.discovery import (
    find_rank_files,
    is_candidate,
    manifests_of,
    processes_of,
    ranks_in_file,
    size_beside,
    windows_of,
    with_text_path,
)
from tracebraid.importers.trace import read_trace
from tracebraid.linking.link_traces import link_traces
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.capture_outcome import CaptureOutcome, Recorded
from tracebraid.model.check import Check, CheckedRank, Judgement
from tracebraid.model.coverage import Coverage
from tracebraid.model.engine import Engine, Load, LoadingWork, Outcome
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode, Severity
from tracebraid.model.linked_ranks import LinkedRanks, RankParts, gather_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.process import process_of_et, process_of_timeline
from tracebraid.model.rank_files import Progress, RankFiles, of_reading
from tracebraid.recorders.launcher.launch import launch
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import BACKENDS, STEPS_BY, Settings
from tracebraid.store.answers.stored_answers import damaged_answers
from tracebraid.store.findings import findings_of
from tracebraid.store.manifest import CAPTURE, CaptureFacts, is_store, read_sealed
from tracebraid.store.opening import check_capture, read_manifest
from tracebraid.store.rank_reader import damage
from tracebraid.validation.advice import diagnose
from tracebraid.validation.clocks import clock_findings
from tracebraid.validation.identity import et_findings, pair_findings, rank_findings, recording_findings
from tracebraid.validation.manifest import leftover_findings, manifest_findings
from tracebraid.validation.processes import (
    RankProcesses,
    located_findings,
    manifest_process_findings,
    run_findings,
)
from tracebraid.validation.window import Step, rank_step_findings, steps_of, window_findings

if TYPE_CHECKING:
    from tracebraid.recorders.session.capture import Capture


def judge(linked: LinkedTrace) -> Judgement:
    """Judge whether the two traces of a rank link, by which method, and how reliably; shared by `check` and `link`.

    Its findings cover everything read and computed so far, and the links.
    """
    judged = pair_findings(linked)
    return Judgement.of(linked, [*linked.known_findings, *judged])


def link_and_judge(linked: LinkedTrace, matching: Matching) -> tuple[LinkedTrace, Judgement]:
    """Compute all stages of a rank; for traces of two programs, link by ids and add a finding."""
    try:
        linked.stages.host_links()
    except ProgramError as error:
        exact = replace(matching, match="exact")
        linked = link_traces(linked.timeline, linked.stages.et, exact).judged_by(linked.judge)
        linked.stages.host_links()
        refusal = Finding.of(FindingCode.ANOTHER_PROGRAM, error.path, problem=error.problem)
        return linked, Judgement.of(linked, [*linked.all_findings, refusal])
    return linked, judge(linked.compute_all())


class RankChecked(Struct, frozen=True, eq=False):
    """Result of checking the two traces of a rank.

    Args:
        steps: the steps of the Kineto trace.
        world_size: the number of ranks that the trace states.
        coverage: the link coverage.
        confidence: the lowest confidence of a host op's link, 0 to 1; None if none is linked.
        processes: the processes of the two traces.
        parts: the data for linking it with other ranks.
        findings: the findings.
    """

    steps: tuple[Step, ...]
    world_size: int | None
    coverage: Coverage
    confidence: float | None
    processes: RankProcesses
    parts: RankParts
    findings: tuple[Finding, ...]


class CheckRank(LoadingWork, frozen=True):
    """Checks the pair of a rank; run by an engine. A rank without Kineto trace is skipped.

    Args:
        load: opens a rank.
        matching: how the two traces are matched.
    """

    matching: Matching

    def __call__(self, files: RankFiles, progress: Progress | None) -> RankChecked | None:
        """Check the pair; None without Kineto trace."""
        if files.kineto is None:
            return None
        loaded: LinkedTrace = self.load(files, of_reading(progress))
        linked, judgement = link_and_judge(loaded.judged_by(gaps), self.matching)
        steps = steps_of(linked.timeline)
        return RankChecked(
            steps=steps,
            world_size=linked.timeline.world_size,
            coverage=linked.coverage,
            confidence=judgement.confidence,
            processes=_processes(files, linked, steps),
            parts=rank_parts(
                linked, {gather: gather_of(linked, gather) for gather in (unended, last_activity)}
            ),
            findings=(
                *judgement.findings,
                *recording_findings(linked),
                *window_findings(linked.timeline, steps),
            ),
        )


def _processes(files: RankFiles, linked: LinkedTrace, steps: tuple[Step, ...]) -> RankProcesses:
    return RankProcesses(
        rank=files.rank,
        et_path="" if linked.et is None else linked.et.path,
        kineto_path=linked.timeline.path,
        et=None if linked.et is None else process_of_et(linked.et),
        kineto=process_of_timeline(linked.timeline),
        steps=tuple(step.name for step in steps),
    )


class _Run(Struct, frozen=True):
    """Options for opening, matching and running ranks."""

    load: Load
    matching: Matching
    engine: Engine
    progress: Progress | None


class _Window(Struct):
    """Results of one folder of pairs."""

    name: str
    path: str
    ranks: list[CheckedRank] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    steps: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    worlds: dict[int, int | None] = field(default_factory=dict)
    parts: list[RankParts] = field(default_factory=list)
    processes: list[RankProcesses] = field(default_factory=list)


class _Found(Struct, frozen=True):
    """Files of the ranks of a window, and findings about them."""

    files: tuple[RankFiles, ...]
    findings: tuple[Finding, ...]


class _Folder(Struct, frozen=True):
    """Folder of a capture with its content."""

    path: str
    inside: tuple[Entry, ...]


def check(
    path: str | Path,
    progress: Progress | None = None,
    only_rank: int | None = None,
    matching: Matching | str = "auto",
    engine: Engine | str = AUTO,
) -> Check:
    """Check a capture: each file, each pair, all ranks against each other, and the manifests.

    Args:
        path: a folder of traces, of windows (`window_<n>/`), or one trace, which is checked alone; or a store,
            whose files are also compared with their hashes.
        progress: called with the share of checked ranks of each window, 0 to 1.
        only_rank: check only this rank of a folder; other ranks are not reported as missing.
        matching: as in `link`; with alignment, missing ids are not a fault.
        engine: engine for the work over the ranks, see `engine_of`.

    Raises:
        InputError: there is nothing to check.
        ArgumentError: the matching or engine is unknown.
    """
    where = with_files(path)
    how = Matching(matching) if isinstance(matching, str) else matching
    runs_in = engine_of(engine) if isinstance(engine, str) else engine
    run = _Run(ReadAndLink(how, archive_of(where)), how, runs_in, progress)
    if is_store(where):
        return _check_store(Path(where), only_rank, run)
    files = file_system_of(where)
    kind = files.kind(where)
    if kind is Kind.FILE:
        return _check_file(where, only_rank, run)
    inside = tuple(files.entries(where) if kind is Kind.FOLDER else ())
    return _check_folder(_Folder(where, inside), only_rank, run)


def _check_folder(folder: _Folder, only_rank: int | None, run: _Run) -> Check:
    """Check the capture in a folder, and those of further processes of its ranks in folders inside."""
    processes = [] if only_rank is not None else processes_of(folder.path, folder.inside)
    ranks, findings = _check_capture(folder, only_rank, run, is_alone=not processes)
    for name, path in processes:
        inside = _Folder(path, tuple(file_system_of(path).entries(path)))
        of_process, more = _check_capture(inside, None, run, is_alone=False)
        ranks += [
            replace(checked, window=joined(name, checked.window) if checked.window else name)
            for checked in of_process
        ]
        findings += more
    return Check(str(folder.path), tuple(ranks), diagnose([with_text_path(finding) for finding in findings]))


def _check_capture(
    folder: _Folder, only_rank: int | None, run: _Run, is_alone: bool
) -> tuple[list[CheckedRank], list[Finding]]:
    """Check one process of each rank."""
    where, inside = folder.path, folder.inside
    manifests, findings = manifests_of(where, only_rank) if inside else ([], [])
    for file, content in manifests:
        findings += manifest_findings(content, file, partial(size_beside, file))
    windows = windows_of(where, inside)
    if windows[0][0] and _has_traces(inside):
        findings.append(Finding(FindingCode.BESIDE_WINDOWS, where))
        windows = [("", where), *windows]
    if not is_alone and not windows[0][0] and not _has_traces(inside):
        # Else the traces of a process inside would be found as those of this folder.
        return [], findings
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
        raise InputError(where, f"there is no rank {only_rank}", "Check the folder")
    return ranks, findings


def _check_store(store: Path, only_rank: int | None, run: _Run) -> Check:
    """Check that each file of a store is intact, then its content like the folder that it was packed from."""
    job, manifest = open_store(store, run.matching), read_manifest(store)
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


class _Undamaged(LoadingWork, frozen=True):
    """Opens a rank of a store unless a file is damaged."""

    damaged: Mapping[int, InputError]

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        if files.rank in self.damaged:
            raise self.damaged[files.rank]
        linked: LinkedTrace = self.load(files, progress)
        return linked


def _found_in(folder: str) -> _Found:
    """Discover the pairs of a folder."""
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
    """Check collectives and steps of the ranks on aligned clocks."""
    if len(window.parts) < 2:
        return _step_findings(window, None)
    linked = link_ranks(window.parts)
    clocks = {row["rank"]: row for row in linked.clocks.to_dicts()}
    window.ranks = [replace(checked, clock=clocks.get(checked.rank)) for checked in window.ranks]
    if any(finding.code is FindingCode.WORLD_DIFFERS for finding in linked.findings):
        # That names the file: the finding of the folder would say it again.
        window.findings = [finding for finding in window.findings if not _is_of_worlds(finding)]
    stuck = hang_findings(linked, window.path)
    if stuck:
        # These name the ranks: what each rank says of itself would say less again.
        window.findings = [found for found in window.findings if found.code is not FindingCode.NEVER_ENDED]
    return [
        *stuck,
        *linked.findings,
        *clock_findings(linked.clocks, window.path),
        *_step_findings(window, linked),
    ]


def _is_of_worlds(finding: Finding) -> bool:
    return finding.code is FindingCode.WORLD_DIFFERS and "case" not in finding.details


def _step_findings(window: _Window, linked: LinkedRanks | None) -> list[Finding]:
    """Check that all ranks recorded the same steps and, if ranks are linked, at the same time."""
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
    """Add the findings in a rank's files, or that they are unreadable."""
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


def _check_file(path: str, only_rank: int | None, run: _Run) -> Check:
    of_ranks = _Found(*ranks_in_file(path))
    if of_ranks.files:
        window = _Window("", path)
        _check_window(window, of_ranks, only_rank, run)
        return Check(shown(path), tuple(window.ranks), diagnose(window.findings))
    trace, _ = read_trace(path, run.progress)
    if isinstance(trace, ExecutionTrace):
        return Check(shown(path), (), diagnose([*trace.findings, *et_findings(trace)]))
    ranks, findings = _checked_alone(shown(path), link(None, trace))
    return Check(shown(path), ranks, diagnose(findings))


def _checked_alone(path: str, linked: LinkedTrace) -> tuple[tuple[CheckedRank, ...], list[Finding]]:
    """Return a Kineto trace without its folder, and its findings."""
    linked.stages.host_links()
    trace = linked.timeline
    steps = steps_of(trace)
    findings = [*judge(linked).findings, *recording_findings(linked), *window_findings(trace, steps)]
    names = tuple(step.name for step in steps)
    return (CheckedRank(trace.rank, "", None, path, names, linked.coverage),), findings


_DEFAULT = Schedule()


def capture(
    out_dir: str | Path,
    *,
    skip_first: int = _DEFAULT.skip_first,
    wait: int = _DEFAULT.wait,
    warmup: int = _DEFAULT.warmup,
    active: int = _DEFAULT.active,
    repeat: int = _DEFAULT.repeat,
    stacks: bool = False,
    memory: bool = False,
    overwrite: bool = False,
    new: bool = False,
    check: bool = True,
    recorder: str = "auto",
    calibrate: bool = True,
) -> Capture:
    """Record both traces of this process over some steady steps of a loop.

    A context manager around a training or inference loop, or a decorator of the function that contains it. Call
    `step()` of the capture at the end of each iteration; a decorated `train` has it as `train.capture`. Each rank
    writes `torch_et_<rank>.json.gz`,
    `kineto_trace_<rank>.json.gz` and `manifest_<rank>.json`. At the end the files are checked, and a
    `CaptureWarning` describes any problem.

    Args:
        out_dir: the folder for the files; it is created if missing.
        skip_first: steps to skip at the start.
        wait: untraced steps before each window.
        warmup: steps to warm up the profiler before each window.
        active: steps to record in each window. By default these are steps 7 to 9, counted from 0.
        repeat: number of windows.
        stacks: whether to record Python stacks.
        memory: whether to record allocations; then Kineto records only the loop's thread and those of autograd.
        overwrite: whether to replace files of an earlier run.
        new: whether to write to a new subfolder of `out_dir`: `run_1`, `run_2` and so on, see `Capture.out_dir`.
        check: whether to read the files back at the end, and check that they link.
        recorder: recorder of the Execution Trace: `native`, built on first use, `torch`, or `auto`.
        calibrate: whether to measure, in a tenth of a second after the first window, what recording an event costs:
            `what_if` then predicts the step without recording.

    Raises:
        ArgumentError: the schedule never records, or the recorder is unknown.
        MissingLibraryError: torch is not installed.
        CaptureError: on entering, if a capture or a profiler is active in this process, or no native
            recorder is available; from `step()` outside.
        OutputError: on entering, if the folder cannot be written or contains this rank's files of another run.

    Example::

        with tracebraid.capture("traces") as cap:
            for batch in loader:
                train(batch)
                cap.step()
    """
    from tracebraid.recorders.session.capture import Capture

    schedule = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
    options = {"stacks": stacks, "memory": memory, "overwrite": overwrite, "new": new, "recorder": recorder}
    options["calibrate"] = calibrate
    settings = settings_of(out_dir, schedule, options)
    return Capture(settings, at_end=_check_own if check else None)


def run_captured(command: Sequence[str], settings: Settings) -> CaptureOutcome:
    """Run a command whose Python processes capture themselves, by the steps of their optimizers."""
    return launch(command, settings)


def settings_of(out_dir: str | Path, schedule: dict[str, int], options: dict[str, Any]) -> Settings:
    """Build the settings of a capture."""
    if options.get("recorder", "auto") not in BACKENDS:
        raise ArgumentError(f"there is no recorder {options['recorder']!r}; there is {', '.join(BACKENDS)}")
    if options.get("steps_by", "auto") not in STEPS_BY:
        raise ArgumentError(f"steps end by {', '.join(STEPS_BY)}, not by {options['steps_by']!r}")
    unknown = sorted(set(schedule) - set(Schedule.__struct_fields__))
    if unknown:
        words = ", ".join(Schedule.__struct_fields__)
        raise ArgumentError(f"a schedule has no {unknown[0]!r}; it has {words}")
    return Settings(str(Path(out_dir).absolute()), Schedule(**schedule), **options)


def recorded_by_rank(out_dir: str | Path) -> tuple[Recorded, ...]:
    """Return the recording of each rank from its manifest, of further processes of a rank too.

    Those without a recording are skipped.
    """
    out = with_files(out_dir)
    folders = [("", out), *processes_of(out)]
    found = [_recorded(content, name) for name, folder in folders for _, content in manifests_of(folder)[0]]
    return tuple(recorded for recorded in found if recorded is not None)


def _recorded(manifest: Mapping[str, Any], folder: str) -> Recorded | None:
    windows = [window for window in manifest.get("windows", []) if window.get("files")]
    if not windows:
        return None
    return Recorded(
        rank=manifest.get("rank", 0),
        steps=tuple(step for window in windows for step in window.get("steps", ())),
        steps_seen=manifest.get("steps_seen", 0),
        counted_to_end=bool(manifest.get("counted_to_end", True)),
        counted_by=manifest.get("steps_counted_by", ""),
        loop=manifest.get("loop") or "",
        loops=tuple(manifest.get("loops") or ()),
        traced_to_untraced=manifest.get("overhead", {}).get("traced_to_untraced"),
        has_device=bool(manifest.get("devices")),
        lost=tuple(str(window["failure"]) for window in manifest["windows"] if window.get("failure")),
        folder=folder,
        ended_by=manifest.get("ended_by"),
        attempt=manifest.get("attempt", 0),
        died=tuple(died.get("ended_by") for died in manifest.get("died_before", ())),
    )


def _check_own(capture: Capture) -> None:
    """Check the files that this process wrote, and warn of link problems."""
    if not any(window["files"] for window in capture.windows):
        return
    try:
        with raised_outside_polars():
            capture.checked = check(capture.out_dir, only_rank=capture.rank)
    except InputError as error:
        warnings.warn(str(error), CaptureWarning, stacklevel=5)
        return
    for diagnosis in capture.checked.diagnoses:
        # A window that is lost was reported when that happened.
        if diagnosis.severity is Severity.ERROR and diagnosis.finding.code is not FindingCode.WINDOW_LOST:
            warnings.warn(sentences(str(diagnosis.finding), diagnosis.advice), CaptureWarning, stacklevel=5)
