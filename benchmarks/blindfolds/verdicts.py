"""The answers of a job, and how they compare with those of the sound one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path

import polars as pl

import tracebraid
from benchmarks.blindfolds.jobs import Ranks
from tracebraid import analyses
from tracebraid.analysis.catalog import analysis_names
from tracebraid.errors import TracebraidError
from tracebraid.model.engine import Job
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.answers import MOMENTS

_IDS = (
    "event",
    "lane",
    "correlation",
    "stream",
    "node_id",
    "id",
    "tid",
    "pid",
    "moment",
    "collective",
    "row",
    "rank",
)
"""Columns that hold these words, or end in them, are numbers of something, which may be counted otherwise."""
_EVIDENCE = frozenset({"confidence", "agrees", "size_bytes"})
_NAMES = ("name", "op", "annotation")
_REL, _ABS = 1e-6, 1.0
_REL_OF_SAVINGS = 0.05
"""Costs of recording are fitted to all events, so that savings move a little with any."""
_MOST = 0.5
"""An answer says itself that it does not know where so much of it has no launch, or no cause."""


class Verdict(Enum):
    """How an answer under a blindfold compares with the true one."""

    EQUAL = "equal"
    DOUBTED = "doubted"
    SILENT = "silent"


@dataclass(frozen=True)
class Asked:
    """An answer.

    Args:
        frame: its table.
        lacks: what it says that the traces lack.
        abstains: whether it is no answer.
    """

    frame: pl.DataFrame = field(default_factory=pl.DataFrame)
    lacks: frozenset[str] = frozenset()
    abstains: bool = False


@dataclass(frozen=True)
class Answers:
    """All answers of a job, and what its findings are."""

    asked: Mapping[str, Asked]
    said: frozenset[str]
    ranks: list[int]


def answers_of(ranks: Ranks, folder: Path) -> Answers:
    """Write the traces of a job, and ask everything."""
    for rank, trace in ranks.items():
        (folder / f"kineto_trace_{rank}.json").write_text(json.dumps(trace))
    try:
        job = tracebraid.open(folder)
        asked = {name: _asked(partial(_analysis, name), job) for name in analysis_names()}
        asked["metrics"] = _asked(_metrics, job)
        asked["advise"] = _asked(_advice, job)
        asked["critical path"] = _asked(_path, job)
    except TracebraidError as error:
        return Answers({}, frozenset({str(error)}), [*ranks])
    said = {finding.code.value for finding in job.findings}
    return Answers(asked, frozenset(said), [*ranks])


def _asked(ask: Callable[[Job], Asked], job: Job) -> Asked:
    try:
        return ask(job)
    except TracebraidError:
        return Asked(abstains=True)


def _analysis(name: str, job: Job) -> Asked:
    answer = analyses.analyze(name, job)
    lacks = {need.value for need in answer.ranks_by_need}
    if answer.frame.is_empty() and "known" in answer.analysis.when_empty:
        lacks.add("what is known")
    return Asked(answer.frame, frozenset(lacks), answer.is_unanswerable)


def _metrics(job: Job) -> Asked:
    found = tracebraid.metrics(job)
    return Asked(found, frozenset(found.get_column("lacks").drop_nulls()), False)


def _advice(job: Job) -> Asked:
    found = tracebraid.advise(job)
    lacks = {
        f"{name}: {need.value}" for name, of in found.lacks.items() for needs in of.values() for need in needs
    }
    if found.unlaunched > _MOST:
        lacks.add("launches")
    if not found.steps:
        lacks.add("steps")
    return Asked(found.items.select("saving_ns"), frozenset(lacks), found.is_unknown)


def _path(job: Job) -> Asked:
    found = tracebraid.critical_path(tracebraid.dependency_graph(job))
    # A mark more is a segment more; without marks the path is that of the whole trace, and says so by its step.
    steps = found.steps.drop("segments")
    lacks = {"steps"} if steps.get_column("step").null_count() else set()
    if int(steps.get_column("residual_ns").sum()) > _MOST * int(steps.get_column("span_ns").sum()):
        lacks.add("causes")
    return Asked(steps, frozenset(lacks), False)


def _without_steps_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Without the rows about the marks of steps."""
    names = [name for name in _NAMES if name in frame.columns]
    for name in names:
        frame = frame.filter(
            ~pl.col(name).cast(pl.String).str.starts_with(PROFILER_STEP).fill_null(value=False)
        )
    return frame


