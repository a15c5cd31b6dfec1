"""The answers of a job, and how they compare with those of the sound one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
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
from tracebraid.model.finding_code import Severity

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
)
"""Columns that hold these words, or end in them, are numbers of something, which may be counted otherwise."""
_OF_FILES = frozenset({"size_bytes", "events", "counts"})
_REL, _ABS = 1e-6, 1.0


class Verdict(Enum):
    """How an answer under a blindfold compares with the true one."""

    EQUAL = "equal"
    DOUBTED = "doubted"
    SILENT = "silent"


@dataclass(frozen=True)
class Asked:
    """An answer.

    Args:
        numbers: the values of each column of numbers, without nulls, sorted.
        nulls: how many values of each are null.
        lacks: what it says that the traces lack.
        abstains: whether it is no answer.
    """

    numbers: Mapping[str, list[float]] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    abstains: bool = False


@dataclass(frozen=True)
class Answers:
    """All answers of a job, and its findings of at least a warning."""

    asked: Mapping[str, Asked]
    said: frozenset[str]


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
        return Answers({}, frozenset({str(error)}))
    said = {finding.code.value for finding in job.findings if finding.code.severity is not Severity.NOTE}
    return Answers(asked, frozenset(said))


def _asked(ask: Callable[[Job], Asked], job: Job) -> Asked:
    try:
        return ask(job)
    except TracebraidError:
        return Asked(abstains=True)


def _analysis(name: str, job: Job) -> Asked:
    answer = analyses.analyze(name, job)
    lacks = frozenset(need.value for need in answer.ranks_by_need)
    return _of_frame(answer.frame, lacks, answer.is_unanswerable)


def _metrics(job: Job) -> Asked:
    found = tracebraid.metrics(job)
    return _of_frame(found.select("value"), frozenset(), False)


def _advice(job: Job) -> Asked:
    found = tracebraid.advise(job)
    return _of_frame(found.items.select("saving_ns"), frozenset(), found.is_unknown)


def _path(job: Job) -> Asked:
    found = tracebraid.critical_path(tracebraid.dependency_graph(job))
    return _of_frame(found.steps, frozenset(), False)


def _of_frame(frame: pl.DataFrame, lacks: frozenset[str], abstains: bool) -> Asked:
    numbers, nulls = {}, {}
    for column in frame.get_columns():
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean) or _is_id(column.name):
            continue
        values = column.cast(pl.Float64)
        if column.name.endswith("_ns") and values.len() and (values.max() or 0) > 1e17:
            continue
        numbers[column.name] = sorted(values.drop_nulls().to_list())
        nulls[column.name] = values.null_count()
    return Asked(numbers, nulls, lacks, abstains)


def _is_id(name: str) -> bool:
    return name in _OF_FILES or any(name == word or name.endswith(f"_{word}") for word in _IDS)


def compared(truth: Answers, found: Answers) -> dict[str, tuple[Verdict, str]]:
    """The verdict on each answer, and how it differs."""
    if not found.asked:
        return dict.fromkeys(truth.asked, (Verdict.DOUBTED, "refused"))
    news = found.said - truth.said
    verdicts = {}
    for name, true in truth.asked.items():
        own = found.asked[name]
        how = _difference(true, own)
        if not how:
            verdicts[name] = (Verdict.EQUAL, "")
        elif own.abstains or news or own.lacks - true.lacks or how == "null":
            verdicts[name] = (Verdict.DOUBTED, how)
        else:
            verdicts[name] = (Verdict.SILENT, how)
    return verdicts


def _difference(true: Asked, own: Asked) -> str:
    """How the numbers differ; "" where they do not, "null" where some are null."""
    if true.abstains and own.abstains:
        return ""
    only_nulls = False
    for name, values in true.numbers.items():
        others = own.numbers.get(name, [])
        if _equal(values, others):
            continue
        missing = len(values) - len(others)
        if missing > 0 and own.nulls.get(name, 0) - true.nulls[name] == missing:
            only_nulls = True
            continue
        return f"{name}: {_shown(values)} -> {_shown(others)}"
    return "null" if only_nulls else ""


def _equal(values: list[float], others: list[float]) -> bool:
    return len(values) == len(others) and all(
        math.isclose(one, other, rel_tol=_REL, abs_tol=_ABS)
        for one, other in zip(values, others, strict=True)
    )


def _shown(values: list[float]) -> str:
    return f"{len(values)} values, sum {sum(values):,.6g}"
