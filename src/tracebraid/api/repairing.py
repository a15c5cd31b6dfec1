"""Repairs of Execution Traces, from their Kineto traces."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from msgspec.structs import replace

from tracebraid.api.traces import link
from tracebraid.errors import InputError
from tracebraid.exporters.et_json import write_repaired_et
from tracebraid.files import errors_named_as, part_beside, whole_file, write_whole, writing
from tracebraid.filesystem.choose import archive_of, with_files
from tracebraid.filesystem.paths import is_url, reading, shown
from tracebraid.importers.discovery import find_rank_files, manifests_of, windows_of
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.check import Repair
from tracebraid.model.finding_code import Severity
from tracebraid.model.op_schema import is_arrow
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.store.manifest import is_store
from tracebraid.validation.advice import diagnose
from tracebraid.validation.identity import identity_findings


def repair(path: str | Path, progress: Progress | None = None) -> tuple[Repair, ...]:
    """Repair each Execution Trace whose parents contradict the nesting in its Kineto trace.

    The original file stays beside the new one as `<name>.orig` (`.orig2` and so on if that exists). A
    rank that cannot be read is skipped, one with another kind of error is unchanged: `check` explains why. So is
    one in columns, `.arrow.zip`, whose recorder writes correct parents.

    Args:
        path: a folder of traces, or of windows.
        progress: called with the share of each Kineto trace read, 0 to 1.

    Returns:
        One repair for each Execution Trace with a Kineto trace; files without changes are not written.

    Raises:
        InputError: there is no pair, or the path is a URL or a store.
        OutputError: a file cannot be written.
    """
    if is_url(str(path)):
        advice = "Copy the folder to this machine, and repair the copy"
        raise InputError(
            shown(str(path)), "a repair rewrites files, which is impossible behind a URL", advice
        )
    with reading(path):
        is_there = Path(path).exists()
    if not is_there:
        raise InputError(str(path), "there is no such file or folder", "Check the path")
    if archive_of(with_files(path)) is not None:
        raise InputError(str(path), "archives are read-only", "Unpack it, and name the folder")
    if is_store(path):
        advice = "Repair the traces, and pack them again"
        raise InputError(str(path), "this is a store, whose traces cannot be rewritten", advice)
    windows = windows_of(str(path)) if Path(path).is_dir() else [("", str(path))]
    found = [files for _, folder in windows for files in _files(folder)]
    pairs = [
        (Path(files.et), files.kineto) for files in found if files.et is not None and files.kineto is not None
    ]
    if not pairs:
        raise InputError(str(path), "it contains no pair of traces", "A repair needs both traces of a rank")
    with reading(path):
        sizes = {et: et.stat().st_size for et, _ in pairs}
    done = [repaired for et, kineto in pairs for repaired in _repair_rank(et, kineto, progress)]
    written = {Path(repaired.path) for repaired in done if repaired.written}
    for file, content in manifests_of(str(path))[0] if Path(path).is_dir() else []:
        _note_sizes(Path(file), content, {et: size for et, size in sizes.items() if et in written})
    return tuple(done)


def _files(folder: str) -> tuple[RankFiles, ...]:
    try:
        return find_rank_files(folder)[0]
    except InputError:
        return ()


def _repair_rank(et: Path, kineto: str, progress: Progress | None) -> list[Repair]:
    try:
        linked = link(et, read_timeline(kineto, progress), matching="exact")
    except InputError:
        return []
    assert linked.et is not None
    errors = [*linked.et.findings, *linked.findings, *identity_findings(linked)]
    if is_arrow(et.name) or any(diagnosis.severity is Severity.ERROR for diagnosis in diagnose(errors)):
        return [Repair(str(et), linked.et.nodes.height, (), False)]
    new = part_beside(et, "repaired").with_suffix(et.suffix)
    try:
        with errors_named_as(new, et):
            done = write_repaired_et(linked, new)
        if done.written:
            with writing(et):
                _keep_original(et)
                new.replace(et)
    finally:
        new.unlink(missing_ok=True)
    return [replace(done, path=str(et))]


def _keep_original(et: Path) -> None:
    """Copy a file beside itself atomically; a link with the name of the copy is not followed."""
    original, number = et.with_name(et.name + ".orig"), 1
    while os.path.lexists(original):
        number += 1
        original = et.with_name(f"{et.name}.orig{number}")
    with whole_file(original) as part:
        shutil.copy2(et, part)


def _note_sizes(file: Path, content: dict[str, object], before: dict[Path, int]) -> None:
    """Update a manifest with the size of a repaired file."""
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
