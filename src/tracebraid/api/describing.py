"""Describe the files of a path: one file, a folder, or the sources of a store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from tracebraid.analysis.info import execution_trace_info, timeline_info
from tracebraid.api.stored_jobs import open_store
from tracebraid.api.traces import info
from tracebraid.importers.discovery import ranks_in_file, torch_of, trace_files
from tracebraid.importers.kineto.reader import read_rank
from tracebraid.model.engine import Job
from tracebraid.model.file_info import FileInfo
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.store.manifest import CAPTURE, CaptureFacts, is_store, read_sealed
from tracebraid.store.opening import check_capture
from tracebraid.store.rank_reader import read_content

DescribeFile: TypeAlias = Callable[[Progress | None], FileInfo]
"""Function that describes a file, and reports its progress."""


def infos(path: str | Path) -> list[DescribeFile]:
    """Return a describing function for each trace file of a path, or rank in it, in the order of names; see `info`."""
    if not is_store(path):
        return [ask for file in trace_files([path]) for ask in _of_file(file)]
    job = open_store(path, Matching())
    found: list[tuple[str, DescribeFile]] = []
    for files in job.files:
        if files.kineto is not None:
            found.append((files.kineto, partial(_of_timeline, Path(path), job, files)))
        if files.kineto is not None and files.et is not None:
            found.append((files.et, partial(_of_execution_trace, Path(path), job, files)))
    return [ask for _, ask in sorted(found, key=lambda named: Path(named[0]))]


def _of_file(path: str) -> list[DescribeFile]:
    """Describe a file, or each rank of a file of several ranks."""
    ranks, _ = ranks_in_file(path)
    return [partial(_of_rank, path, files) for files in ranks] or [partial(info, path)]


def _of_rank(path: str, files: RankFiles, progress: Progress | None) -> FileInfo:
    timeline = read_rank(path, files.rank, files.label, progress)
    return timeline_info(timeline, timeline.size_bytes or 0)


def _of_timeline(store: Path, job: Job, files: RankFiles, _: Progress | None) -> FileInfo:
    linked, source = job.load(files, None), read_content(store, files.rank).kineto
    return with_torch(store, timeline_info(linked.timeline, source.size_bytes or 0))


def _of_execution_trace(store: Path, job: Job, files: RankFiles, _: Progress | None) -> FileInfo:
    et, source = job.load(files, None).et, read_content(store, files.rank).et
    assert et is not None, "the rank has an Execution Trace"
    assert source is not None, "it was read from a file"
    return with_torch(store, execution_trace_info(et, source.size_bytes or 0))


def with_torch(store: str | Path | None, found: FileInfo) -> FileInfo:
    """With the version of torch that the manifest names: beside the trace, or packed with it in a store."""
    manifests = None
    if store is not None:
        if not (Path(store) / CAPTURE).exists():
            return found
        manifests = read_sealed(Path(store) / CAPTURE, CaptureFacts, check_capture)[0].manifests
    return replace(found, torch=torch_of(found.path, manifests) or found.torch)
