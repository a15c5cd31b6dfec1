"""A store as a job: its ranks are read from its tables, and answer as the traces did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.importers.sampling import origin_of_header
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.engine import Job, RankCost
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles, RankOrigin
from tracebraid.store.answers.answered_trace import AnsweredTrace
from tracebraid.store.answers.stored_answers import StoredAnswers, read_index
from tracebraid.store.findings import error_of, findings_of
from tracebraid.store.manifest import Manifest, PackOptions, RankEntry
from tracebraid.store.opening import packed_ranks, read_manifest
from tracebraid.store.rank_reader import StoredTables, linked_trace_of, read_content
from tracebraid.version import __version__

_SHOWN = 8
"""Maximum ranks that a finding names."""
_PEAK_OVER_STORED = 150
"""Peak memory of a command per byte of a rank's files: `report` of a stored trace of 54 MB of JSON."""
_S_PER_BYTE = 1e-7
"""Time per byte of a rank's files: `summary` of the same trace."""
_S_PER_RANK = 0.02
"""Constant time per rank: `summary` of stored copies of the bundled pair, without stored answers."""


class ReadStored(Struct, frozen=True):
    """Opens a rank of a store.

    Args:
        store: the folder of the store.
        matching: how the two traces are matched; None: as packed.
        errors: errors of ranks that could not be read during packing.
        sizes_bytes: file size of each packed rank.
        answers: answers stored during packing; None if none is valid.
    """

    store: str
    matching: Matching | None
    errors: Mapping[int, InputError]
    sizes_bytes: Mapping[int, int]
    answers: StoredAnswers | None = None

    def cost(self, files: RankFiles) -> RankCost | None:
        """See `EstimatedWork`."""
        size_bytes = self.sizes_bytes.get(files.rank)
        if size_bytes is None:
            return None
        return RankCost(_PEAK_OVER_STORED * size_bytes, _S_PER_RANK + _S_PER_BYTE * size_bytes)

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """See `Load`."""
        if files.rank in self.errors:
            raise self.errors[files.rank]
        if progress is not None:
            progress(1.0)
        if self.answers is not None and files.rank in self.answers.positions:
            return AnsweredTrace.of(files.rank, self.answers, partial(self._read, files.rank))
        linked = self._read(files.rank)
        if self.matching is None:
            return linked
        return link_traces(linked.timeline, linked.stages.et, self.matching)

    def _read(self, rank: int) -> LinkedTrace:
        store = Path(self.store)
        return linked_trace_of(StoredTables(store, read_content(store, rank)))


def open_store(
    path: str | Path, matching: Matching, window: int | None = None, with_answers: bool = True
) -> Job:
    """Open a store as a job with the path and files that were packed.

    Stored answers are those of the devices that the traces name, and of how they were matched.
    """
    store = Path(path)
    manifest = read_manifest(store)
    findings = findings_of(manifest.findings)
    _check_window(store, manifest.options, findings, window)
    entries, missing = manifest.ranks, []
    if not manifest.complete:
        there = packed_ranks(store)
        entries = tuple(
            entry
            for entry in entries
            if entry.rank in there or entry.error is not None or entry.kineto is None
        )
        known = {entry.rank for entry in entries}
        missing = [entry.rank for entry in manifest.ranks if entry.rank not in known]
    if missing:
        findings = (*findings, _incomplete(store, missing, len(manifest.ranks)))
    if not any(entry.kineto is not None for entry in entries):
        advice = "Pack it again: what is there already is kept"
        raise InputError(str(store), "no rank of this store is packed", advice)
    own = matching in (Matching(), matching_of(manifest.options))
    errors = {entry.rank: _error_of(store, entry) for entry in entries if entry.error is not None}
    sizes_bytes = {entry.rank: entry.size_bytes for entry in entries if entry.size_bytes is not None}
    answers = _answers(store, manifest) if own and with_answers else None
    load = ReadStored(str(store), None if own else matching, errors, sizes_bytes, answers)
    files = tuple(map(_files_of, entries))
    return Job(manifest.path, files, load, findings, has_answers=answers is not None)


def stored_origins(path: str | Path, files: Sequence[RankFiles]) -> list[RankOrigin]:
    """Return the origins of a store's ranks from their traces' headers; unreadable ranks have none."""
    return [_origin(Path(path), rank) for rank in files]


def _origin(store: Path, files: RankFiles) -> RankOrigin:
    try:
        timeline = read_content(store, files.rank).timeline
    except InputError:
        return RankOrigin(files.rank)
    return origin_of_header(files.rank, timeline.path, timeline.header)


def matching_of(options: PackOptions) -> Matching:
    """Return how the traces of a store were matched."""
    return Matching(options.match, options.annotation, options.iteration)


def _answers(store: Path, manifest: Manifest) -> StoredAnswers | None:
    index = read_index(store, __version__)
    descriptions = {entry.rank: entry.sha256 for entry in manifest.ranks if entry.sha256 is not None}
    return None if index is None else StoredAnswers.of(store, index, descriptions)


def _files_of(entry: RankEntry) -> RankFiles:
    kineto, et = entry.kineto, entry.et
    return RankFiles(entry.rank, None if kineto is None else kineto.path, None if et is None else et.path)


def _error_of(store: Path, entry: RankEntry) -> InputError:
    assert entry.error is not None, "only entries with an error are asked"
    error = error_of(entry.error)
    return error if isinstance(error, InputError) else InputError(str(store), str(error), "Pack it again")


def _incomplete(store: Path, missing: list[int], ranks: int) -> Finding:
    shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
    return Finding.of(
        FindingCode.STORE_INCOMPLETE, str(store), count=len(missing), ranks=ranks, missing=shown
    )


def _check_window(
    store: Path, options: PackOptions, findings: tuple[Finding, ...], window: int | None
) -> None:
    chosen = next(
        (found.details["chosen"] for found in findings if found.code is FindingCode.WINDOW_CHOSEN), None
    )
    if window is None or window == options.window or chosen == f"window_{window}":
        return
    raise InputError(
        str(store),
        f"this store is not of window {window}",
        f"Pack that window into another store: tracebraid pack PATH --window {window} -o OTHER",
    )
