"""Traces into a store, which answers as they do and is read in a tenth of the time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from tracebraid.api.capture_facts import capture_facts
from tracebraid.api.choosing_ranks import RankChoice, with_chosen_ranks
from tracebraid.api.engines import AUTO
from tracebraid.api.pack_rank import LoadSteps, PackRank
from tracebraid.api.traces import archive_of_load
from tracebraid.api.traces import open as open_job
from tracebraid.errors import InputError, OutputError
from tracebraid.files import write_whole, writing
from tracebraid.filesystem.choose import in_archive
from tracebraid.importers.discovery.fingerprint import is_unchanged
from tracebraid.importers.sampling.rank_origins import rank_origins
from tracebraid.model.engine import Engine
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.job import Job
from tracebraid.model.matching import Matching
from tracebraid.model.number_ranges import number_ranges
from tracebraid.model.packed import Packed
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.model.source_file import SourceFile
from tracebraid.store.answers.joined import join_answers
from tracebraid.store.entries import whole_rank
from tracebraid.store.findings import error_of, stored_error, stored_findings
from tracebraid.store.layout import CAPTURE, FORMAT_VERSION, MANIFEST, is_store, rank_file
from tracebraid.store.leftovers import is_other, remove_parts
from tracebraid.store.lock import locked
from tracebraid.store.manifest import Manifest, PackOptions, RankEntry
from tracebraid.store.opening import packed_ranks, read_manifest
from tracebraid.store.rank_writer import forget_rank
from tracebraid.store.sealed_json import sealed
from tracebraid.store.stored_file import linked_folder
from tracebraid.version import __version__

__all__ = ["pack"]

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

    `open` and all commands take the store in place of the traces, and answer the same. A store that is there already
    is completed: only ranks that are new, changed, or could not be read are packed.

    Args:
        path: the folder or file.
        out: the folder of the store, such as `job.tbstore`.
        engine: how the work over the ranks runs, see `engine_of`.
        matching: as in `link`.
        window: which window of a capture, from 0; None for the last one.
        steps: numbers of the profiler's steps, such as `3,5-8`: only what belongs to them is packed, and the store says
            so; None for all that there is. See docs/store.md.
        ranks: only these are packed now; the store says that the others are missing, until they are packed, too.
        sample: only so many are packed now, as in `open`.
        from_scratch: whether ranks that are there already are packed again, and those forgotten whose traces are gone.
        progress: is called with the share of all ranks that is packed, 0 to 1.

    Raises:
        InputError: there is no Kineto trace, or no rank can be read.
        OutputError: the store cannot be written, is being written by another process, or is of something else.
        ArgumentError: there is no such matching, engine or rank.

    Example::

        tracebraid.pack("traces/", "job.tbstore")
        job = tracebraid.open("job.tbstore")
    """
    store, how = Path(out), Matching(matching) if isinstance(matching, str) else matching
    if is_store(path):
        raise InputError(str(path), "this is a store already", "Pack the folder of the traces")
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
            *(_unreadable(files.rank, error) for files, error in errors),
            *(_unlinked(entries[rank]) for rank in packed if entries[rank].link_error is not None),
        ),
    )


def _check_visible(store: Path, rank: int) -> None:
    """Check that what a worker wrote is here: a node of a cluster may have a folder of that name of its own.

    Raises:
        OutputError: it is not.
    """
    if not rank_file(store, rank).exists():
        problem = f"rank {rank} was packed on a node that does not share this folder"
        raise OutputError(str(store), problem, "Name a folder on a file system that all nodes share")


def _kept(store: Path, job: Job, options: PackOptions) -> dict[int, RankEntry]:
    """The ranks that are packed already with these options, whose files have not changed, or are not there any more."""
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
    """Whether an entry is of these files, and they have not changed."""
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


def _unreadable(rank: int, error: InputError) -> Finding:
    details = {"case": FindingCase.RANK_LEFT_OUT, "rank": rank, "problem": error.problem}
    return Finding(FindingCode.RANK_UNREADABLE, error.path, error.where, details=details)


def _unlinked(entry: RankEntry) -> Finding:
    assert entry.link_error is not None, "only entries with an error are asked"
    error = error_of(entry.link_error)
    path, problem = (error.path, error.problem) if isinstance(error, InputError) else ("", str(error))
    return Finding.of(FindingCode.STORE_UNLINKED, path, rank=entry.rank, problem=problem)


def _refuse_target(store: Path, path: Path) -> None:
    """Refuse a target that is something else than a store, or lies among the traces.

    Raises:
        OutputError: it is.
    """
    with writing(store):
        other = is_other(store)
        inside = path.is_dir() and store.resolve().is_relative_to(path.resolve())
    if other:
        raise OutputError(str(store), "this is there already, and is no store", "Name another path")
    link = linked_folder(store)
    if link is not None:
        raise OutputError(
            str(link), "this folder of the store is a link", "Name another path, or delete it first"
        )
    if inside:
        raise OutputError(str(store), "it lies in the folder of the traces", "Name a path outside of it")


def _refuse_other_job(store: Path, job: Job, options: PackOptions) -> None:
    """Refuse to go on with the store of another job, or with other options: what is there would be lost.

    Ranks that another version of Tracebraid packed are packed again.

    Raises:
        OutputError: it is one.
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
