"""The answers of one rank in a file: written while it is packed, read when those of all ranks are joined."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.files import write_whole, writing
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.store.answers.touched import Touched
from tracebraid.store.findings import stored_findings
from tracebraid.store.layout import ANSWERS, RANKS
from tracebraid.store.manifest import StoredFinding
from tracebraid.store.parquet import refuse_expanding
from tracebraid.store.stored_file import stored_bytes

__all__ = [
    "Answered",
    "RankAnswers",
    "RankFacts",
    "answers_file",
    "facts_of",
    "read_answers",
    "write_answers",
]

_FACTS = ""
"""The row of what is known of the rank itself."""
_TABLE, _VALUE = "table", "value"
_SCHEMA: dict[str, Any] = {
    "key": pl.String,
    "form": pl.String,
    "touched": pl.Int64,
    "categories": pl.List(pl.String),
    "content": pl.Binary,
}


class RankFacts(Struct, frozen=True):
    """What is known of a rank without its tables.

    Args:
        rank: the rank that its trace states.
        path: of its Kineto trace.
        size_bytes: of its Kineto trace; None where that is unknown.
        has_et: whether it has an Execution Trace.
        span_ns: first start and last end of its events; None without.
        findings: what was noticed in the Execution Trace, the Kineto trace, and the stages of `LinkStages.findings`.
    """

    rank: int
    path: str
    size_bytes: int | None
    has_et: bool
    span_ns: tuple[int, int] | None
    findings: tuple[tuple[StoredFinding, ...], ...]


Answered: TypeAlias = "tuple[pl.DataFrame | Any, Touched]"
"""A table, or a value of JSON, and what was touched for it."""


@dataclass(frozen=True, eq=False)
class RankAnswers:
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
    """What is known of a rank whose stages are computed, as far as they can be."""
    noticed = [stage.findings() if stage.of.is_computed else () for stage in linked.stages.findings]
    et = linked.stages.et
    of_et = et().findings if et is not None and et.is_computed else ()
    findings = tuple(map(stored_findings, (of_et, linked.timeline.findings, *noticed)))
    timeline = linked.timeline
    return RankFacts(
        linked.rank, timeline.path, timeline.size_bytes, linked.has_et, timeline.span_ns, findings
    )


def write_answers(store: Path, rank: int, facts: RankFacts, answers: Mapping[str, Answered]) -> None:
    """Write the answers of a rank.

    Args:
        store: the folder of the store.
        rank: the number of its files.
        facts: what is known of the rank.
        answers: by the names of the questions.

    Raises:
        OutputError: the file cannot be written.
    """
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
    """The answers of a rank; None where there are none that can be read."""
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
        raise ValueError("it says nothing of its rank")
    return RankAnswers(facts, answers, categories)
