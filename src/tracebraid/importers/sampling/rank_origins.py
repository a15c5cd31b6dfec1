"""On which host did each rank run, and in which groups: from names, manifests, and the heads and tails of traces."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tracebraid.errors import InputError
from tracebraid.filesystem.archives.archive_files import ArchiveFiles
from tracebraid.filesystem.choose import in_archive
from tracebraid.filesystem.paths import name_of, parent_of
from tracebraid.importers.discovery.capture_folder import manifests_of
from tracebraid.importers.discovery.rank import as_rank
from tracebraid.importers.discovery.sniff import TAIL_BYTES
from tracebraid.importers.json_stream.source import Source, open_source
from tracebraid.importers.process_groups import process_groups
from tracebraid.model.rank_files import RankFiles
from tracebraid.model.rank_origin import GroupOfRank, RankOrigin

__all__ = ["origin_of_header", "rank_origins"]

_BLOCK_BYTES = 1 << 20
"""So much of a plain trace is read from its start, and an eighth of it of a compressed one; the headers of our test
traces take at most 26 KB."""
_WORKER = re.compile(r"^(?P<host>.+)_\d+\.\d{12,20}\.pt\.trace\.json", re.I)
"""The names of TensorBoard's handler: host, process and time."""
_ARRAY = re.compile(rb'"traceEvents"\s*:')
_ARRAY_END = re.compile(rb"\}\s*\]\s*,")
_DECODER = json.JSONDecoder(strict=False)


def rank_origins(files: Sequence[RankFiles], archive: ArchiveFiles | None = None) -> list[RankOrigin]:
    """Where each rank ran, as far as that is cheap to know; a file that cannot be read tells nothing.

    Args:
        files: of each rank, with a Kineto trace.
        archive: the archive that they lie in; None for none.
    """
    files = [in_archive(archive, of_rank) for of_rank in files]
    folders = dict.fromkeys(parent_of(rank.kineto) for rank in files if rank.kineto is not None)
    manifests = {rank: content for folder in folders for rank, content in _manifests(folder).items()}
    return [_origin(rank, manifests.get(rank.rank, {})) for rank in files]


def origin_of_header(rank: int, path: str, header: Mapping[str, Any]) -> RankOrigin:
    """Where a rank ran, as its Kineto trace's header says, or its name.

    Args:
        rank: the rank.
        path: of the Kineto trace.
        header: the members beside the events: `distributedInfo` and `host_name`.
    """
    info = header.get("distributedInfo")
    groups = info.get("pg_config") if isinstance(info, dict) else None
    return RankOrigin(rank, str(header.get("host_name") or "") or _host_of_name(path), _groups(groups))


def _origin(files: RankFiles, manifest: Mapping[str, Any]) -> RankOrigin:
    assert files.kineto is not None, "a rank is opened by its Kineto trace"
    found = origin_of_header(files.rank, files.kineto, _header(files.kineto))
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
    """The groups whose ranks are listed: an empty list means all ranks, and null that they were cut off."""
    rows = process_groups(listed).select("pg_desc", "ranks").iter_rows()
    return tuple(GroupOfRank(str(kind or ""), tuple(ranks)) for kind, ranks in rows if ranks)


def _header(path: str) -> dict[str, Any]:
    """What a trace says beside its events of host and groups."""
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
    """Where on-demand traces have what others have before the events."""
    tail = source.read(max(0, source.size_bytes - TAIL_BYTES), source.size_bytes)
    end = _ARRAY_END.search(tail)
    return tail[end.end() :] if end else b""


def _members(text: bytes) -> dict[str, Any]:
    """The two members where they stand in a text, the last of each."""
    found: dict[str, Any] = {}
    for name in ("distributedInfo", "host_name"):
        start = text.rfind(f'"{name}"'.encode())
        _, colon, rest = text[start:].partition(b":") if start >= 0 else (b"", b"", b"")
        try:
            found |= {name: _DECODER.raw_decode(rest.decode("utf-8", "replace").lstrip())[0]} if colon else {}
        except (ValueError, RecursionError):
            continue
    return found
