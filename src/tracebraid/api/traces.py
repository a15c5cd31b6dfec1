"""Traces: opened, linked, and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.analysis.info import execution_trace_info, timeline_info
from tracebraid.api.caching import CachedLoad, cache_for
from tracebraid.api.choosing_ranks import RankChoice, with_chosen_ranks
from tracebraid.api.engines import IN_PROCESS, engine_of
from tracebraid.api.stored_jobs import is_store, open_store, stored_origins
from tracebraid.exporters.et_plus.trace_link_form import write_trace_link_et
from tracebraid.exporters.et_plus.writer import write_et_plus
from tracebraid.filesystem.archives.archive_files import ArchiveFiles
from tracebraid.filesystem.choose import archive_of, in_archive, with_files
from tracebraid.filesystem.paths import shown, text_of
from tracebraid.importers.discovery.capture_folder import recorder_of
from tracebraid.importers.discovery.discover import find_rank_files, trace_files
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.importers.reading_cost import reading_cost
from tracebraid.importers.sampling.rank_origins import rank_origins
from tracebraid.importers.trace import read_trace
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.engine import Engine, RankCost
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job, Load
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.model.stage import Stage
from tracebraid.model.timeline import Timeline
from tracebraid.store.manifest import PackOptions
from tracebraid.version import __version__

__all__ = [
    "Progress",
    "ReadAndLink",
    "archive_of_load",
    "demo_path",
    "info",
    "link",
    "open",
    "read_execution_trace",
    "read_timeline",
    "trace_files",
    "write_et_plus",
    "write_trace_link_et",
]


def open(
    path: str | Path,
    processes: int | None = None,
    matching: Matching | str = "auto",
    window: int | None = None,
    *,
    engine: Engine | str = IN_PROCESS,
    ranks: str | Iterable[int] | None = None,
    sample: int | None = None,
    cache: bool = False,
) -> Job:
    """Open a folder of traces, one Kineto trace, or a store as a job.

    A Kineto trace is read when its rank is asked for, an Execution Trace when something needs it: links and coverage
    do; `breakdown`, `kernels`, `ops`, `steps` and dependencies do not.

    A capture of several windows is a job for each: the last one, unless another is named.

    Args:
        path: the folder, the file, or the store that `pack` wrote.
        processes: how many processes may decode one file; None: as many as its size is worth.
        matching: as in `link`; of a store `auto` means as it was packed.
        window: which window of a capture, from 0; None for the last one.
        engine: how questions to many ranks run, see `engine_of`. By default in this process, where they may have
            effects; `auto` uses worker processes where the ranks are large or many.
        ranks: only these, as numbers or as text (`0,8-15`); a finding of the job says what answers then cannot know.
        sample: only so many ranks, in proportion of all hosts and parallel groups, the first and the last among them.
        cache: whether ranks are kept beside the traces in the form of a store, and taken from there the next time.

    Raises:
        InputError: there is no Kineto trace, or no such window; or the store is damaged or of a newer version.
        ArgumentError: there is no such matching, engine or rank, or both `ranks` and `sample` are given.

    Examples:
        >>> import tracebraid
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> job.ranks
        [0, 1]
        >>> job[0].coverage.host_ops.share
        1.0
    """
    choice = RankChoice(ranks, sample)
    how = Matching(matching) if isinstance(matching, str) else matching
    runs_in = engine_of(engine) if isinstance(engine, str) else engine
    if is_store(path):
        job = replace(open_store(path, how, window, runs_in), answer_sql=_answer_sql)
        return with_chosen_ranks(job, choice, partial(stored_origins, path))
    named = with_files(path)
    archive = archive_of(named)
    files, findings = find_rank_files(named, window)
    load: Load = ReadAndLink(processes, how, archive)
    if cache:
        load, noticed = _cached(load, named, how)
        findings = (*findings, *noticed)
    job = Job(shown(path), files, load, findings, runs_in, answer_sql=_answer_sql)
    return with_chosen_ranks(job, choice, partial(rank_origins, archive=archive))


def _answer_sql(job: Job, query: str, **options: Any) -> pl.DataFrame:
    """See `tracebraid.sql`; what it needs, such as every analysis, is loaded for a query alone."""
    from tracebraid.api.querying.sql import sql

    return sql(job, query, **options)


@dataclass(frozen=True)
class ReadAndLink:
    """Opens a rank of a folder of traces."""

    processes: int | None
    matching: Matching
    archive: ArchiveFiles | None = None

    def cost(self, files: RankFiles) -> RankCost | None:
        """See `ScalableWork`."""
        located = in_archive(self.archive, files)
        return reading_cost(located.kineto, located.et)

    def with_processes(self, processes: int) -> ReadAndLink:
        """See `ScalableWork`; what the caller asked for stays."""
        return replace(self, processes=self.processes or processes)

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """See `Load`."""
        located = in_archive(self.archive, files)
        assert located.kineto is not None, "a job opens only ranks that have a Kineto trace"
        kineto, et_path = located.kineto, located.et
        et = None if et_path is None else Stage(partial(_read_with_recorder, et_path, self.processes))
        return link_traces(read_timeline(kineto, self.processes, progress), et, self.matching)


def _cached(load: Load, path: str, matching: Matching) -> tuple[Load, list[Finding]]:
    """The loader that takes ranks from the cache of a path, and what is wrong where there is none."""
    kept, adds, findings = cache_for(path)
    if kept is None:
        return load, findings
    options = PackOptions(__version__, matching.match, matching.annotation, matching.iteration)
    return CachedLoad(load, kept, options, archive_of(path), adds), findings


def archive_of_load(load: object) -> ArchiveFiles | None:
    """The archive that a job's loader reads; None where it is none."""
    return load.archive if isinstance(load, ReadAndLink | CachedLoad) else None


