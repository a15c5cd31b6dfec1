"""Queries in SQL over the tables of a job."""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracebraid.analysis.catalog import job_analyses, rank_analyses
from tracebraid.analysis.event_context import device_context, host_context
from tracebraid.api.exports.tables import coverage_frame, headers_frame, orphans_frame
from tracebraid.api.job_answers import gather_questions, parts_of
from tracebraid.api.stored_jobs import ReadStored
from tracebraid.errors import ArgumentError, InputError, QueryError
from tracebraid.files import is_folder, temporary_folder, writing
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model import schema
from tracebraid.model.analysis import Analysis, JobAnalysis
from tracebraid.model.column import Column
from tracebraid.model.engine import Job, answers_of
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import Gather, LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import ledger
from tracebraid.model.schema.context import DEVICE_CONTEXT, HOST_CONTEXT
from tracebraid.queries.catalog import Catalog, SourceTable, SqlSchema, Viewable
from tracebraid.queries.database import QUERY_MEMORY_BYTES, QueryLimits, answer, check, database
from tracebraid.queries.engine import type_of
from tracebraid.queries.macros import MACROS
from tracebraid.queries.views import VIEWS
from tracebraid.store.findings import error_of, findings_of
from tracebraid.store.manifest import RankContent, refuse_special, sha256_of, stored_bytes, table_file
from tracebraid.store.opening import STORED_TABLES
from tracebraid.store.parquet import decoded, refuse_expanding
from tracebraid.store.rank_reader import read_content

FrameOfRank: TypeAlias = Callable[[LinkedTrace], pl.DataFrame | None]
"""Function that makes a table of a rank; None if the rank has no data for it."""


def _timeline_table(name: str, linked: LinkedTrace) -> pl.DataFrame:
    frame: pl.DataFrame = linked.timeline.tables[name]
    return frame


def _groups(linked: LinkedTrace) -> pl.DataFrame:
    return linked.timeline.process_groups


def _et_table(name: str, linked: LinkedTrace) -> pl.DataFrame | None:
    return None if linked.et is None else getattr(linked.et, name)


def _linked_table(name: str, linked: LinkedTrace) -> pl.DataFrame:
    frame: pl.DataFrame = getattr(linked, name)
    return frame


def _by_step(analysis: Analysis, linked: LinkedTrace) -> pl.DataFrame:
    return analysis.answer(linked, per_step=True)


_OF_ET = (
    schema.ET_NODES,
    schema.ET_VALUES,
    schema.ET_TENSORS,
    schema.ET_TENSOR_USES,
    schema.ET_TENSOR_EDGES,
    schema.ET_COLLECTIVES,
    schema.ET_EXTRA_ATTRS,
    schema.PROCESS_GROUPS,
)
_OF_LINKS = (
    schema.HOST_TREE,
    schema.HOST_LINKS,
    schema.NODE_LINKS,
    schema.LAUNCHES,
    schema.DEVICE_LINKS,
    schema.FORWARD_BACKWARD,
    schema.DEPENDENCIES,
)

OF_RANK: dict[SourceTable, FrameOfRank] = {
    **{SourceTable(SqlSchema.TIMELINE, t): partial(_timeline_table, t.name) for t in schema.KINETO_TABLES},
    SourceTable(SqlSchema.TIMELINE, schema.PROCESS_GROUPS): _groups,
    **{SourceTable(SqlSchema.ET, t): partial(_et_table, t.name) for t in _OF_ET},
    **{SourceTable(SqlSchema.LINKS, t): partial(_linked_table, t.name) for t in _OF_LINKS},
    SourceTable(SqlSchema.LINKS, ledger.COVERAGE): coverage_frame,
    SourceTable(SqlSchema.LINKS, ledger.ORPHANS): orphans_frame,
    SourceTable(SqlSchema.TIMELINE, ledger.HEADERS): headers_frame,
    SourceTable(SqlSchema.CONTEXT, HOST_CONTEXT): host_context,
    SourceTable(SqlSchema.CONTEXT, DEVICE_CONTEXT): device_context,
    **{SourceTable(SqlSchema.ANSWERS, analysis.table): analysis.answer for analysis in rank_analyses()},
    **{
        SourceTable(SqlSchema.PER_STEP, analysis.table): partial(_by_step, analysis)
        for analysis in rank_analyses()
        if "per_step" in analysis.options
    },
}
"""Maker of each table of a rank."""

