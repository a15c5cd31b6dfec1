"""Traces into a store, which answers as they do and is read in a tenth of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import polars as pl

from tracebraid.analysis.antipatterns.catalog import job_detectors
from tracebraid.analysis.catalog import job_analyses, rank_analyses
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.gaps import unseen_communication
from tracebraid.analysis.metrics.catalog import built_in_metrics
from tracebraid.analysis.metrics.memory import memory_of_devices
from tracebraid.analysis.metrics.metrics import measured_steps
from tracebraid.analysis.needs import HAS, has_key
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.analysis.ranks.segments import rank_segments
from tracebraid.api.advising import ADVICE_QUESTIONS
from tracebraid.api.choosing_ranks import RankChoice, with_chosen_ranks
from tracebraid.api.engines import AUTO
from tracebraid.api.traces import archive_of_load
from tracebraid.api.traces import open as open_job
from tracebraid.errors import ArgumentError, InputError, OutputError
from tracebraid.files import write_whole, writing
from tracebraid.filesystem.choose import file_system_of, in_archive
from tracebraid.filesystem.interface import Kind
from tracebraid.filesystem.paths import ResolvedPath, parent_of
from tracebraid.importers.discovery import manifests_of, size_beside, windows_of, with_text_path
from tracebraid.importers.sampling import rank_origins
from tracebraid.importers.source_files import State, fingerprint, is_unchanged, state_of, unless_changed
from tracebraid.linking.cut_steps import cut_to_steps
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.analysis import Stored
from tracebraid.model.engine import Engine, Job, LoadingWork, rank_left_out
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import Gather, gather_key
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.packed import Packed
from tracebraid.model.quantities import number_ranges
from tracebraid.model.rank_files import Progress, RankFiles, SourceFile, of_reading
from tracebraid.model.step import PROFILER_STEP
from tracebraid.store.answers.joined import (
    Answered,
    TouchedTrace,
    answers_file,
    facts_of,
    join_answers,
    write_answers,
)
from tracebraid.store.findings import error_of, stored_error, stored_findings
from tracebraid.store.manifest import (
    CAPTURE,
    FORMAT_VERSION,
    MANIFEST,
    CaptureFacts,
    Manifest,
    PackOptions,
    RankEntry,
    is_other,
    is_store,
    linked_folder,
    locked,
    rank_file,
    remove_parts,
    sealed,
    whole_rank,
)
from tracebraid.store.opening import forget_rank, packed_ranks, read_manifest, write_rank
from tracebraid.validation.manifest import leftover_findings, manifest_findings
from tracebraid.version import __version__


def capture_facts(job: Job) -> CaptureFacts | None:
    """Gather the facts beside the traces of a job; None for a job of one file."""
    archive = archive_of_load(job.load)
    folder_of_job = job.path if archive is None else ResolvedPath.of(job.path, archive)
    files = file_system_of(folder_of_job)
    if files.kind(folder_of_job) is not Kind.FOLDER:
        return None
    inside = tuple(files.entries(folder_of_job))
    manifests, findings = manifests_of(folder_of_job)
    for file, content in manifests:
        findings += manifest_findings(content, file, partial(size_beside, file))
    of_traces = {parent_of(of_rank.kineto) for of_rank in job.files if of_rank.kineto is not None}
    windows = [(name, path) for name, path in windows_of(folder_of_job, inside) if path in of_traces]
    name, folder = windows[0] if windows else ("", folder_of_job)
    names = [entry.name for entry in files.entries(folder)]
    return CaptureFacts(
        format=FORMAT_VERSION,
        folder=str(folder),
        window=name,
        manifests=tuple((str(file), content) for file, content in manifests),
        findings=stored_findings(map(with_text_path, findings)),
        leftovers=stored_findings(map(with_text_path, leftover_findings(folder, names))),
    )


_Question: TypeAlias = Callable[[LinkedTrace], Any]

_MANY_EVENTS = 100_000
"""Maximum events of a rank for slow answers: for the 54 MB trace (220,000 events) they take
two thirds of the reading time."""
_MOST_ROWS = 20_000
"""Maximum size of a stored answer; larger ones are computed on demand."""

_SLOW_GATHERS: tuple[Gather, ...] = (rank_segments, measured_steps, memory_of_devices)
"""Slow inputs of job analyses and metrics."""


def stored_questions(events: int) -> dict[str, _Question]:
    """Return the questions by name."""
    gathers: dict[Gather, None] = dict.fromkeys(
        (
            members,
            measured_steps,
            *(gather for analysis in job_analyses() for gather in analysis.gathers),
            *(gather for metric in built_in_metrics() for gather in metric.gathers),
        )
    )
    stored = {Stored.ALWAYS}
    found: dict[str, _Question] = {
        "rank_facts": rank_facts,
        "unseen_communication": unseen_communication,
        **{has_key(need): has for need, has in HAS.items()},
    }
    if events > _MANY_EVENTS:
        for gather in _SLOW_GATHERS:
            gathers.pop(gather)
    else:
        stored.add(Stored.OF_FEW_EVENTS)
        found |= ADVICE_QUESTIONS
        gathers |= dict.fromkeys(gather for detector in job_detectors() for gather in detector.gathers)
    for gather in gathers:
        key = gather_key(gather)
        assert key is not None, "it is a function of this package"
        found[key] = gather
    return found | {
        analysis.key: analysis.answer for analysis in rank_analyses() if analysis.stored in stored
    }


def store_answers(store: Path, rank: int, linked: LinkedTrace) -> None:
    """Answer the questions of a rank, and write the answers; a rank that cannot be linked has none."""
    answers_file(store, rank).unlink(missing_ok=True)
    try:
        linked.compute_all()
    except (InputError, ArgumentError):
        return
    write_answers(store, rank, facts_of(linked), dict(_answers(linked)))


def _answers(linked: LinkedTrace) -> Iterator[tuple[str, Answered]]:
    """Return the answers, and the stages touched for each."""
    trace = TouchedTrace.of(linked.with_annotation(PROFILER_STEP))
    for key, question in stored_questions(linked.timeline.events.height).items():
        answer, touched = trace.asked(question)
        if not isinstance(answer, pl.DataFrame) or answer.height <= _MOST_ROWS:
            yield key, (answer, touched)


class PackRank(LoadingWork, frozen=True):
    """Reads a rank and writes it to a store; run by an engine.

    Args:
        store: the folder of the store.
        options: the options of the pack.
    """

    store: str
    options: PackOptions

    def __call__(self, files: RankFiles, progress: Progress | None) -> RankEntry:
        """See `RankWork`."""
        located = in_archive(archive_of_load(self.load), files)
        assert located.kineto is not None, "only ranks that have a Kineto trace are packed"
        before = state_of(located.kineto)
        et_before = None if located.et is None else state_of(located.et)
        with ThreadPoolExecutor(1) as beside:
            kineto = beside.submit(fingerprint, located.kineto)
            linked = self.load(files, of_reading(progress))
        # A file that was changed while it was read is packed again by the next pack.
        sources = (
            unless_changed(kineto.result(), located.kineto, before),
            _fingerprint_of_et(located.et, et_before),
        )
        store_answers(Path(self.store), files.rank, linked)
        return write_rank(Path(self.store), linked, files.rank, sources, self.options)


class LoadSteps(LoadingWork, frozen=True):
    """Opens a rank, cut to some steps.

    Args:
        matching: how its two traces are matched.
        steps: the numbers of the steps.
    """

    matching: Matching
    steps: tuple[range, ...]

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """See `Load`."""
        whole: LinkedTrace = self.load(files, progress)
        timeline = cut_to_steps(whole.timeline, whole.launches, self.steps)
        return link_traces(timeline, whole.stages.et, self.matching)


def _fingerprint_of_et(path: str | None, before: State | None) -> SourceFile | None:
    """Return only the path of an unreadable Execution Trace: the rank is packed without it, and retried later."""
    if path is None or before is None:
        return None
    try:
        return unless_changed(fingerprint(path), path, before)
    except InputError:
        return SourceFile(str(path))


_ANOTHER = "Name another path; or pack all of it again (--from-scratch, from_scratch=True)"


def pack(
    path: str | Path,
    out: str | Path,
    *,
    engine: Engine | str = AUTO,
    matching: Matching | str = "auto",
    window: int | None = None,
    steps: str | None = None,
    ranks: str | Iterable[int] | None = None,
    sample: int | None = None,
    from_scratch: bool = False,
    progress: Progress | None = None,
) -> Packed:
    """Pack a folder of traces, or one Kineto trace, into a store: every table of every rank in Parquet.

    `open` and all commands accept the store in place of the traces, with equal answers. An existing store
    is updated: only ranks that are new, changed, or could not be read are packed.

    Args:
        path: the folder or file.
        out: the folder of the store, such as `job.tbstore`.
        engine: how the work over the ranks runs, see `engine_of`.
        matching: as in `link`.
        window: window of a capture, from 0; None: the last one.
        steps: numbers of the profiler's steps, such as `3,5-8`: only these are packed, and the store records
            it; None: all. See docs/store.md.
        ranks: pack only these now; the store reports the others as missing until they are packed.
        sample: pack a sample of this many ranks now, as in `open`.
        from_scratch: whether to pack existing ranks again, and drop those whose traces were deleted.
        progress: called with the share of packed ranks, 0 to 1.

    Raises:
        InputError: there is no Kineto trace, or no readable rank.
        OutputError: the store cannot be written, is being written by another process, or belongs to other traces.
        ArgumentError: the matching, engine or rank is unknown.

    Example::

        tracebraid.pack("traces/", "job.tbstore")
        job = tracebraid.open("job.tbstore")
    """
    store, how = Path(out), Matching(matching) if isinstance(matching, str) else matching
    if is_store(path):
        raise InputError(str(path), "this is already a store", "Pack the folder of the traces")
    _refuse_target(store, Path(path))
    job = open_job(path, matching=how, window=window, engine=engine)
    if steps is not None:
        job = replace(job, load=LoadSteps(job.load, how, number_ranges(steps, "steps")))
    options = PackOptions(__version__, how.match, how.annotation, how.iteration, window, steps)
    with writing(store):
        store.mkdir(parents=True, exist_ok=True)
    with locked(store):
        remove_parts(store)
        origins = partial(rank_origins, archive=archive_of_load(job.load))
        chosen = frozenset(with_chosen_ranks(job, RankChoice(ranks, sample), origins).ranks)
        if from_scratch:
            for rank in packed_ranks(store) - (set(job.ranks) - chosen):
                forget_rank(store, rank)
        else:
            _refuse_other_job(store, job, options)
        packed = _pack(job, store, options, chosen, progress)
        # What a worker was writing that was killed: another has written that rank since.
        remove_parts(store)
        return packed


def _pack(
    job: Job, store: Path, options: PackOptions, chosen: frozenset[int], progress: Progress | None
) -> Packed:
    kept = _kept(store, job, options)
    entries = {files.rank: _expected(files) for files in job.files} | kept
    _write_manifest(store, job, options, entries.values(), complete=False)
    capture = capture_facts(job)
    if capture is not None:
        write_whole(store / CAPTURE, [sealed(capture)], overwrite=True)
    missing = [files for files in job.files if files.rank in chosen and files.rank not in kept]
    errors: list[tuple[RankFiles, InputError]] = []
    packed = []
    for outcome in job.engine.outcomes(PackRank(job.load, str(store), options), missing, progress):
        rank = outcome.files.rank
        if outcome.error is None:
            entries[rank] = outcome.value()
            _check_visible(store, rank)
            packed.append(rank)
        else:
            forget_rank(store, rank)
            errors.append((outcome.files, outcome.error))
            entries[rank] = msgspec.structs.replace(entries[rank], error=stored_error(outcome.error))
    descriptions = {rank: entry.sha256 for rank, entry in entries.items() if entry.sha256 is not None}
    join_answers(store, descriptions, (FORMAT_VERSION, options.writer))
    complete = all(entry.kineto is None or entry.sha256 or entry.error for entry in entries.values())
    _write_manifest(store, job, options, entries.values(), complete)
    if errors and not packed and not kept:
        raise errors[0][1]
    return Packed(
        path=str(store),
        packed=tuple(packed),
        kept=tuple(sorted(kept)),
        failed=tuple(files.rank for files, _ in errors),
        size_bytes=sum(entry.size_bytes or 0 for entry in entries.values()),
        findings=(
            *job.findings,
            *(rank_left_out(files.rank, error) for files, error in errors),
            *(_unlinked(entries[rank]) for rank in packed if entries[rank].link_error is not None),
        ),
    )


def _check_visible(store: Path, rank: int) -> None:
    """Check that a worker's files are visible here: a cluster node may have its own folder of that name."""
    if not rank_file(store, rank).exists():
        problem = f"rank {rank} was packed on a node that does not share this folder"
        raise OutputError(str(store), problem, "Name a folder on a file system that all nodes share")


