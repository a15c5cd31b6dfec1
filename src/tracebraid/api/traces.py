"""Traces: opened, linked, and written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.api.engines import IN_PROCESS, engine_of
from tracebraid.filesystem.choose import archive_of, in_archive, with_files
from tracebraid.filesystem.paths import shown, text_of
from tracebraid.importers.discovery import facts_beside, find_rank_files, recorder_of, torch_of
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_rank, read_timeline
from tracebraid.importers.reading_cost import reading_cost
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.capture_facts import METADATA
from tracebraid.model.choices import choice
from tracebraid.model.device_peaks import DevicePeaks, peaks_named
from tracebraid.model.engine import Engine, Job, Load, LoadingWork, RankCost, Unreadable
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.file_info import FileInfo
from tracebraid.model.gaps import FoundGap
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles, RankOrigin
from tracebraid.model.stage import Stage
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.timeline import Timeline
from tracebraid.store.manifest import is_store

if TYPE_CHECKING:
    from tracebraid.filesystem.archives.archive_files import ArchiveFiles


def open(
    path: str | Path,
    matching: Matching | str = "auto",
    window: int | None = None,
    *,
    engine: Engine | str = IN_PROCESS,
    ranks: str | Iterable[int] | None = None,
    sample: int | None = None,
    cache: bool = False,
    device: str | None = None,
    annotation: str = PROFILER_STEP,
    unreadable: Unreadable | str = Unreadable.RAISE,
    progress: Progress | None = None,
) -> Job:
    """Open a folder of traces, one Kineto trace, or a store as a job.

    A Kineto trace is read when its rank is first used, an Execution Trace when it is needed: links and coverage
    need it; `breakdown`, `kernels`, `ops`, `steps` and dependencies do not.

    In a capture of several windows, each is a job; by default the last is opened.

    Args:
        path: the folder, the file, or the store that `pack` wrote.
        matching: as in `link`; for a store, `auto` means as packed.
        window: which window of a capture, from 0; None for the last one.
        engine: engine for questions over many ranks, see `engine_of`. By default this process, in which they may have
            side effects; `auto` uses worker processes if ranks are large or many.
        ranks: open only these, as numbers or text (`0,8-15,32-`); a finding of the job states the limits of answers.
        sample: open this many ranks, proportional over hosts and parallel groups, including the first and the last.
        cache: whether to cache parsed ranks beside the traces for the next time.
        device: the device that did the work, for its peaks, such as `H100 SXM`; None: the one that each trace names.
        annotation: the name of the annotation that marks a step, such as `train_step`; see `analyses.steps`.
        unreadable: what answers over several ranks do about a rank that cannot be read, or that several files state:
            `raise` its error, or `skip` it. A skipped rank is left out of the answer, and `job.findings` says why; if
            no rank can be read, the first error is raised. `job[rank]` always raises.
        progress: called with the finished share of each pass over the ranks, 0 to 1.

    Raises:
        InputError: there is no Kineto trace, or no such window; or the store is damaged or of a newer version.
        ArgumentError: the matching, engine, rank, device or policy is unknown, or both `ranks` and `sample` are given.

    Examples:
        >>> import tracebraid
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> job.ranks
        [0, 1]
        >>> job[0].coverage.host_ops.share
        1.0
    """
    how = Matching(matching) if isinstance(matching, str) else matching
    policy = choice(Unreadable, unreadable, "policy for unreadable ranks")
    runs_in = engine_of(engine) if isinstance(engine, str) else engine
    peaks = None if device is None else peaks_named(device)
    choose = None if ranks is None and sample is None else _chosen(path, ranks, sample)
    job = (
        _opened_store(path, how, window, peaks is None)
        if is_store(path)
        else _opened_traces(path, how, window, cache)
    )
    job = dataclasses.replace(
        job,
        engine=runs_in,
        unreadable=policy,
        progress=progress,
        answer_sql=_answer_sql,
        annotation=annotation,
        judge=_gaps,
    )
    if peaks is not None:
        job = dataclasses.replace(job, load=_OnDevice(job.load, peaks))
    return job if choose is None else choose(job)


def _opened_store(path: str | Path, matching: Matching, window: int | None, with_answers: bool) -> Job:
    from tracebraid.api.stored_jobs import open_store

    return open_store(path, matching, window, with_answers=with_answers)


def _opened_traces(path: str | Path, matching: Matching, window: int | None, cache: bool) -> Job:
    named = with_files(path)
    files, findings = find_rank_files(named, window)
    load: Load = ReadAndLink(matching, archive_of(named))
    if cache:
        from tracebraid.api.caching import cached_load

        load, noticed = cached_load(load, named, matching)
        findings = (*findings, *noticed)
    return Job(shown(path), files, load, findings)


def _chosen(path: str | Path, ranks: str | Iterable[int] | None, sample: int | None) -> Callable[[Job], Job]:
    """Restriction of the opened job to some of its ranks."""
    from tracebraid.api.choosing_ranks import RankChoice, with_chosen_ranks

    choice = RankChoice(ranks, sample)
    return lambda job: with_chosen_ranks(job, choice, partial(_origins, path, archive_of_load(job.load)))


class _OnDevice(LoadingWork, frozen=True):
    """Opens ranks whose device the caller named."""

    peaks: DevicePeaks

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        linked: LinkedTrace = self.load(files, progress)
        return dataclasses.replace(linked, named_device=self.peaks)


def _gaps(linked: LinkedTrace) -> tuple[FoundGap, ...]:
    """The gaps of a rank; imported with the first question."""
    from tracebraid.analysis.gaps import gaps

    return gaps(linked)


def _origins(path: str | Path, archive: ArchiveFiles | None, files: Sequence[RankFiles]) -> list[RankOrigin]:
    """Where ranks ran, as their traces' headers say."""
    if is_store(path):
        from tracebraid.api.stored_jobs import stored_origins

        return stored_origins(path, files)
    from tracebraid.importers.sampling import rank_origins

    return rank_origins(files, archive)