LINKED_RANKS_TABLES: dict[SourceTable, Callable[[LinkedRanks], pl.DataFrame]] = {
    SourceTable(SqlSchema.RANKS, schema.RANKS, of_rank=False): lambda linked: linked.ranks,
    SourceTable(SqlSchema.RANKS, schema.CLOCKS, of_rank=False): lambda linked: linked.clocks,
    SourceTable(SqlSchema.RANKS, schema.MEMBERS, of_rank=False): lambda linked: linked.members,
    SourceTable(SqlSchema.RANKS, schema.MATCHED_COLLECTIVES, of_rank=False): lambda linked: (
        linked.collectives
    ),
}
"""Maker of each table of the linked ranks."""

OF_JOB: dict[SourceTable, JobAnalysis] = {
    SourceTable(SqlSchema.ANSWERS, analysis.table, of_rank=False): analysis for analysis in job_analyses()
}
"""Analysis behind each table over all ranks."""

CATALOG = Catalog((*OF_RANK, *LINKED_RANKS_TABLES, *OF_JOB), VIEWS, MACROS)
"""Catalog of a query: tables, views and macros."""


_PARQUET_SUFFIX = "parquet"


class OfRank(Struct, frozen=True, eq=False):
    """Input of a query from a rank.

    Args:
        rank: the rank.
        tables: as Parquet, by full name.
        taken: the data for linking it with other ranks; empty: not needed.
    """

    rank: int
    tables: Mapping[str, bytes]
    taken: Mapping[Hashable, Any]


class TablesOfRank(Struct, frozen=True, eq=False):
    """Question for the tables of a rank, answerable in another process or on another machine.

    Args:
        names: full names of tables of a rank.
        job_names: full names of tables over all ranks.
    """

    names: tuple[str, ...]
    job_names: tuple[str, ...]

    @classmethod
    def of(cls, tables: Iterable[SourceTable]) -> TablesOfRank:
        """Build the question for some tables."""
        tables = list(tables)
        of_rank = tuple(sorted(_full_name(table) for table in tables if table.of_rank))
        return cls(of_rank, tuple(sorted(_full_name(table) for table in tables if not table.of_rank)))

    def __call__(self, linked: LinkedTrace) -> OfRank:
        """Answer for a rank."""
        tables = {name: _parquet(_BY_NAME[name], linked) for name in self.names}
        taken = answers_of(linked, gather_questions(self.gathers)) if self.job_names else {}
        there = {name: data for name, data in tables.items() if data is not None}
        return OfRank(linked.rank, there, taken)

    @property
    def gathers(self) -> tuple[Gather, ...]:
        """Return the input of analyses over all ranks from each."""
        analyses = (OF_JOB[table] for name in self.job_names if (table := _BY_NAME[name]) in OF_JOB)
        return tuple(dict.fromkeys(gather for analysis in analyses for gather in analysis.gathers))


class WrittenFiles(Struct, frozen=True, eq=False):
    """Tables as Parquet files.

    Args:
        files: the files of each table.
        ranks: the ranks that answered.
    """

    files: Mapping[SourceTable, Sequence[Path]]
    ranks: frozenset[int]


def write_files(question: TablesOfRank, answers: Iterable[OfRank], folder: Path) -> WrittenFiles:
    """Write the answers of ranks, and tables over all ranks, as Parquet."""
    files: dict[SourceTable, list[Path]] = {
        _BY_NAME[name]: [] for name in (*question.names, *question.job_names)
    }
    taken: dict[int, Mapping[Hashable, Any]] = {}
    with writing(folder):
        for of_rank in answers:
            taken[of_rank.rank] = of_rank.taken
            for name, data in of_rank.tables.items():
                path = _path(folder, name, f"rank_{of_rank.rank:06}")
                path.write_bytes(data)
                files[_BY_NAME[name]].append(path)
        for name, frame in _job_frames(question, list(taken.values())):
            path = _path(folder, name, "all")
            path.write_bytes(_bytes_of(frame))
            files[_BY_NAME[name]].append(path)
    return WrittenFiles(files, frozenset(taken))


def _job_frames(
    question: TablesOfRank, taken: Sequence[Mapping[Hashable, Any]]
) -> Iterator[tuple[str, pl.DataFrame]]:
    if not question.job_names:
        return
    gathers = question.gathers
    linked = link_ranks([parts_of(of_rank, gathers) for of_rank in taken])
    for name in question.job_names:
        table = _BY_NAME[name]
        if table in OF_JOB:
            yield name, OF_JOB[table].answer(linked)
        else:
            yield name, LINKED_RANKS_TABLES[table](linked)


def _parquet(table: SourceTable, linked: LinkedTrace) -> bytes | None:
    frame = OF_RANK[table](linked)
    if frame is None:
        return None
    # The name of the file says the rank.
    return _bytes_of(frame.select(column.name for column in table.columns[1:]))


