"""`StoredAnswers`: the answers of a store, each read for all ranks on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.gaps import UNSEEN
from tracebraid.model.schema.links import MEMBERS, RANKS
from tracebraid.model.stage import Stage
from tracebraid.store.answers.joined import INDEX, Index, JoinedTable, RankFacts, Touched, joined_file
from tracebraid.store.manifest import ANSWERS, read_sealed, sha256_of, stored_bytes
from tracebraid.store.opening import check_index
from tracebraid.store.parquet import frame_of

SINGLE_ROW = frozenset({"rank_facts"})
"""Questions whose answer is one row for each rank."""

_Schema = Mapping[str, pl.DataType]

_INT = pl.Int64()
_FLOAT = pl.Float64()
_TEXT = pl.String()
_BOOL = pl.Boolean()
_STEP: _Schema = {"rank": _INT, "step": _TEXT}
_LENGTHS = (
    *(
        "span_ns",
        "device_span_ns",
        "compute_ns",
        "communication_ns",
        "overlap_ns",
        "exposed_communication_ns",
    ),
    *("exposed_memory_ns", "idle_ns", "launch_bound_ns"),
)
_TIMES = ("mean_ns", "median_ns", "p95_ns", "median_interval_ns", "tokens_per_second")
_FLOPS = ("span_ns", "model_flops", "hardware_flops")


@cache
def schemas() -> Mapping[str, _Schema]:
    """Their columns and dtypes, by the questions' names."""
    gathered: dict[str, _Schema] = {
        "members": MEMBERS.polars_schema(),
        "measured_steps": {
            **_STEP,
            "occurrence": _INT,
            "start_ns": _INT,
            **dict.fromkeys(_LENGTHS, _INT),
            "warmup": _BOOL,
            "doubtful": _BOOL,
        },
        "steps_of_rank": {**_STEP, **_ints("start_ns", "span_ns", "compute_ns", "idle_ns")},
        "rank_segments": {
            **_ints("rank", "event_id"),
            "kind": pl.Int8(),
            "name": _TEXT,
            "merged": _BOOL,
            **_ints("communication", "time_ns", "count"),
        },
        "flops_of_steps": {**_STEP, **_ints(*_FLOPS), "peak_flops_per_s": _FLOAT, "doubtful": _BOOL},
        "memory_of_devices": {
            "rank": _INT,
            "device": _TEXT,
            **_ints("allocated_bytes", "reserved_bytes"),
        },
        "times_of_phases": {
            "rank": _INT,
            "phase": _TEXT,
            **dict.fromkeys(_TIMES, _FLOAT),
            "with_doubtful": _BOOL,
        },
        "step_compute": {**_STEP, **_ints("length_ns", "compute_ns")},
        "collective_sites": EVIDENCE.polars_schema(),
        "unended": {
            **_ints("rank", "event_id"),
            **dict.fromkeys(("step", "type", "process_group", "description", "group_ranks"), _TEXT),
            **_ints("sequence", "source", "destination", "issued_ns", "waited_ns"),
        },
        "last_activity": {"rank": _INT, "last_event": _TEXT},
    }
    return {
        "rank_facts": RANKS.polars_schema(),
        "unseen_communication": UNSEEN,
        "advice.evidence": {**EVIDENCE.polars_schema(), "detector": _TEXT},
        "advice.windows": {**_STEP, **_ints("start_ns", "end_ns"), "warm_up": _BOOL},
        **{f"gather.{name}": schema for name, schema in gathered.items()},
    }


def _ints(*names: str) -> _Schema:
    return dict.fromkeys(names, _INT)


_AGAIN = "Pack it again: tracebraid pack PATH -o STORE"


def read_index(store: Path, writer: str) -> Index | None:
    """Read the index of stored answers; None if there are none, or another version wrote them."""
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


class StoredAnswers(Struct, frozen=True, eq=False):
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
        """The answers of the ranks that are described as they were then."""
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
        """Return the facts of a rank."""
        return self.index.facts[self.positions[rank]]

    def answer(
        self, rank: int, key: str, schema: Mapping[str, pl.DataType] | None
    ) -> tuple[Any, Touched] | None:
        """Return the answer of a rank, and the stages touched for it; None if not stored."""
        position = self.positions[rank]
        values = self.index.values.get(key)
        if values is not None and values.values[position]:
            return values.values[position][0], Touched(values.touched[position])
        table = self.index.tables.get(key)
        if table is None or table.rows[position] < 0:
            return None
        frame, ends = self._tables[key]()
        rows = table.rows[position]
        of_rank = frame.slice(ends[position] - rows, rows)
        problem = None
        if schema is not None and list(frame.schema.items()) != list(schema.items()):
            problem = "it has other columns"
        elif key in SINGLE_ROW and rows != 1:
            problem = f"it has {rows:,} rows of rank {rank}, and not one"
        elif "rank" in frame.columns and (of_rank.get_column("rank") != self.facts(rank).rank).any():
            problem = f"it has rows of other ranks for rank {rank}"
        if problem is not None:
            path = str(joined_file(self.store, key))
            raise InputError(path, f"this file of the store is damaged: {problem}", _AGAIN)
        return of_rank, Touched(table.touched[position])


def _read_again(store: Path, writer: str, descriptions: Mapping[int, str]) -> StoredAnswers | None:
    index = read_index(store, writer)
    return None if index is None else StoredAnswers.of(store, index, descriptions)


def _read(path: Path, table: JoinedTable) -> tuple[pl.DataFrame, list[int]]:
    """Read the answers of all ranks, and the end offset of each rank."""
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