def _answer_sql(job: Job, query: str, **options: Any) -> pl.DataFrame:
    """Run `tracebraid.sql`; its imports, such as every analysis, are loaded only for a query."""
    from tracebraid.api.querying import sql

    return sql(job, query, **options)


class ReadAndLink(Struct, frozen=True):
    """Opens a rank of a folder of traces."""

    matching: Matching
    archive: ArchiveFiles | None = None

    def cost(self, files: RankFiles) -> RankCost | None:
        """See `EstimatedWork`."""
        located = in_archive(self.archive, files)
        return reading_cost(located.kineto, located.et)

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """See `Load`."""
        located = in_archive(self.archive, files)
        assert located.kineto is not None, "a job opens only ranks that have a Kineto trace"
        kineto, et_path = located.kineto, located.et
        et = None if et_path is None else Stage(partial(_read_et, et_path))
        timeline = _with_facts(read_rank(kineto, files.rank, files.label, progress), kineto)
        return link_traces(timeline, et, self.matching)


def archive_of_load(load: object) -> ArchiveFiles | None:
    """Return the archive that a job's loader reads; None if it reads no archive."""
    if isinstance(load, LoadingWork):
        return archive_of_load(load.load)
    return load.archive if isinstance(load, ReadAndLink) else None


def link(
    et: str | Path | ExecutionTrace | None,
    kineto: str | Path | Timeline,
    matching: Matching | str = "auto",
) -> LinkedTrace:
    """Link an Execution Trace and a Kineto trace of one rank, or a Kineto trace on its own.

    The two may be of different runs of one program: an Execution Trace is recorded once and linked with later
    profiles. Then they are matched op by op, and `LinkedTrace.matched` holds the mapping.

    Both are read and their ops linked at once, so that errors are raised here; everything else is computed
    on demand.

    Args:
        et: the Execution Trace, or its path; None: Kineto only.
        kineto: the Kineto trace, or its path.
        matching: `exact` by ids, `approximate` by alignment, `auto` by ids if these are proven, else by
            alignment; or a `Matching`, which also selects iterations.

    Raises:
        InputError: a file cannot be read, or is of the wrong kind.
        ProgramError: ids prove nothing, and the two are of different programs.
        ArgumentError: the matching is unknown, or its annotation or iteration does not exist.
    """
    how = Matching(matching) if isinstance(matching, str) else matching
    trace = _read_et(et) if isinstance(et, str | Path) else et
    timeline = _with_facts(read_timeline(kineto), kineto) if isinstance(kineto, str | Path) else kineto
    linked = link_traces(timeline, trace, how).judged_by(_gaps)
    linked.stages.host_links()
    return linked


def info(path: str | Path, progress: Progress | None = None) -> FileInfo:
    """Describe a trace file: kind, schema, torch, devices, rank, time span, steps, counts.

    Args:
        path: the file.
        progress: called with the share of a Kineto trace read, 0 to 1.

    Raises:
        InputError: it cannot be read, or is not a trace.
    """
    from tracebraid.analysis.info import execution_trace_info, timeline_info
    from tracebraid.importers.trace import read_trace

    trace, size_bytes = read_trace(path, progress)
    if isinstance(trace, ExecutionTrace):
        found = execution_trace_info(trace, size_bytes)
    else:
        found = timeline_info(trace, size_bytes)
    return replace(found, torch=torch_of(text_of(path)) or found.torch)


def demo_path() -> Path:
    """Return the folder of the bundled traces: two ranks of a small transformer, trained on CPU with DDP over gloo."""
    return Path(__file__).parents[1] / "demo_traces" / "ddp_cpu_2rank"


def _with_facts(timeline: Timeline, path: str | Path) -> Timeline:
    """The Kineto trace at a path, with the facts of a capture that its manifest has."""
    facts = timeline.header.get(METADATA)
    if not isinstance(facts, dict) or not (beside := facts_beside(text_of(path), facts)):
        return timeline
    return dataclasses.replace(timeline, header={**timeline.header, METADATA: {**facts, **beside}})


def _read_et(path: str | Path) -> ExecutionTrace:
    """Read the Execution Trace, with the recorder that the manifest beside it names."""
    return dataclasses.replace(read_execution_trace(path), recorder=recorder_of(text_of(path)))