def _bytes_of(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="lz4")
    return buffer.getvalue()


def _path(folder: Path, name: str, stem: str) -> Path:
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{stem}.{_PARQUET_SUFFIX}"


def _full_name(table: SourceTable) -> str:
    return f"{table.schema.value}.{table.name}"


_BY_NAME = {_full_name(table): table for table in (*OF_RANK, *LINKED_RANKS_TABLES, *OF_JOB)}


_LIKENESS = 0.6
"""Minimum similarity of a suggested name, 0 to 1: the default of difflib."""


class QueryColumn(Struct, frozen=True):
    """A column of a table or view: name, SQL type and meaning."""

    name: str
    type: str
    doc: str


class QueryName(Struct, frozen=True):
    """A table, view or function of queries.

    Args:
        name: the shortest unambiguous name.
        full_name: the name with its schema; for a function, the call.
        doc: the meaning of a row, or the result of the function.
        columns: the columns of a table or view.
    """

    name: str
    full_name: str
    doc: str
    columns: tuple[QueryColumn, ...] = ()


def query_tables() -> list[QueryName]:
    """Return the tables and views of queries, in the order of schemas."""
    return [_named(viewable) for viewable in CATALOG.viewables]


def query_functions() -> list[QueryName]:
    """Return the functions of queries beside those of DuckDB."""
    return [QueryName(macro.call, macro.call, macro.doc) for macro in CATALOG.macros]


def query_table(name: str) -> QueryName:
    """Return a table or view by its short or full name."""
    found = CATALOG.find(name)
    if found is None:
        near = get_close_matches(name.lower(), CATALOG.names, 3, _LIKENESS)
        advice = f"did you mean {' or '.join(near)}?" if near else "tracebraid sql --tables lists them"
        raise ArgumentError(f"there is no table or view {name!r}; {advice}")
    return _named(found)


def _named(viewable: Viewable) -> QueryName:
    full = f"{viewable.schema.value}.{viewable.name}"
    return QueryName(CATALOG.short_name(viewable), full, viewable.doc, tuple(map(_column, viewable.columns)))


def _column(column: Column) -> QueryColumn:
    return QueryColumn(column.name, type_of(column), column.doc)


_OTHER_NAMES = {
    (SqlSchema.ET, "collectives"): "et_collectives",
    (SqlSchema.ET, "process_groups"): "et_process_groups",
}
"""Tables whose folder in a store has another name."""
_STORED_SCHEMAS = (SqlSchema.TIMELINE, SqlSchema.ET, SqlSchema.LINKS)
_LINKED_WITH_ET = {"host_links", "node_links", "device_links"}
"""Tables of links that need the Execution Trace."""
_HASHED_BYTES = 256 * 2**20
"""Up to this total size, files are hashed before a query, in less than a second; else only after an error."""
_AGAIN = "Pack this rank again: tracebraid pack PATH -o STORE"


class _File(Struct, frozen=True):
    """A file of a table, with its entry in the store."""

    path: Path
    size_bytes: int
    sha256: str


class StoredFiles(Struct, frozen=True, eq=False):
    """Stored tables of a query.

    Args:
        files: the file of each rank with rows, by stored table.
        ranks: the intact ranks.
        unreadable: why the others are unreadable.
        noticed: the findings in the traces when they were read.
    """

    files: Mapping[SourceTable, Mapping[int, _File]]
    ranks: tuple[int, ...]
    unreadable: Mapping[int, InputError]
    noticed: tuple[Finding, ...]

    def without(self, unreadable: Mapping[int, InputError]) -> StoredFiles:
        """Drop some ranks."""
        every = {**self.unreadable, **unreadable}
        ranks = tuple(rank for rank in self.ranks if rank not in every)
        if every and not ranks:
            raise next(iter(every.values()))
        return replace(self, ranks=ranks, unreadable=every)

    def paths(self, ranks: Iterable[int]) -> dict[SourceTable, list[Path]]:
        """Return the files of each table, for some ranks."""
        wanted = sorted(ranks)
        return {
            table: [of_ranks[rank].path for rank in wanted if rank in of_ranks]
            for table, of_ranks in self.files.items()
        }


def stored_files(job: Job, tables: Iterable[SourceTable]) -> StoredFiles | None:
    """Find some tables in a store; None if the traces are not in a store, or its tables do not apply."""
    load = job.load
    if not isinstance(load, ReadStored) or load.matching is not None:
        return None
    folders = {table: name for table in tables if (name := _folder_of(table)) is not None}
    files: dict[SourceTable, dict[int, _File]] = {table: {} for table in folders}
    unreadable: dict[int, InputError] = {}
    noticed: list[Finding] = []
    for rank in job.ranks:
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
    found = StoredFiles(files, tuple(job.ranks), {}, tuple(noticed)).without(unreadable)
    size_bytes = sum(file.size_bytes for _, file in _each(found))
    return found.without(damaged_ranks(found)) if size_bytes <= _HASHED_BYTES else found


