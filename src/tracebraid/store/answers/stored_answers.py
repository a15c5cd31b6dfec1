"""`StoredAnswers`: the answers of a store, each read for all ranks when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.errors import InputError
from tracebraid.model.stage import Stage
from tracebraid.store.answers.joined import INDEX, Index, JoinedTable, joined_file
from tracebraid.store.answers.rank_answers import RankFacts
from tracebraid.store.answers.touched import Touched
from tracebraid.store.layout import ANSWERS
from tracebraid.store.parquet import frame_of
from tracebraid.store.sealed_json import read_sealed, sha256_of
from tracebraid.store.soundness import check_index
from tracebraid.store.stored_file import stored_bytes

__all__ = ["StoredAnswers", "damaged_answers", "read_index"]

_AGAIN = "Pack it again: tracebraid pack PATH -o STORE"


def read_index(store: Path, writer: str) -> Index | None:
    """Which answers are stored; None where there are none, or another version wrote them.

    Raises:
        InputError: what says so is damaged.
    """
    path = store / ANSWERS / INDEX
    if not path.exists():
        return None
    index, _ = read_sealed(path, Index, check_index)
    return index if index.writer == writer else None


def damaged_answers(store: Path, writer: str) -> Iterator[InputError]:
    """An error for each file of answers that is not there, or is not the one that was written; each is read whole."""
    index = read_index(store, writer)
    for key, table in index.tables.items() if index is not None else ():
        try:
            _content_of(joined_file(store, key), table)
        except InputError as error:
            yield error


@dataclass(frozen=True, eq=False)
class StoredAnswers:
    """The answers of a store.

    Args:
        store: its folder.
        index: which there are.
        positions: of each rank in the index, by the number of its files; only of ranks that the store still holds as
            they were when they answered.
    """

    store: Path
    index: Index
    positions: Mapping[int, int]
    _tables: Mapping[str, Stage[tuple[pl.DataFrame, list[int]]]]

    @classmethod
    def of(cls, store: Path, index: Index, descriptions: Mapping[int, str]) -> StoredAnswers:
        """The answers of the ranks that are described as they were then.

        Args:
            store: the folder of the store.
            index: which answers there are.
            descriptions: the hash of what describes each rank, by the number of its files.
        """
        stated = zip(index.ranks, index.descriptions, strict=True)
        positions = {
            rank: position
            for position, (rank, sha256) in enumerate(stated)
            if descriptions.get(rank) == sha256
        }
        tables: dict[str, Stage[tuple[pl.DataFrame, list[int]]]] = {}
        for key, table in index.tables.items():
            tables[key] = Stage(partial(_read, joined_file(store, key), table))
        return cls(store, index, positions, tables)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process reads for itself what it is asked for.
        descriptions = {rank: self.index.descriptions[position] for rank, position in self.positions.items()}
        return _read_again, (self.store, self.index.writer, descriptions)

    def facts(self, rank: int) -> RankFacts:
        """What is known of a rank."""
        return self.index.facts[self.positions[rank]]

    def answer(
        self, rank: int, key: str, schema: Mapping[str, pl.DataType] | None
    ) -> tuple[Any, Touched] | None:
        """The answer of a rank, and what was touched for it; None where it is not stored.

        Args:
            rank: the rank's number in the store.
            key: the question's name.
            schema: the columns of a table, in their order, that it has to have; None: any.

        Raises:
            InputError: the file of the answers is not the one that was written.
        """
        position = self.positions[rank]
        values = self.index.values.get(key)
        if values is not None and values.values[position]:
            return values.values[position][0], Touched(values.touched[position])
        table = self.index.tables.get(key)
        if table is None or table.rows[position] < 0:
            return None
        frame, ends = self._tables[key]()
        if schema is not None and list(frame.schema.items()) != list(schema.items()):
            path = str(joined_file(self.store, key))
            raise InputError(path, "this file of the store is damaged: it has other columns", _AGAIN)
        rows = table.rows[position]
        return frame.slice(ends[position] - rows, rows), Touched(table.touched[position])


def _read_again(store: Path, writer: str, descriptions: Mapping[int, str]) -> StoredAnswers | None:
    index = read_index(store, writer)
    return None if index is None else StoredAnswers.of(store, index, descriptions)


def _read(path: Path, table: JoinedTable) -> tuple[pl.DataFrame, list[int]]:
    """The answers of all ranks, and where those of each end."""
    content = _content_of(path, table)
    try:
        frame = frame_of(content).with_columns(pl.col(table.categories).cast(pl.Categorical))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(str(path), f"this file of the store is damaged: {error}", _AGAIN) from None
    if frame.height != sum(max(0, rows) for rows in table.rows):
        raise InputError(str(path), "this file of the store is damaged: it has other rows", _AGAIN)
    return frame, list(accumulate(max(0, rows) for rows in table.rows))


def _content_of(path: Path, table: JoinedTable) -> bytes:
    try:
        content = stored_bytes(path)
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(path), problem, _AGAIN) from None
    if len(content) != table.size_bytes or sha256_of(content) != table.sha256:
        raise InputError(str(path), "this file of the store is damaged, or another one", _AGAIN)
    return content
