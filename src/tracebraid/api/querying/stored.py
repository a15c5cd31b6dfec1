"""The tables of a store that a query names: its own files, of which the engine reads what the query needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tracebraid.api.job.readable_ranks import left_out
from tracebraid.api.stored_jobs import ReadStored
from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.queries.catalog import SourceTable, SqlSchema
from tracebraid.store.findings import error_of, findings_of
from tracebraid.store.layout import table_file
from tracebraid.store.manifest import RankContent
from tracebraid.store.parquet import decoded, refuse_expanding
from tracebraid.store.rank_reader import read_content
from tracebraid.store.sealed_json import sha256_of
from tracebraid.store.stored_file import refuse_special, stored_bytes
from tracebraid.store.tables import STORED_TABLES

__all__ = ["StoredFiles", "damaged_ranks", "stored_files"]

_OTHER_NAMES = {
    (SqlSchema.ET, "collectives"): "et_collectives",
    (SqlSchema.ET, "process_groups"): "et_process_groups",
}
"""Tables whose folder in a store has another name."""
_STORED_SCHEMAS = (SqlSchema.TIMELINE, SqlSchema.ET, SqlSchema.LINKS)
_LINKED_WITH_ET = {"host_links", "node_links", "device_links"}
"""Tables of links that need the Execution Trace."""
_HASHED_BYTES = 256 * 2**20
"""Up to so many bytes all files are hashed before a query, which takes less than a second; else after an error."""
_AGAIN = "Pack this rank again: tracebraid pack PATH -o STORE"


@dataclass(frozen=True)
class _File:
    """A file of a table, with what the store says of it."""

    path: Path
    size_bytes: int
    sha256: str


@dataclass(frozen=True, eq=False)
class StoredFiles:
    """What a store has of the tables that a query needs.

    Args:
        files: of each table that it has the file of each rank with rows.
        ranks: the ranks that were found whole.
        unreadable: why the others were not.
        noticed: what was noticed in the traces when they were read.
    """

    files: Mapping[SourceTable, Mapping[int, _File]]
    ranks: tuple[int, ...]
    unreadable: Mapping[int, InputError]
    noticed: tuple[Finding, ...]

    @property
    def left_out(self) -> list[Finding]:
        """A finding for each rank that cannot be read."""
        return [left_out(rank, error) for rank, error in self.unreadable.items()]

    def without(self, unreadable: Mapping[int, InputError]) -> StoredFiles:
        """The same without some ranks.

        Raises:
            InputError: none is left.
        """
        every = {**self.unreadable, **unreadable}
        ranks = tuple(rank for rank in self.ranks if rank not in every)
        if every and not ranks:
            raise next(iter(every.values()))
        return replace(self, ranks=ranks, unreadable=every)

    def paths(self, ranks: Iterable[int]) -> dict[SourceTable, list[Path]]:
        """The files of each table, of some ranks."""
        wanted = sorted(ranks)
        return {
            table: [of_ranks[rank].path for rank in wanted if rank in of_ranks]
            for table, of_ranks in self.files.items()
        }


def stored_files(traces: Job | LinkedTrace, tables: Iterable[SourceTable]) -> StoredFiles | None:
    """What a store has of some tables; None: the traces are in no store, or its tables do not answer for them.

    Args:
        traces: a job, or a linked trace.
        tables: the tables.

    Raises:
        InputError: no rank can be read.
    """
    load = traces.load if isinstance(traces, Job) else None
    if not isinstance(load, ReadStored) or load.matching is not None:
        return None
    assert isinstance(traces, Job), "only a job has ranks to load"
    folders = {table: name for table in tables if (name := _folder_of(table)) is not None}
    files: dict[SourceTable, dict[int, _File]] = {table: {} for table in folders}
    unreadable: dict[int, InputError] = {}
    noticed: list[Finding] = []
    for rank in traces.ranks:
        try:
            content = _content(load, rank, folders)
            of_rank = _files_of(Path(load.store), content, folders)
        except InputError as error:
            unreadable[rank] = error
            continue
        if content.timeline.rank != rank:
            return None
        noticed += findings_of(content.timeline.findings)
        for table, file in of_rank.items():
            files[table][rank] = file
    found = StoredFiles(files, tuple(traces.ranks), {}, tuple(noticed)).without(unreadable)
    size_bytes = sum(file.size_bytes for _, file in _each(found))
    return found.without(damaged_ranks(found)) if size_bytes <= _HASHED_BYTES else found


def damaged_ranks(stored: StoredFiles, decode: bool = False) -> dict[int, InputError]:
    """The ranks of which a file is not as it was written; or, as a store may state any hash, is no table.

    Args:
        stored: the files.
        decode: whether they are decoded, too.
    """
    damaged: dict[int, InputError] = {}
    for rank, file in _each(stored):
        if rank in damaged:
            continue
        try:
            content = stored_bytes(file.path)
        except InputError as error:
            damaged[rank] = error
            continue
        except OSError as error:
            damaged[rank] = _unreadable(file.path, error)
            continue
        if sha256_of(content) != file.sha256 or not _is_table(file.path.parent.name, content, decode):
            damaged[rank] = _damaged(file.path)
    return damaged


def _is_table(name: str, content: bytes, decode: bool) -> bool:
    try:
        if decode:
            decoded(name, STORED_TABLES[name], content)
        else:
            refuse_expanding(content)
    except ValueError:
        return False
    return True


def _each(stored: StoredFiles) -> Iterator[tuple[int, _File]]:
    for of_ranks in stored.files.values():
        yield from of_ranks.items()


def _folder_of(table: SourceTable) -> str | None:
    """The folder of a table in a store; None: it is not stored."""
    name = _OTHER_NAMES.get((table.schema, table.name), table.name)
    return name if table.schema in _STORED_SCHEMAS and name in STORED_TABLES else None


def _content(load: ReadStored, rank: int, folders: Mapping[SourceTable, str]) -> RankContent:
    """What describes a rank.

    Raises:
        InputError: it cannot be read; or the Execution Trace could not, and a table needs it.
    """
    if rank in load.errors:
        raise load.errors[rank]
    content = read_content(Path(load.store), rank)
    needs_links = any(name in _LINKED_WITH_ET for name in folders.values())
    needs_et = needs_links or any(table.schema is SqlSchema.ET for table in folders)
    if needs_et and content.et_error is not None:
        raise error_of(content.et_error)
    if needs_links and content.link_error is not None:
        raise error_of(content.link_error)
    return content


def _files_of(
    store: Path, content: RankContent, folders: Mapping[SourceTable, str]
) -> dict[SourceTable, _File]:
    """The file of each table with rows, all there and of their sizes.

    Raises:
        InputError: a file is not.
    """
    files = {}
    for table, folder in folders.items():
        name = content.same.get(folder, folder)
        stated = content.tables.get(name)
        if stated is None:
            continue
        path = table_file(store, name, content.rank)
        try:
            status = path.lstat()
        except FileNotFoundError:
            raise InputError(str(path), "this file of the store is not there", _AGAIN) from None
        except OSError as error:
            raise _unreadable(path, error) from None
        refuse_special(status, path)
        if status.st_size != stated.size_bytes:
            raise _damaged(path)
        files[table] = _File(path, stated.size_bytes, stated.sha256)
    return files


def _damaged(path: Path) -> InputError:
    return InputError(str(path), "this file of the store is damaged, or another one", _AGAIN)


def _unreadable(path: Path, error: OSError) -> InputError:
    problem = f"it cannot be read ({error.strerror or error})"
    return InputError(str(path), problem, "Check the file and its rights")
