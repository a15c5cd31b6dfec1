"""The answers of all ranks joined: a table for each question, read once, and an index of them."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntFlag
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.files import whole_folder, write_whole, writing
from tracebraid.model.linked_trace import LinkedTrace, LinkStages
from tracebraid.model.stage import KeptValues, Stage
from tracebraid.store.findings import stored_findings
from tracebraid.store.manifest import ANSWERS, RANKS, StoredFinding, sealed, sha256_of, stored_bytes
from tracebraid.store.parquet import refuse_expanding

T = TypeVar("T")


class Touched(IntFlag):
    """Stages, by their findings."""

    NOTHING = 0
    ET = 1
    TREE = 2
    LINKS = 4
    DEPENDENCIES = 8


_WITH_ET = Touched.ET | Touched.TREE | Touched.LINKS
_OF_STAGE = {
    "et": Touched.ET,
    "host_tree": Touched.TREE,
    "host_tree_by_et": _WITH_ET,
    "host_links": _WITH_ET,
    "node_links": _WITH_ET,
    "matched": _WITH_ET,
    "launches": Touched.TREE,
    "device_links": _WITH_ET,
    "forward_backward": Touched.NOTHING,
    "dependencies": Touched.TREE | Touched.DEPENDENCIES,
    "coverage": _WITH_ET,
}
"""Stages that a stage computes, itself included, as in `linking.link_traces`."""


class _Log:
    """Log of touched stages since the last look."""

    def __init__(self) -> None:
        self.touched = Touched.NOTHING

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Start with an empty log, and restore the previous one at the end of the block."""
        before, self.touched = self.touched, Touched.NOTHING
        try:
            yield
        finally:
            self.touched |= before


class _TouchedStage(Stage[T]):
    """A stage that records its use."""

    def __init__(self, stage: Stage[T], touches: Touched, log: _Log) -> None:
        super().__init__(stage)
        self._touches, self._log = touches, log

    def __call__(self) -> T:
        self._log.touched |= self._touches
        return super().__call__()


class _TouchedValues(KeptValues):
    """Cached values that record the stages behind each, on every access."""

    def __init__(self, log: _Log) -> None:
        super().__init__()
        self._log, self._made_of = log, dict[Hashable, Touched]()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._log.apart():
            value = super().get(key, compute)
            touched = self._log.touched | self._made_of.get(key, Touched.NOTHING)
            self._made_of[key] = self._log.touched = touched
        return value


class TouchedTrace(LinkedTrace):
    """Linked trace of a rank that records the stages that a question touched."""

    _log: _Log

    @classmethod
    def of(cls, linked: LinkedTrace) -> TouchedTrace:
        """One of these that shares the stages of another, and none of the values derived from it."""
        log = _Log()
        members: dict[str, Any] = {name: getattr(linked.stages, name) for name in _OF_STAGE}
        touched: dict[str, Any] = {
            name: None if stage is None else _TouchedStage(stage, _OF_STAGE[name], log)
            for name, stage in members.items()
        }
        trace = cls(linked.timeline, LinkStages(**touched), linked.annotation, _TouchedValues(log))
        object.__setattr__(trace, "_log", log)
        return trace

    def asked(self, question: Callable[[LinkedTrace], T]) -> tuple[T, Touched]:
        """Return the answer, and the stages touched for it."""
        self._log.touched = Touched.NOTHING
        value = question(self)
        return value, self._log.touched


_FACTS = ""
"""Name of the row with facts about the rank."""
_TABLE = "table"
_VALUE = "value"
_SCHEMA: dict[str, Any] = {
    "key": pl.String,
    "form": pl.String,
    "touched": pl.Int64,
    "categories": pl.List(pl.String),
    "content": pl.Binary,
}


class RankFacts(Struct, frozen=True):
    """Facts about a rank without its tables.

    Args:
        rank: the rank that its trace states.
        path: of its Kineto trace.
        size_bytes: of its Kineto trace; None if that is unknown.
        has_et: whether it has an Execution Trace.
        span_ns: first start and last end of its events; None without.
        findings: findings in the Execution Trace, the Kineto trace, and the stages of `LinkStages.findings`.
    """

    rank: int
    path: str
    size_bytes: int | None
    has_et: bool
    span_ns: tuple[int, int] | None
    findings: tuple[tuple[StoredFinding, ...], ...]