def _kept(store: Path, job: Job, options: PackOptions) -> dict[int, RankEntry]:
    """Return the ranks already packed with these options, whose files are unchanged or deleted."""
    paths, archive = {files.rank: files for files in job.files}, archive_of_load(job.load)
    found = {}
    for rank in packed_ranks(store):
        entry = whole_rank(store, rank, options)
        if entry is not None and (rank not in paths or _is_of(entry, in_archive(archive, paths[rank]))):
            found[rank] = entry
        elif rank not in paths:
            forget_rank(store, rank)
    return found


def _is_of(entry: RankEntry, files: RankFiles) -> bool:
    """Return whether an entry describes these files, and they are unchanged."""
    pairs = ((entry.kineto, files.kineto), (entry.et, files.et))
    return all(
        (known is None) == (path is None)
        and (known is None or (known.path == path and is_unchanged(known, path)))
        for known, path in pairs
    )


def _expected(files: RankFiles) -> RankEntry:
    return RankEntry(
        files.rank,
        None if files.kineto is None else SourceFile(files.kineto),
        None if files.et is None else SourceFile(files.et),
    )


def _write_manifest(
    store: Path, job: Job, options: PackOptions, entries: Iterable[RankEntry], complete: bool
) -> None:
    manifest = Manifest(
        format=FORMAT_VERSION,
        options=options,
        path=job.path,
        complete=complete,
        findings=stored_findings(job.findings),
        ranks=tuple(sorted(entries, key=lambda entry: entry.rank)),
    )
    write_whole(store / MANIFEST, [sealed(manifest)], overwrite=True)