def damaged_ranks(stored: StoredFiles, decode: bool = False) -> dict[int, InputError]:
    """Return the ranks with a changed file or, as a store may state any hash, one that is not a table."""
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
    """Return the folder of a table in a store; None if not stored."""
    name = _OTHER_NAMES.get((table.schema, table.name), table.name)
    return name if table.schema in _STORED_SCHEMAS and name in STORED_TABLES else None


def _content(load: ReadStored, rank: int, folders: Mapping[SourceTable, str]) -> RankContent:
    """Return the description of a rank."""
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
    """Return the file of each table with rows, after checking existence and size."""
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
            raise InputError(str(path), "this file of the store is missing", _AGAIN) from None
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


class QueryOptions(Struct, frozen=True):
    """Options of a query.

    Args:
        limits: resource limits.
        limit: maximum number of rows; None: all.
    """

    limits: QueryLimits = field(default_factory=QueryLimits)
    limit: int | None = None


def sql(
    traces: Job | LinkedTrace,
    query: str,
    *,
    allow_files: Iterable[str | Path] = (),
    memory_bytes: int = QUERY_MEMORY_BYTES,
) -> pl.DataFrame:
    """Run an SQL query over the tables of all ranks; needs duckdb: `pip install 'tracebraid[sql]'`.

    A query can read only the tables and views that docs/sql.md lists.
    It runs in a separate process with limited memory.
    Only the tables that it names are read or computed, each rank once.

    Args:
        traces: a job; a linked trace is a job of one rank.
        query: one `select` in DuckDB's SQL.
        allow_files: folders whose files it may read, with `read_csv`, `read_json`, `read_parquet` or `read_text`.
        memory_bytes: memory of the engine; larger data spills to a temporary folder.

    Raises:
        QueryError: it is invalid, not permitted, or exceeds the limits.
        InputError: a file cannot be read.
        ArgumentError: an option has an invalid value.
        MissingLibraryError: duckdb is not installed.
        EngineError: the process of the query cannot be started.

    Examples:
        >>> import tracebraid
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> tracebraid.sql(job, "select rank, count(*) as steps from steps group by rank order by rank").rows()
        [(0, 6), (1, 6)]
    """
    limits = QueryLimits(memory_bytes, folders=_folders(allow_files))
    with answer_query(Job.of(traces), query, QueryOptions(limits)) as slices:
        return pl.concat(slices)


@contextmanager
def answer_query(job: Job, query: str, options: QueryOptions) -> Iterator[Iterator[pl.DataFrame]]:
    """Run a query; its rows come in slices, at least one, while the block is open."""
    with temporary_folder("tracebraid-sql-") as folder, database(options.limits) as engine:
        scratch = folder / "scratch"
        checked = check(engine, query, CATALOG, scratch, with_files=bool(options.limits.folders))
        stored = stored_files(job, checked.named.tables)
        files = _table_files(job, checked.named.tables, stored, folder / "tables")
        try:
            slices = answer(engine, checked, files, scratch, options.limit)
        except QueryError:
            for error in damaged_ranks(stored, decode=True).values() if stored is not None else ():
                raise error from None
            raise
        yield slices


def _table_files(
    job: Job, tables: Iterable[SourceTable], stored: StoredFiles | None, folder: Path
) -> Mapping[SourceTable, Sequence[Path]]:
    """Return the files of tables: stored ones, and newly written ones in a folder for the rest."""
    if stored is None:
        return _written(job, tables, folder).files
    job.leave_out(stored.unreadable)
    left = [table for table in tables if table not in stored.files]
    if left:
        written = _written(job, left, folder, list(stored.ranks))
        return {**stored.paths(written.ranks), **written.files}
    job.add_findings(stored.noticed)
    return stored.paths(stored.ranks)


def _written(
    job: Job, tables: Iterable[SourceTable], folder: Path, ranks: list[int] | None = None
) -> WrittenFiles:
    question = TablesOfRank.of(tables)
    answers = job.each(question, ranks) if question.names or question.job_names else ()
    return write_files(question, answers, folder)


def _folders(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    folders: Sequence[Path] = [Path(path) for path in paths]
    for folder in folders:
        if not is_folder(folder):
            raise ArgumentError(f"{folder} is no folder: allow_files takes folders")
    return tuple(folders)
