"""Queries in SQL over the tables of a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tracebraid.api.job.readable_ranks import ask_ranks
from tracebraid.api.querying.files import OfRank, TablesOfRank, WrittenFiles, write_files
from tracebraid.api.querying.stored import StoredFiles, damaged_ranks, stored_files
from tracebraid.api.querying.tables import CATALOG
from tracebraid.errors import ArgumentError, QueryError
from tracebraid.files import is_folder, temporary_folder
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import Progress
from tracebraid.queries.catalog import SourceTable
from tracebraid.queries.limits import QUERY_MEMORY_BYTES, QueryLimits
from tracebraid.queries.query import answer, check

__all__ = ["QueryOptions", "answer_query", "sql"]


@dataclass(frozen=True)
class QueryOptions:
    """How a query is answered.

    Args:
        limits: what it may use.
        limit: the first rows alone; None: all.
        progress: is called with the share of the ranks that is read, 0 to 1.
    """

    limits: QueryLimits = field(default_factory=QueryLimits)
    limit: int | None = None
    progress: Progress | None = None


def sql(
    traces: Job | LinkedTrace,
    query: str,
    *,
    allow_files: Iterable[str | Path] = (),
    memory_bytes: int = QUERY_MEMORY_BYTES,
) -> pl.DataFrame:
    """The answer of a query in SQL over the tables of all ranks; needs duckdb: `pip install 'tracebraid[sql]'`.

    A query names tables and views as docs/sql.md lists them; it reads them and nothing else.
    Only what it names is read or computed, each rank once.

    Args:
        traces: a job; a linked trace is a job of one rank.
        query: one `select`, in the SQL of DuckDB.
        allow_files: folders whose files it may read, with `read_csv`, `read_json`, `read_parquet` or `read_text`.
        memory_bytes: what the engine may use; what does not fit goes to a temporary folder.

    Raises:
        QueryError: it is wrong, asks for what it may not have, or needs too much.
        InputError: a file cannot be read.
        ArgumentError: an option takes no such value.
        MissingLibraryError: duckdb is not installed.

    Examples:
        >>> import tracebraid
        >>> job = tracebraid.open(tracebraid.demo_path())
        >>> tracebraid.sql(job, "select rank, count(*) as steps from steps group by rank order by rank").rows()
        [(0, 6), (1, 6)]
    """
    limits = QueryLimits(memory_bytes, folders=_folders(allow_files))
    return answer_query(traces, query, QueryOptions(limits))


def answer_query(
    traces: Job | LinkedTrace, query: str, options: QueryOptions, findings: list[Finding] | None = None
) -> pl.DataFrame:
    """The answer of a query.

    Args:
        traces: a job, or a linked trace.
        query: one `select`.
        options: how it is answered.
        findings: a finding is added for each rank that cannot be read, and what was noticed; None: such a rank is an
            error.

    Raises:
        QueryError: it is wrong, asks for what it may not have, or needs too much.
        InputError: a file cannot be read.
        MissingLibraryError: duckdb is not installed.
    """
    with temporary_folder("tracebraid-sql-") as folder:
        scratch = folder / "scratch"
        checked = check(query, CATALOG, options.limits, scratch)
        stored = stored_files(traces, checked.named.tables)
        asking = _Asking(traces, folder / "tables", options.progress, findings)
        files = asking.files(checked.named.tables, stored)
        try:
            return answer(checked, files, scratch, options.limit)
        except QueryError:
            for error in damaged_ranks(stored, decode=True).values() if stored is not None else ():
                raise error from None
            raise


@dataclass(frozen=True, eq=False)
class _Asking:
    """How the files of tables are come by.

    Args:
        traces: a job, or a linked trace.
        folder: where files are written.
        progress: is called with the share of the ranks that is read, 0 to 1; None: nobody asks.
        findings: see `answer_query`.
    """

    traces: Job | LinkedTrace
    folder: Path
    progress: Progress | None
    findings: list[Finding] | None

    def files(
        self, tables: Iterable[SourceTable], stored: StoredFiles | None
    ) -> Mapping[SourceTable, Sequence[Path]]:
        """The files of tables: those of the store, and what it has not, written."""
        if stored is None:
            return self._written(tables, None).files
        if self.findings is not None:
            self.findings.extend(stored.left_out)
        else:
            for error in stored.unreadable.values():
                raise error
        left = [table for table in tables if table not in stored.files]
        if left:
            written = self._written(left, list(stored.ranks))
            return {**stored.paths(written.ranks), **written.files}
        if self.findings is not None:
            self.findings.extend(stored.noticed)
        return stored.paths(stored.ranks)

    def _written(self, tables: Iterable[SourceTable], ranks: list[int] | None) -> WrittenFiles:
        question = TablesOfRank.of(tables)
        answers = self._answers(question, ranks) if question.names or question.job_names else ()
        return write_files(question, answers, self.folder)

    def _answers(self, question: TablesOfRank, ranks: list[int] | None) -> Iterator[OfRank]:
        if isinstance(self.traces, LinkedTrace):
            yield question(self.traces)
        elif self.findings is None:
            yield from self.traces.each(question, ranks, self.progress)
        else:
            wanted = self.traces.ranks if ranks is None else ranks
            yield from ask_ranks(self.traces, wanted, question, self.progress or _silent, self.findings)


def _silent(_: float) -> None:
    """Progress that nobody looks at."""


def _folders(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    folders: Sequence[Path] = [Path(path) for path in paths]
    for folder in folders:
        if not is_folder(folder):
            raise ArgumentError(f"{folder} is no folder: allow_files takes folders")
    return tuple(folders)
