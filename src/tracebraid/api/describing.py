"""What each file of a path is: of one file, of a folder, or of those that a store was packed from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tracebraid.analysis.info import execution_trace_info, timeline_info
from tracebraid.api.stored_jobs import is_store, open_store
from tracebraid.api.traces import info, trace_files
from tracebraid.errors import InputError
from tracebraid.model.engine import InProcess
from tracebraid.model.file_info import FileInfo
from tracebraid.model.job import Job
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress
from tracebraid.store.manifest import RankEntry
from tracebraid.store.opening import read_manifest

__all__ = ["AskInfo", "infos"]

AskInfo: TypeAlias = Callable[[Progress | None], FileInfo]
"""Reads a file and says what it is; reports its progress."""


def infos(path: str | Path) -> list[AskInfo]:
    """For each trace file of a path what says what it is, in the order of names; see `info`.

    Args:
        path: a file, a folder, or a store.

    Raises:
        InputError: a folder cannot be listed or has no trace, or the store is damaged.
    """
    if not is_store(path):
        return [partial(info, file) for file in trace_files([path])]
    job = open_store(path, Matching(), None, InProcess())
    packed = {files.rank for files in job.files if files.kineto is not None}
    entries = [entry for entry in read_manifest(Path(path)).ranks if entry.rank in packed]
    found: list[tuple[str, AskInfo]] = []
    for entry in entries:
        if entry.kineto is not None:
            found.append((entry.kineto.path, partial(_of_timeline, job, entry)))
        if entry.et is not None:
            found.append((entry.et.path, partial(_of_execution_trace, job, entry)))
    return [ask for _, ask in sorted(found, key=lambda named: Path(named[0]))]


def _of_timeline(job: Job, entry: RankEntry, _: Progress | None) -> FileInfo:
    linked = job[entry.rank]
    return timeline_info(linked.timeline, _size(entry, of_et=False))


def _of_execution_trace(job: Job, entry: RankEntry, _: Progress | None) -> FileInfo:
    et = job[entry.rank].et
    assert et is not None, "the rank has an Execution Trace"
    return execution_trace_info(et, _size(entry, of_et=True))


def _size(entry: RankEntry, of_et: bool) -> int:
    source = entry.et if of_et else entry.kineto
    if source is None or source.size_bytes is None:
        advice = "Pack it again: what is there already is kept"
        raise InputError(source.path if source else "", "its size is not known: it was never read", advice)
    return source.size_bytes
