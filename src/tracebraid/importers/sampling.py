"""Sample ranks that represent a job, by host and parallel group, from metadata that is cheap to read."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import in_archive
from tracebraid.filesystem.paths import name_of, parent_of
from tracebraid.importers.discovery import TAIL_BYTES, as_rank, manifests_of
from tracebraid.importers.frames import process_groups
from tracebraid.importers.json_stream.source import Source, open_source
from tracebraid.model.rank_files import GroupOfRank, RankFiles, RankOrigin

if TYPE_CHECKING:
    from tracebraid.filesystem.archives.archive_files import ArchiveFiles

_BLOCK_BYTES = 1 << 18
"""Bytes read from the start of a plain trace, an eighth for a compressed one; the headers of our test
traces take at most 26 KB."""
_WORKER = re.compile(r"^(?P<host>.+)_\d+\.\d{12,20}\.pt\.trace\.json", re.I)
"""The names of TensorBoard's handler: host, process and time."""
_ARRAY = re.compile(rb'"traceEvents"\s*:')
_ARRAY_END = re.compile(rb"\}\s*\]\s*,")
_DECODER = json.JSONDecoder(strict=False)


def rank_origins(files: Sequence[RankFiles], archive: ArchiveFiles | None = None) -> list[RankOrigin]:
    """Origins of the ranks, as far as they are cheap to read; unreadable files have none."""
    files = [in_archive(archive, of_rank) for of_rank in files]
    folders = dict.fromkeys(parent_of(rank.kineto) for rank in files if rank.kineto is not None)
    manifests = {rank: content for folder in folders for rank, content in _manifests(folder).items()}
    return [_origin(rank, manifests.get(rank.rank, {})) for rank in files]


def origin_of_header(rank: int, path: str, header: Mapping[str, Any]) -> RankOrigin:
    """Origin of a rank from its Kineto trace's header or name."""
    info = header.get("distributedInfo")
    groups = info.get("pg_config") if isinstance(info, dict) else None
    return RankOrigin(rank, str(header.get("host_name") or "") or _host_of_name(path), _groups(groups))


def _origin(files: RankFiles, manifest: Mapping[str, Any]) -> RankOrigin:
    assert files.kineto is not None, "a rank is opened by its Kineto trace"
    # The header of a file of several ranks is that of one of them.
    found = origin_of_header(files.rank, files.kineto, {} if files.label else _header(files.kineto))
    host = found.host or str(manifest.get("host") or "")
    return RankOrigin(files.rank, host, found.groups or _groups(manifest.get("process_groups")))


def _host_of_name(path: str) -> str:
    named = _WORKER.match(name_of(path))
    return named["host"] if named else ""


def _manifests(folder: str) -> dict[int, dict[str, Any]]:
    """Manifests by rank; those of a window lie in the folder above it."""
    found, _ = manifests_of(folder)
    if not found and name_of(folder).startswith("window_"):
        found, _ = manifests_of(parent_of(folder))
    ranks = ((as_rank(content.get("rank")), content) for _, content in found)
    return {rank: content for rank, content in ranks if rank is not None}


def _groups(listed: object) -> tuple[GroupOfRank, ...]:
    """Return the groups with listed ranks: an empty list means all ranks, null a truncated list."""
    rows = process_groups(listed).select("pg_desc", "ranks").iter_rows()
    return tuple(GroupOfRank(str(kind or ""), tuple(ranks)) for kind, ranks in rows if ranks)


def _header(path: str) -> dict[str, Any]:
    """Host and groups of a trace from its parts outside the events."""
    if path.endswith(".sqlite"):
        return {}
    try:
        source = open_source(path)
        head = next(iter(source.blocks(_BLOCK_BYTES)), b"")
        array = _ARRAY.search(head)
        found = _members(head[: array.start()] if array else head)
        return (
            found
            if "distributedInfo" in found or source.compression
            else {**found, **_members(_tail(source))}
        )
    except InputError:
        return {}


