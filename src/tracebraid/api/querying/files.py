"""The tables that a query needs, as Parquet files: each rank is read once, and only one is in memory."""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.api.job.taking import gather_questions, parts_of
from tracebraid.api.querying.tables import LINKED_RANKS_TABLES, OF_JOB, OF_RANK
from tracebraid.files import writing
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.job import answers_of
from tracebraid.model.linked_ranks import Gather
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.queries.catalog import SourceTable

__all__ = ["OfRank", "TablesOfRank", "WrittenFiles", "write_files"]

_PARQUET_SUFFIX = "parquet"


@dataclass(frozen=True, eq=False)
class OfRank:
    """What a query takes of a rank.

    Args:
        rank: the rank.
        tables: by their full names, as Parquet.
        taken: what is needed to link it with the other ranks; empty: nothing is.
    """

    rank: int
    tables: Mapping[str, bytes]
    taken: Mapping[Hashable, Any]


@dataclass(frozen=True, eq=False)
class TablesOfRank:
    """The question that a rank is asked; it can be answered in another process, on another machine.

    Args:
        names: full names of tables of a rank.
        job_names: full names of tables over all ranks.
    """

    names: tuple[str, ...]
    job_names: tuple[str, ...]

    @classmethod
    def of(cls, tables: Iterable[SourceTable]) -> TablesOfRank:
        """What is asked for some tables."""
        tables = list(tables)
        of_rank = tuple(sorted(_full_name(table) for table in tables if table.of_rank))
        return cls(of_rank, tuple(sorted(_full_name(table) for table in tables if not table.of_rank)))

    def __call__(self, linked: LinkedTrace) -> OfRank:
        """The answer of a rank."""
        tables = {name: _parquet(_BY_NAME[name], linked) for name in self.names}
        taken = answers_of(linked, gather_questions(PROFILER_STEP, self.gathers)) if self.job_names else {}
        there = {name: data for name, data in tables.items() if data is not None}
        return OfRank(linked.rank, there, taken)

    @property
    def gathers(self) -> tuple[Gather, ...]:
        """What the analyses over all ranks take of each."""
        analyses = (OF_JOB[table] for name in self.job_names if (table := _BY_NAME[name]) in OF_JOB)
        return tuple(dict.fromkeys(gather for analysis in analyses for gather in analysis.gathers))


@dataclass(frozen=True, eq=False)
class WrittenFiles:
    """Tables as Parquet files.

    Args:
        files: of each table.
        ranks: the ranks that answered.
    """

    files: Mapping[SourceTable, Sequence[Path]]
    ranks: frozenset[int]


def write_files(question: TablesOfRank, answers: Iterable[OfRank], folder: Path) -> WrittenFiles:
    """Write what ranks answered, and what is made of all of them, as Parquet.

    Args:
        question: what they were asked.
        answers: their answers, one after the other.
        folder: an empty folder.

    Raises:
        OutputError: a file cannot be written.
    """
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
    linked = link_ranks([parts_of(of_rank, PROFILER_STEP, gathers) for of_rank in taken])
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
