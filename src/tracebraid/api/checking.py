"""Checks and repairs of captures."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from tracebraid.api.traces import Progress, link
from tracebraid.check.advice import diagnose
from tracebraid.check.clocks import collective_clock_findings, collectives_of
from tracebraid.check.identity import et_findings, identity_findings
from tracebraid.check.manifest import leftover_findings, manifest_findings
from tracebraid.check.ranks import rank_findings
from tracebraid.check.window import Step, rank_step_findings, steps_of, window_findings
from tracebraid.errors import InputError
from tracebraid.export.repaired_et import write_repaired_et
from tracebraid.model.check import Check, CheckedRank, Repair, Severity
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.job import RankFiles
from tracebraid.output import part_beside, write_whole, writing
from tracebraid.read.discover import find_rank_files
from tracebraid.read.kineto import read_timeline
from tracebraid.read.trace import read_trace

__all__ = ["check", "repair"]


@dataclass
class _Window:
    """What was found in one folder of pairs."""

    name: str
    path: Path
    ranks: list[CheckedRank] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    steps: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    worlds: dict[int, int | None] = field(default_factory=dict)
    collectives: dict[int, pl.DataFrame] = field(default_factory=dict)


def check(path: str | Path, progress: Progress | None = None, only_rank: int | None = None) -> Check:
    """Check a capture: each file, each pair, all ranks against each other, and what the manifests say.

    Args:
        path: a folder of traces, of windows (`window_<n>/`), or one trace, which is checked on its own.
        progress: is told how far each Kineto trace is read, 0 to 1.
        only_rank: of a folder only this rank; then others are not missed.

    Raises:
        InputError: there is nothing to check.
    """
    where = Path(path)
    if where.is_file():
        return _check_file(where, progress)
    told, findings = _manifests(where, "*" if only_rank is None else str(only_rank))
    findings += [finding for file, content in told for finding in manifest_findings(content, file)]
    ranks: list[CheckedRank] = []
    if _windows(where)[0][0] and _files(where):
        findings.append(Finding("beside-windows", "traces beside windows are left out", str(where)))
    for name, folder in _windows(where):
        findings += leftover_findings(folder) if only_rank is None else []
        try:
            files, odd = find_rank_files(folder)
        except InputError as error:
            if not told and not (name and len(_windows(where)) > 1):
                raise
            if any(folder.glob("*et*.json*")) or name:
                findings.append(Finding("window-unreadable", error.problem, error.path))
            continue
        window = _Window(name, folder)
        if only_rank is None:
            window.findings += odd
            _check_ranks(window, files, progress)
        else:
            own = [one for one in files if one.rank == only_rank]
            if not own:
                raise InputError(str(folder), f"it has no rank {only_rank}", "Check the folder")
            _check_rank(window, own[0], progress)
        findings += window.findings
        ranks += window.ranks
    return Check(str(path), tuple(ranks), diagnose(findings))


def repair(path: str | Path, progress: Progress | None = None) -> tuple[Repair, ...]:
    """Rewrite each Execution Trace whose parents are not those of the nesting in its Kineto trace.

    The file as it was stays beside the new one, as `<name>.orig`.

    Args:
        path: a folder of traces, or of windows.
        progress: is told how far each Kineto trace is read, 0 to 1.

    Returns:
        One for each Execution Trace that has a Kineto trace; those with no changes were not written.

    Raises:
        InputError: there is no pair, or a file cannot be read.
        OutputError: a file cannot be written.
    """
    if not Path(path).exists():
        raise InputError(str(path), "there is no such file or folder", "Check the path")
    files = [one for _, folder in _windows(Path(path)) for one in _files(folder)]
    pairs = [(Path(one.et), one.kineto) for one in files if one.et is not None and one.kineto is not None]
    if not pairs:
        raise InputError(
            str(path), "there is no pair of traces in it", "A repair needs both traces of a rank"
        )
    sizes = {et: et.stat().st_size for et, _ in pairs}
    done = [one for et, kineto in pairs for one in _repair_one(et, kineto, progress)]
    written = {Path(one.path) for one in done if one.written}
    for file, content in _manifests(Path(path))[0]:
        _note_sizes(file, content, {et: size for et, size in sizes.items() if et in written})
    return tuple(done)


def _files(folder: Path) -> tuple[RankFiles, ...]:
    try:
        return find_rank_files(folder)[0]
    except InputError:
        return ()


def _repair_one(et: Path, kineto: str, progress: Progress | None) -> list[Repair]:
    try:
        linked = link(et, read_timeline(kineto, None, progress))
    except InputError:
        return []
    assert linked.et is not None
    errors = [*linked.et.findings, *identity_findings(linked)]
    if any(one.severity is Severity.ERROR for one in diagnose(errors)):
        return [Repair(str(et), linked.et.nodes.height, (), False)]
    new = part_beside(et, "repaired").with_suffix(et.suffix)
    done = write_repaired_et(linked, new)
    if done.written:
        with writing(et):
            original, number = et.with_name(et.name + ".orig"), 1
            while original.exists():
                number += 1
                original = et.with_name(f"{et.name}.orig{number}")
            shutil.copy2(et, original)
            new.replace(et)
    return [replace(done, path=str(et))]


def _note_sizes(file: Path, content: dict[str, object], before: dict[Path, int]) -> None:
    """Keep a manifest true: a repaired file has another size."""
    changed = False
    windows = content.get("windows")
    for window in windows if isinstance(windows, list) else []:
        files = window.get("files") if isinstance(window, dict) else None
        for entry in files if isinstance(files, list) else []:
            if isinstance(entry, dict):
                beside = file.parent / str(entry.get("path"))
                if beside in before and before[beside] == entry.get("size_bytes"):
                    entry.update(size_bytes=beside.stat().st_size, repaired=True)
                    changed = True
    if changed:
        write_whole(file, [(json.dumps(content, indent=2) + "\n").encode()], overwrite=True)


def _windows(path: Path) -> list[tuple[str, Path]]:
    """The folders of windows, by number; the folder itself where it has none."""
    inside = [one for one in path.glob("window_*") if one.is_dir() and one.name[7:].isdecimal()]
    inside.sort(key=lambda one: int(one.name[7:]))
    return [(one.name, one) for one in inside] or [("", path)]


def _manifests(path: Path, rank: str = "*") -> tuple[list[tuple[Path, dict[str, object]]], list[Finding]]:
    told: list[tuple[Path, dict[str, object]]] = []
    odd: list[Finding] = []
    for file in sorted(path.glob(f"manifest_{rank}.json")):
        try:
            content = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            odd.append(Finding("manifest-unreadable", f"it is no manifest ({error})", str(file)))
            continue
        if isinstance(content, dict):
            told.append((file, content))
        else:
            odd.append(Finding("manifest-unreadable", "it is no manifest", str(file)))
    return told, odd


def _check_ranks(window: _Window, files: tuple[RankFiles, ...], progress: Progress | None) -> None:
    for one in files:
        _check_rank(window, one, progress)
    path = str(window.path)
    window.findings += rank_findings(window.worlds, path)
    window.findings += rank_step_findings(window.steps, path)
    if not any(finding.code == "clocks-differ" for finding in window.findings):
        window.findings += collective_clock_findings(window.collectives, path)


def _check_rank(window: _Window, files: RankFiles, progress: Progress | None) -> None:
    checked = CheckedRank(files.rank, window.name, files.et, files.kineto, (), None)
    window.worlds[files.rank] = None
    if files.kineto is not None:
        try:
            linked = link(files.et, read_timeline(files.kineto, None, progress))
        except InputError as error:
            text = f"rank {files.rank} cannot be read: {error.problem}"
            window.findings.append(Finding("rank-unreadable", text, error.path, error.where))
        else:
            steps = steps_of(linked.timeline)
            window.steps[files.rank] = steps
            window.worlds[files.rank] = linked.timeline.world_size
            window.collectives[files.rank] = collectives_of(linked.timeline)
            window.findings += [*linked.all_findings, *identity_findings(linked)]
            window.findings += window_findings(linked.timeline, steps)
            checked = replace(checked, steps=tuple(step.name for step in steps), coverage=linked.coverage)
    window.ranks.append(checked)


def _check_file(path: Path, progress: Progress | None) -> Check:
    trace, _ = read_trace(path, progress)
    if isinstance(trace, ExecutionTrace):
        return Check(str(path), (), diagnose([*trace.findings, *et_findings(trace)]))
    linked = link(None, trace)
    steps = steps_of(trace)
    findings = [*linked.all_findings, *identity_findings(linked), *window_findings(trace, steps)]
    names = tuple(step.name for step in steps)
    rank = CheckedRank(trace.rank, "", None, str(path), names, linked.coverage)
    return Check(str(path), (rank,), diagnose(findings))