def _unlinked(entry: RankEntry) -> Finding:
    assert entry.link_error is not None, "only entries with an error are asked"
    error = error_of(entry.link_error)
    path, problem = (error.path, error.problem) if isinstance(error, InputError) else ("", str(error))
    return Finding.of(FindingCode.STORE_UNLINKED, path, rank=entry.rank, problem=problem)


def _refuse_target(store: Path, path: Path) -> None:
    """Reject a target that is not a store, or lies among the traces."""
    with writing(store):
        other = is_other(store)
        inside = path.is_dir() and store.resolve().is_relative_to(path.resolve())
    if other:
        raise OutputError(str(store), "it exists, and is not a store", "Name another path")
    link = linked_folder(store)
    if link is not None:
        raise OutputError(
            str(link), "this folder of the store is a link", "Name another path, or delete it first"
        )
    if inside:
        raise OutputError(str(store), "it lies in the folder of the traces", "Name a path outside it")


def _refuse_other_job(store: Path, job: Job, options: PackOptions) -> None:
    """Reject the store of another job, or other options, since existing data would be lost.

    Ranks that another version of Tracebraid packed are packed again.
    """
    try:
        known = read_manifest(store)
    except InputError as error:
        if (store / MANIFEST).exists():
            raise OutputError(error.path, error.problem, _ANOTHER) from None
        return
    if known.path != job.path:
        raise OutputError(str(store), f"this is the store of {known.path}", _ANOTHER)
    if msgspec.structs.replace(known.options, writer=options.writer) != options:
        raise OutputError(str(store), "it was packed with other options", _ANOTHER)