def _of_ranks(frame: pl.DataFrame, ranks: list[int]) -> pl.DataFrame:
    return (
        frame.filter(pl.col("rank").is_in(ranks) | pl.col("rank").is_null())
        if "rank" in frame.columns
        else frame
    )


def _numbers(frame: pl.DataFrame) -> dict[str, pl.Series]:
    """The columns of numbers, but for ids, moments and what says how a number is known."""
    found = {}
    for column in frame.get_columns():
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean) or _is_id(column.name):
            continue
        values = column.cast(pl.Float64)
        if column.name in MOMENTS or (
            column.name.endswith("_ns") and values.len() and (values.max() or 0) > 1e17
        ):
            continue
        found[column.name] = values
    return found


def _is_id(name: str) -> bool:
    is_id = any(name == word or name.endswith(f"_{word}") for word in _IDS)
    return is_id or name in _EVIDENCE or name.startswith("by_")


def _is_marked(frame: pl.DataFrame) -> bool:
    """Return whether rows say of themselves that they are bounds."""
    return any(
        name in frame.columns and bool(frame.get_column(name).sum()) for name in ("is_bound", "bounds")
    )


def compared(truth: Answers, found: Answers) -> dict[str, tuple[Verdict, str]]:
    """The verdict on each answer, and how it differs."""
    if not found.asked:
        return dict.fromkeys(truth.asked, (Verdict.DOUBTED, "refused"))
    news = found.said - truth.said
    verdicts = {}
    for name, true in truth.asked.items():
        own = found.asked[name]
        how = _difference(true, own, found.ranks)
        if not how:
            verdicts[name] = (Verdict.EQUAL, "")
        elif own.abstains or news or own.lacks - true.lacks or how == "null":
            verdicts[name] = (Verdict.DOUBTED, how)
        else:
            verdicts[name] = (Verdict.SILENT, how)
    return verdicts


def _difference(true: Asked, own: Asked, ranks: list[int]) -> str:
    """How the numbers differ; "" where they do not, "null" where some are null or rows say that they are bounds."""
    if true.abstains and own.abstains:
        return ""
    whole = _without_steps_names(_of_ranks(true.frame, ranks))
    part = _without_steps_names(own.frame)
    trues, others = _numbers(whole), _numbers(part)
    with_nulls = {
        name
        for name, values in others.items()
        if name in trues and values.null_count() > trues[name].null_count()
    }
    count, true_count = (_values(of.get("count")) for of in (others, trues))
    only_nulls = False
    for name, values in trues.items():
        found = others.get(name, pl.Series(name, [], dtype=pl.Float64))
        one, other = (sorted(column.drop_nulls().to_list()) for column in (values, found))
        rel_tol = _REL_OF_SAVINGS if name == "saving_ns" else _REL
        if _equal(one, other, rel_tol):
            continue
        # Rows may be together, or apart, where what tells them apart is null: none is lost.
        grouped = bool(with_nulls) and (_same_sum(one, other, rel_tol) or _same_sum(true_count, count, _REL))
        if grouped or (name in with_nulls and _are_among(other, one)):
            only_nulls = True
            continue
        if _is_marked(part) and not _is_marked(whole):
            return "null"
        return f"{name}: {_shown(one)} -> {_shown(other)}"
    return "null" if only_nulls else ""


def _values(column: pl.Series | None) -> list[float]:
    return [] if column is None else column.drop_nulls().to_list()


def _same_sum(values: Sequence[float], others: Sequence[float], rel_tol: float) -> bool:
    return len(values) > 0 and math.isclose(sum(values), sum(others), rel_tol=rel_tol, abs_tol=_ABS)


def _are_among(values: list[float], others: list[float]) -> bool:
    """Return whether sorted values are among others, each once."""
    rest = iter(others)
    return all(
        any(math.isclose(value, other, rel_tol=_REL, abs_tol=_ABS) for other in rest) for value in values
    )


def _equal(values: list[float], others: list[float], rel_tol: float) -> bool:
    return len(values) == len(others) and all(
        math.isclose(one, other, rel_tol=rel_tol, abs_tol=_ABS)
        for one, other in zip(values, others, strict=True)
    )


def _shown(values: list[float]) -> str:
    return f"{len(values)} values, sum {sum(values):,.6g}"