def _tail(source: Source) -> bytes:
    """End of the file, where on-demand traces have what others have before the events."""
    tail = source.read(max(0, source.size_bytes - TAIL_BYTES), source.size_bytes)
    end = _ARRAY_END.search(tail)
    return tail[end.end() :] if end else b""


def _members(text: bytes) -> dict[str, Any]:
    """Find the two members in a text, the last of each."""
    found: dict[str, Any] = {}
    for name in ("distributedInfo", "host_name"):
        start = text.rfind(f'"{name}"'.encode())
        _, colon, rest = text[start:].partition(b":") if start >= 0 else (b"", b"", b"")
        try:
            found |= {name: _DECODER.raw_decode(rest.decode("utf-8", "replace").lstrip())[0]} if colon else {}
        except (ValueError, RecursionError):
            continue
    return found


class StrataBy(str, Enum):
    """Criterion by which ranks are divided."""

    HOST = "host"
    GROUP = "group"
    POSITION = "position"
    """Position of a rank in its group: in a pipeline, its stage."""


class Strata(Struct, frozen=True, eq=False):
    """A division of the ranks.

    Args:
        by: by what.
        codes: the stratum of each rank, from 0 without gaps.
    """

    by: StrataBy
    codes: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Return how many strata there are."""
        return int(self.codes.max()) + 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Ranks in each stratum."""
        return np.bincount(self.codes)


def strata_of(origins: Sequence[RankOrigin]) -> tuple[Strata, ...]:
    """Return the divisions with several strata: by host, then by each kind of group, fewest groups first."""
    by_host = Strata(StrataBy.HOST, _codes([origin.host for origin in origins]))
    # A group of all ranks divides nothing, and its list of ranks is long.
    parts = [
        (origin.rank, [group for group in origin.groups if len(group.ranks) < len(origins)])
        for origin in origins
    ]
    kinds = sorted({group.kind for _, groups in parts for group in groups})
    by_group = [
        Strata(StrataBy.GROUP, _codes([_members_of_strata(groups, kind) for _, groups in parts]))
        for kind in kinds
    ]
    by_position = [
        Strata(StrataBy.POSITION, _codes([_positions(rank, groups, kind) for rank, groups in parts]))
        for kind in kinds
    ]
    by_group.sort(key=lambda strata: strata.count)
    # Strata of single ranks tell which ranks there are, and nothing of what they share.
    divided = [strata for strata in (*by_group, *by_position) if 1 < strata.count < len(origins)]
    if by_host.count > 1:
        divided.insert(0, by_host)
    return tuple(divided)


def _members_of_strata(groups: Sequence[GroupOfRank], kind: str) -> Hashable:
    return tuple(sorted(group.ranks for group in groups if group.kind == kind))


def _positions(rank: int, groups: Sequence[GroupOfRank], kind: str) -> Hashable:
    return tuple(
        sorted(group.ranks.index(rank) for group in groups if group.kind == kind and rank in group.ranks)
    )