Answered: TypeAlias = "tuple[pl.DataFrame | Any, Touched]"
"""A table or JSON value, and the stages touched for it."""


class RankAnswers(Struct, frozen=True, eq=False):
    """The answers of a rank.

    Args:
        facts: the rank.
        answers: by the names of the questions; texts that repeat are texts in these tables.
        categories: of each table the columns that are categories.
    """

    facts: RankFacts
    answers: Mapping[str, Answered]
    categories: Mapping[str, tuple[str, ...]]


def facts_of(linked: LinkedTrace) -> RankFacts:
    """Collect the facts of a rank whose stages are computed as far as possible."""
    noticed = [stage.findings() if stage.of.is_computed else () for stage in linked.stages.findings]
    et = linked.stages.et
    of_et = et().findings if et is not None and et.is_computed else ()
    findings = tuple(map(stored_findings, (of_et, linked.timeline.findings, *noticed)))
    timeline = linked.timeline
    return RankFacts(
        linked.rank, timeline.path, timeline.size_bytes, linked.has_et, timeline.span_ns, findings
    )


def write_answers(store: Path, rank: int, facts: RankFacts, answers: Mapping[str, Answered]) -> None:
    """Write the answers of a rank."""
    rows: list[tuple[str, str, int, Sequence[str], bytes]] = [
        (_FACTS, _VALUE, 0, (), json.dumps(msgspec.to_builtins(facts)).encode())
    ]
    for key, (answer, touched) in answers.items():
        if isinstance(answer, pl.DataFrame):
            rows.append((key, _TABLE, int(touched), *_encoded(answer)))
        else:
            rows.append((key, _VALUE, int(touched), (), json.dumps(answer).encode()))
    file = io.BytesIO()
    pl.DataFrame(rows, schema=_SCHEMA, orient="row").write_parquet(file, compression="zstd")
    target = answers_file(store, rank)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, [file.getvalue()], overwrite=True)


def read_answers(store: Path, rank: int) -> RankAnswers | None:
    """The answers of a rank; None if there are none that can be read."""
    try:
        content = stored_bytes(answers_file(store, rank))
        refuse_expanding(content)
        frame = pl.read_parquet(io.BytesIO(content), schema=pl.Schema(_SCHEMA))
        return _decoded(frame)
    except (
        OSError,
        InputError,
        ValueError,
        msgspec.MsgspecError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ):
        return None


def answers_file(store: Path, rank: int) -> Path:
    """The file of a rank's answers."""
    return store / ANSWERS / RANKS / f"rank_{rank:06d}.parquet"


def _encoded(frame: pl.DataFrame) -> tuple[list[str], bytes]:
    """The columns that are categories, and the table as Arrow."""
    categories = [name for name, dtype in frame.schema.items() if dtype == pl.Categorical]
    file = io.BytesIO()
    # Without views of texts: where these point to depends on how threads shared the work.
    plain = frame.with_columns(pl.col(categories).cast(pl.String)).rechunk()
    plain.write_ipc(file, compat_level=pl.CompatLevel.oldest())
    return categories, file.getvalue()


def _decoded(frame: pl.DataFrame) -> RankAnswers:
    facts: RankFacts | None = None
    answers: dict[str, Answered] = {}
    categories: dict[str, tuple[str, ...]] = {}
    for key, form, touched, names, content in frame.iter_rows():
        if key == _FACTS:
            facts = msgspec.convert(json.loads(content), RankFacts)
        elif form == _TABLE:
            answers[key] = pl.read_ipc(content), Touched(touched)
            categories[key] = tuple(names)
        else:
            answers[key] = json.loads(content), Touched(touched)
    if facts is None:
        raise ValueError("it does not describe its rank")
    return RankAnswers(facts, answers, categories)


INDEX = "index.json"
_JOINED = "joined"
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
    """Index of stored answers.

    Args:
        format: the version of the store's format.
        writer: the version of Tracebraid that answered; others may differ.
        ranks: the numbers of the ranks' files.
        descriptions: hash of each rank's description: ranks packed since have no answers here.
        facts: the facts of each.
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
    """Join the answers of ranks, replacing earlier joined files."""
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
    """The answers to a question, written to a file; None if they are not of one schema."""
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
