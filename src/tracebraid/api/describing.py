"""What each file of a path is: of one file, of a folder, or of those that a store was packed from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tracebraid.analysis.info import execution_trace_info, timeline_info
from tracebraid.api.stored_jobs import is_store, open_store
from tracebraid.api.traces import info, trace_files
from tracebraid.model.engine import InProcess
from tracebraid.model.file_info import FileInfo
from tracebraid.model.job import Job
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.store.rank_reader import read_content

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
    found: list[tuple[str, AskInfo]] = []
    for files in job.files:
        if files.kineto is not None:
            found.append((files.kineto, partial(_of_timeline, Path(path), job, files)))
        if files.kineto is not None and files.et is not None:
            found.append((files.et, partial(_of_execution_trace, Path(path), job, files)))
    return [ask for _, ask in sorted(found, key=lambda named: Path(named[0]))]


def _of_timeline(store: Path, job: Job, files: RankFiles, _: Progress | None) -> FileInfo:
    linked = job.load(files, None)
    return timeline_info(linked.timeline, read_content(store, files.rank).kineto.size_bytes or 0)


def _of_execution_trace(store: Path, job: Job, files: RankFiles, _: Progress | None) -> FileInfo:
    et, source = job.load(files, None).et, read_content(store, files.rank).et
    assert et is not None, "the rank has an Execution Trace"
    assert source is not None, "it was read from a file"
    return execution_trace_info(et, source.size_bytes or 0)