def _codes(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """A number for each distinct key, in the order in which they first come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


_UNIT = 1 << 32
"""Weights are whole multiples of 1 / this, so that sums are exact and ties are ties on every machine."""

_OF_SPREAD = 1 << 8
"""Weight of blocks of consecutive ranks relative to known strata: they spread the sample among equals."""
_ROUNDS = 4
"""Rounds in which each rank of a sample may be exchanged; in our tests the third changes nothing."""


class _Division(Struct, frozen=True, eq=False):
    """A division of the ranks, with the number of sampled ranks of each stratum.

    Args:
        codes: the stratum of each rank.
        weights: what another rank of a stratum adds to its ranks' scores: the inverse of its share of the sample.
        taken: number of sampled ranks of each stratum.
    """

    codes: NDArray[np.int64]
    weights: NDArray[np.int64]
    taken: NDArray[np.int64]


def stratified(divisions: Sequence[Strata], ranks: int, size: int) -> list[int]:
    """The positions of the ranks in a sample, in order.

    The first division rules: of each of its strata the sample has its proportional share, rounded up or down. Among
    the ranks that this leaves, the next is always the one whose strata, of all divisions, are represented least: the
    one that adds least to the sum of (taken - share)² / share, Pearson's chi-squared. Then ranks are exchanged as long
    as that makes the sum less. Equal ranks are taken in their order, so that the same ranks give the same sample. Only
    the first and last rank may exceed the share of their stratum.
    """
    if size >= ranks:
        return list(range(ranks))
    ruling = divisions[0].codes if divisions else np.zeros(ranks, dtype=np.int64)
    spread = np.arange(ranks, dtype=np.int64) * size // ranks
    known = [_division(codes, size) for codes in (ruling, *_codes_of_stratified(divisions[1:]))]
    sample = _Sample([*known, _division(spread, size, _OF_SPREAD)], ranks)
    for position in dict.fromkeys((0, ranks - 1)[:size]):
        sample.take(position)
    shares = np.bincount(ruling) * size
    least, most = shares // ranks, -(-shares // ranks)
    for bound in (least, most):
        while sample.taken < size and sample.take_best(bound):
            pass
    for _ in range(_ROUNDS):
        exchanged = [sample.exchange(position, least, most) for position in sample.inner()]
        if not any(exchanged):
            break
    return [int(position) for position in np.flatnonzero(sample.is_in)]


class _Sample:
    """Sampled ranks so far, and scores: how well the strata of each rank are represented."""

    def __init__(self, divisions: list[_Division], ranks: int) -> None:
        self._divisions = divisions
        self.is_in = np.zeros(ranks, dtype=np.bool_)
        self.taken = 0
        self._scores = np.zeros(ranks, dtype=np.int64)
        for division in divisions:
            self._scores += division.weights[division.codes] // 2

    def take(self, position: int) -> None:
        """Take a rank into the sample."""
        self._change(position, 1)

    def inner(self) -> list[int]:
        """The ranks of the sample but the first and the last."""
        return [int(position) for position in np.flatnonzero(self.is_in)[1:-1]]

    def take_best(self, most: NDArray[np.int64]) -> bool:
        """Add the rank with the lowest score, from strata of the ruling division below a limit."""
        ruling = self._divisions[0]
        best = self._best((ruling.taken < most)[ruling.codes])
        if best is None:
            return False
        self.take(best)
        return True

    def exchange(self, position: int, least: NDArray[np.int64], most: NDArray[np.int64]) -> bool:
        """Exchange a rank of the sample for one with a lower score, if the ruling division's bounds allow it."""
        ruling = self._divisions[0]
        own = ruling.codes[position]
        self._change(position, -1)
        may = ruling.codes == own
        if ruling.taken[own] >= least[own]:
            may |= (ruling.taken < most)[ruling.codes]
        best = self._best(may)
        better = best is not None and self._scores[best] < self._scores[position]
        self.take(best if best is not None and better else position)
        return better

    def _best(self, may: NDArray[np.bool_]) -> int | None:
        """Return the first unsampled rank with the lowest score; None if there is none."""
        free = may & ~self.is_in
        return int(np.where(free, self._scores, np.iinfo(np.int64).max).argmin()) if free.any() else None

    def _change(self, position: int, by: int) -> None:
        self.is_in[position] = by > 0
        self.taken += by
        for division in self._divisions:
            stratum = division.codes[position]
            division.taken[stratum] += by
            self._scores[division.codes == stratum] += by * division.weights[stratum]


def _division(codes: NDArray[np.int64], size: int, divisor: int = 1) -> _Division:
    sizes = np.bincount(codes)
    weights = _UNIT * len(codes) // (size * sizes) // divisor
    return _Division(codes, weights, np.zeros(len(sizes), dtype=np.int64))


def _codes_of_stratified(divisions: Sequence[Strata]) -> list[NDArray[np.int64]]:
    return [strata.codes for strata in divisions]