def link(
    et: str | Path | ExecutionTrace | None,
    kineto: str | Path | Timeline,
    processes: int | None = None,
    matching: Matching | str = "auto",
) -> LinkedTrace:
    """Link an Execution Trace and a Kineto trace of one rank, or a Kineto trace on its own.

    The two may be of different runs of one program: an Execution Trace is taken once, and linked with what is
    profiled later. They are matched op by op then, and `LinkedTrace.matched` says what with what.

    Both are read and their ops linked at once, so that what is wrong with them is raised here; all else is computed
    when it is asked for.

    Args:
        et: the Execution Trace, or its path; None for none.
        kineto: the Kineto trace, or its path.
        processes: how many processes may decode the Kineto trace; None: as many as its size is worth.
        matching: `exact` by ids, `approximate` by alignment, `auto` by ids where these are proven, else by
            alignment; or a `Matching`, which chooses iterations, too.

    Raises:
        InputError: a file cannot be read, or is of the other kind.
        ProgramError: ids prove nothing, and the two are of different programs.
        ArgumentError: there is no such matching, or not the annotation or iteration that it asks for.
    """
    how = Matching(matching) if isinstance(matching, str) else matching
    trace = _read_with_recorder(et) if isinstance(et, str | Path) else et
    timeline = read_timeline(kineto, processes) if isinstance(kineto, str | Path) else kineto
    linked = link_traces(timeline, trace, how)
    linked.stages.host_links()
    return linked


def info(path: str | Path, progress: Progress | None = None) -> FileInfo:
    """Say what a trace file is: kind, schema, torch, devices, rank, time span, steps, counts.

    Args:
        path: the file.
        progress: is called with the share of a Kineto trace that is read, 0 to 1.

    Raises:
        InputError: it cannot be read, or is no trace.
    """
    trace, size_bytes = read_trace(path, progress)
    if isinstance(trace, ExecutionTrace):
        return execution_trace_info(trace, size_bytes)
    return timeline_info(trace, size_bytes)


def demo_path() -> Path:
    """The folder of the bundled traces: two ranks of a small transformer, trained on CPU with DDP over gloo."""
    return Path(__file__).parents[1] / "demo_traces" / "ddp_cpu_2rank"


def _read_with_recorder(path: str | Path, processes: int | None = None) -> ExecutionTrace:
    """The Execution Trace, with the recorder that the manifest beside it names."""
    return replace(read_execution_trace(path, processes), recorder=recorder_of(text_of(path)))
