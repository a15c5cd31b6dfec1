"""The answers of all ranks joined: a table for each question, read once, and an index of them."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import Struct

from tracebraid.files import whole_folder, write_whole, writing
from tracebraid.store.answers.rank_answers import RankAnswers, RankFacts, read_answers
from tracebraid.store.layout import ANSWERS
from tracebraid.store.sealed_json import sealed, sha256_of

__all__ = ["INDEX", "Index", "JoinedTable", "JoinedValues", "join_answers", "joined_file"]

INDEX, _JOINED = "index.json", "joined"
_NONE = -1
"""Rows of a rank whose answer is not stored."""


class JoinedTable(Struct, frozen=True):
    """The answers of all ranks to a question, as one table.

    Args:
        rows: of each rank, in the order of `Index.ranks`; -1 where its answer is not stored.
        touched: of each rank, see `Touched`.
        categories: the columns that are categories.
        size_bytes: of the file.
        sha256: of its content.
    """

    rows: tuple[int, ...]
    touched: tuple[int, ...]
    categories: tuple[str, ...]
    size_bytes: int
    sha256: str


class JoinedValues(Struct, frozen=True):
    """The answers of all ranks to a question that are no tables.

    Args:
        values: of each rank, in the order of `Index.ranks`; an empty list where its answer is not stored, else a list
            of one.
        touched: of each rank, see `Touched`.
    """

    values: tuple[tuple[Any, ...], ...]
    touched: tuple[int, ...]


class Index(Struct, frozen=True):
    """Which answers are stored.

    Args:
        format: the version of the store's format.
        writer: the version of Tracebraid that answered: another may answer otherwise.
        ranks: the numbers of the ranks' files.
        descriptions: the hash of what describes each of these ranks: what was packed since has no answer here.
        facts: what is known of each.
        tables: by the names of the questions.
        values: by the names of the others.
    """

    format: int
    writer: str
    ranks: tuple[int, ...]
    descriptions: tuple[str, ...]
    facts: tuple[RankFacts, ...]
    tables: dict[str, JoinedTable]
    values: dict[str, JoinedValues]


def join_answers(store: Path, descriptions: Mapping[int, str], version: tuple[int, str]) -> None:
    """Join the answers of ranks; what was joined before is replaced.

    Args:
        store: the folder of the store.
        descriptions: the hash of what describes each rank that is packed, by the number of its files.
        version: of the store's format, and of Tracebraid.

    Raises:
        OutputError: a file cannot be written.
    """
    found = {rank: answers for rank in descriptions if (answers := read_answers(store, rank)) is not None}
    ranks = list(found.values())
    keys = dict.fromkeys(key for of_rank in ranks for key in of_rank.answers)
    folder, index_file = store / ANSWERS / _JOINED, store / ANSWERS / INDEX
    tables: dict[str, JoinedTable] = {}
    values: dict[str, JoinedValues] = {}
    with writing(folder):
        # Without the index nobody reads the tables.
        index_file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
    with whole_folder(folder) as part:
        for key in keys:
            if all(
                isinstance(of_rank.answers[key][0], pl.DataFrame)
                for of_rank in ranks
                if key in of_rank.answers
            ):
                table = _joined_table(part / f"{key}.parquet", key, ranks)
                if table is not None:
                    tables[key] = table
            else:
                values[key] = _joined_values(key, ranks)
    index = Index(
        format=version[0],
        writer=version[1],
        ranks=tuple(found),
        descriptions=tuple(descriptions[rank] for rank in found),
        facts=tuple(of_rank.facts for of_rank in ranks),
        tables=tables,
        values=values,
    )
    write_whole(index_file, [sealed(index)], overwrite=True)


def joined_file(store: Path, key: str) -> Path:
    """The table of the answers to a question."""
    return store / ANSWERS / _JOINED / f"{key}.parquet"


def _joined_table(path: Path, key: str, ranks: Sequence[RankAnswers]) -> JoinedTable | None:
    """The answers to a question, written to a file; None where they are not of one schema."""
    frames = {
        number: of_rank.answers[key][0] for number, of_rank in enumerate(ranks) if key in of_rank.answers
    }
    forms = {(tuple(frame.schema.items()), ranks[number].categories[key]) for number, frame in frames.items()}
    if len(forms) != 1:
        return None
    file = io.BytesIO()
    pl.concat(list(frames.values())).rechunk().write_parquet(file, compression="zstd")
    path.write_bytes(file.getvalue())
    return JoinedTable(
        rows=tuple(frames[number].height if number in frames else _NONE for number in range(len(ranks))),
        touched=_touched(key, ranks),
        categories=ranks[next(iter(frames))].categories[key],
        size_bytes=len(file.getvalue()),
        sha256=sha256_of(file.getvalue()),
    )


def _joined_values(key: str, ranks: Sequence[RankAnswers]) -> JoinedValues:
    found = [of_rank.answers.get(key) for of_rank in ranks]
    return JoinedValues(
        tuple(() if answer is None else (answer[0],) for answer in found), _touched(key, ranks)
    )


def _touched(key: str, ranks: Sequence[RankAnswers]) -> tuple[int, ...]:
    return tuple(int(of_rank.answers[key][1]) if key in of_rank.answers else 0 for of_rank in ranks)
