"""Calls upon two forms of the same traces: all answers to them are equal.

What may differ is what is said of the files themselves: their paths, names, sizes and formats, bytes and places in
them, and the text of events that are not read (`other_events`).
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import asdict

import tracebraid
from tools.fuzz.calls.commands import run_command
from tools.fuzz.model import Call, FailureError, FailureKind
from tools.fuzz.mutations.same_meaning import FIRST, SAME
from tracebraid import ExportOptions
from tracebraid.chakra import ChakraOptions, Detail
from tracebraid.errors import TracebraidError
from tracebraid.model.analysis import Analysis
from tracebraid.model.engine import Job
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace

Answers = Iterator[tuple[str, object]]
"""Names of answers, and the answers."""

_ABOUT_FILES = ("size_bytes", "path", "et", "kineto", "where", "source", "file", "files", "recorded_in")
"""Members of JSON that say something of the files."""
_NAME_OF_FILE = re.compile(r"(\.json)(\.gz|\.zst)?")
_PLACE = re.compile(r"\b(byte|bytes|events?|nodes?) [\d,]+(, [\d,]+)*(, \.\.\.)?")
_SOME = 8
"""So many analyses are asked in a call."""
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "per_step": (True,),
    "with_doubtful": (True,),
    "with_warmup": (True,),
}
_BY = {
    "ops": ("name", "stack", "shapes", "module"),
    "idle_blame": ("host_activity", "op", "call", "annotation", "module", "python_line", "next_op"),
}
_UNTOLD = {"other_events": "phase"}
"""Tables whose rows are the text of the file: of them, columns without it."""


def _traces_in(folder: Path) -> Path:
    """The input of a folder: the archive that it holds, or itself."""
    found = [path for path in folder.iterdir() if ".json" not in path.name]
    return found[0] if len(found) == 1 and len(list(folder.iterdir())) == 1 else folder


def answers_differ(
    ask: Callable[[Path, Path, random.Random], Answers], folder: Path, rng: random.Random
) -> None:
    """Ask both forms of a mutant the same."""
    state = rng.getstate()
    found = []
    for form in (FIRST, SAME):
        out = folder / "out" / form
        out.mkdir(parents=True)
        rng.setstate(state)
        found.append(_answers(partial(ask, _traces_in(folder / form), out, rng), folder / form))
    first, same = found
    if first.keys() != same.keys():
        names = sorted(first.keys() ^ same.keys())
        refused = [f"{name}: {answers[name]}" for answers in found for name in names if name in answers]
        raise _differs("; ".join(refused)[:600])
    for name, answer in first.items():
        _compare(name, answer, same[name])


def _answers(ask: Callable[[], Answers], folder: Path) -> dict[str, object]:
    """All answers; where there is an error, its text is the last of them."""
    found: dict[str, object] = {}
    try:
        for name, answer in ask():
            found[name] = _comparable(answer, str(folder))
    except TracebraidError as error:
        found[f"refused with {type(error).__name__}"] = _without_files(str(error), str(folder))
    return found


def _compare(name: str, first: object, same: object) -> None:
    if isinstance(first, pl.DataFrame) and isinstance(same, pl.DataFrame):
        _compare_tables(name, first, same)
    elif isinstance(first, dict) and isinstance(same, dict) and first.keys() == same.keys():
        for key in first:
            _compare(f"{name} {key}", first[key], same[key])
    elif isinstance(first, list) and isinstance(same, list) and len(first) == len(same):
        for number, (one, other) in enumerate(zip(first, same, strict=True)):
            _compare(f"{name} [{number}]", one, other)
    elif type(first) is not type(same) or first != same:
        raise _differs(f"{name} is {_cut(first, same)} and {_cut(same, first)}")


def _compare_tables(name: str, first: pl.DataFrame, same: pl.DataFrame) -> None:
    if first.schema != same.schema or first.height != same.height:
        other = set(first.schema.items()) ^ set(same.schema.items())
        raise _differs(
            f"{name} has {first.height} and {same.height} rows, and columns differ in {other or None}"
        )
    if first.equals(same):
        return
    columns = [column for column in first.columns if not first[column].equals(same[column], null_equal=True)]
    at = next(
        row for row in range(first.height) if first.select(columns).row(row) != same.select(columns).row(row)
    )
    rows = (first.select(columns).row(at), same.select(columns).row(at))
    sorts = "in another order" if _same_rows(first, same) else "others"
    raise _differs(
        f"{name}: rows are {sorts}; row {at} differs in {columns}: {_cut(*rows)} and {_cut(*rows[::-1])}"
    )


def _same_rows(first: pl.DataFrame, same: pl.DataFrame) -> bool:
    return sorted(map(repr, first.iter_rows())) == sorted(map(repr, same.iter_rows()))


def _cut(value: object, other: object, length: int = 160) -> str:
    """The part of a value where it begins to differ from the other."""
    text, another = repr(value), repr(other)
    at = next(
        (i for i, (a, b) in enumerate(zip(text, another, strict=False)) if a != b),
        min(len(text), len(another)),
    )
    return text[max(0, at - 60) : at + length]


def _differs(message: str) -> FailureError:
    return FailureError(FailureKind.OTHER_MEANING, message)


def _comparable(answer: object, folder: str) -> object:
    """An answer without what it says of files."""
    match answer:
        case pl.DataFrame():
            return _table(answer, folder)
        case dict():
            return {
                key: _comparable(value, folder) for key, value in answer.items() if key not in _ABOUT_FILES
            }
        case list() | tuple():
            return [_comparable(value, folder) for value in answer]
        case np.ndarray():
            return answer.tolist()
        case Finding():
            return _comparable([answer.code.name, answer.count, {**answer.details}], folder)
        case str():
            return _without_files(answer, folder)
        case bytes():
            return answer.replace(folder.encode(), b"FOLDER")
    return answer


def _table(frame: pl.DataFrame, folder: str) -> pl.DataFrame:
    texts = [name for name, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical)]
    shown = frame.drop(_ABOUT_FILES, strict=False)
    plain = shown.with_columns(
        pl.col(name).cast(pl.String).str.replace_all(folder, "FOLDER", literal=True)
        for name in texts
        if name in shown.columns
    )
    # The value of an argument without a column of its own is the JSON of the file, whatever its form.
    return plain.with_columns(
        pl.col(name).map_elements(_parsed, pl.String) for name in ("value",) if name in texts
    )


def _parsed(text: str) -> str:
    try:
        return repr(json.loads(text, parse_int=float))
    except ValueError:
        return text


def _without_files(text: str, folder: str) -> str:
    text = re.sub(r"job\.(zip|tar(\.gz|\.zst)?)!?/?", "", text.replace(folder, "FOLDER"))
    return _PLACE.sub("PLACE", _NAME_OF_FILE.sub(r"\1", text)).replace("FOLDER/", "FOLDER")


def _tables(path: Path, _: Path, __: random.Random) -> Answers:
    """All tables that are read and linked."""
    job = tracebraid.open(path, cache=False)
    yield "ranks", list(job.ranks)
    for rank in job.ranks:
        try:
            linked = job[rank].compute_all()
        except TracebraidError as error:
            yield f"rank {rank} is refused", str(error)
            continue
        yield f"findings of rank {rank}", _sorted_findings(linked.all_findings)
        for name, table in linked.timeline.tables.items():
            yield f"{name} of rank {rank}", table.select(_UNTOLD.get(name, pl.all()))
        yield f"process groups of rank {rank}", linked.timeline.process_groups
        yield f"header of rank {rank}", linked.timeline.header
        for name, value in linked._named_stages().items():
            yield (
                f"{name} of rank {rank}",
                stage if isinstance(stage := value(), pl.DataFrame) else repr(stage),
            )
        if linked.et is not None:
            et = linked.et
            yield f"header of the Execution Trace of rank {rank}", et.header
            for name in (
                "nodes",
                "values",
                "collectives",
                "extra_attrs",
                "process_groups",
                "tensors",
                "tensor_uses",
                "tensor_edges",
            ):
                yield f"{name} of the Execution Trace of rank {rank}", getattr(et, name)


def _sorted_findings(findings: tuple[Finding, ...]) -> list[Finding]:
    return sorted(findings, key=lambda one: (one.code.name, one.count, repr(one.details)))


def _analyses(path: Path, _: Path, rng: random.Random) -> Answers:
    """Some analyses of all ranks."""
    job = tracebraid.open(path, cache=False)
    for analysis in rng.sample(tracebraid.analyses.catalog(), _SOME):
        options = _options(analysis, rng)
        asked = f"{analysis.name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
        yield asked, _asked(analysis, job, options)


def _asked(analysis: Analysis, job: Job, options: dict[str, Any]) -> object:
    try:
        return tracebraid.analyze(analysis.name, job, **options).frame
    except TracebraidError as error:
        return str(error)


def _options(analysis: Analysis, rng: random.Random) -> dict[str, Any]:
    values = {**_OPTIONS, "by": _BY.get(analysis.name, ())}
    drawn = [option for option in analysis.options if rng.random() < 0.5]
    return {option: rng.choice(values[option]) for option in drawn if values.get(option)}


def _metrics_and_advice(path: Path, _: Path, rng: random.Random) -> Answers:
    job = tracebraid.open(path, cache=False)
    yield "metrics", tracebraid.metrics(job)
    advice = tracebraid.advise(job, min_saving="0%")
    for name in ("items", "by_step", "evidence"):
        yield f"advice {name}", getattr(advice, name)


def _graph(path: Path, _: Path, rng: random.Random) -> Answers:
    """The dependency graph, and what is computed from it."""
    graph = tracebraid.dependency_graph(tracebraid.open(path, cache=False))
    for name in ("activities", "steps", "latencies", "moment_of"):
        yield f"graph {name}", getattr(graph, name)
    for part in (graph.moments, graph.edges):
        for name, column in asdict(part).items():
            yield f"graph {type(part).__name__} {name}", column
    found = tracebraid.critical_path(graph, replays=rng.choice((0, 2)))
    for name in ("steps", "segments", "totals", "hops", "slack", "stability"):
        yield f"critical path {name}", getattr(found, name)
    yield "coverage", tracebraid.graph_coverage(graph)
    yield "sweep", tracebraid.sweep(graph)
    yield "straggler metrics", tracebraid.straggler_metrics(graph)
    answer = tracebraid.what_if(
        graph, rng.choice(("scale 0.5", "scale 0.5 rank=0", "scale 2 kind=communication"))
    )
    for name in ("steps", "changes", "paths", "interference"):
        yield f"what-if {name}", getattr(answer, name)


def _commands(path: Path, out: Path, rng: random.Random) -> Answers:
    """JSON that commands print."""
    for command in rng.sample(("info", "check", "link", "summary", "critical-path"), 2):
        ended = run_command(command, path, "--json")
        yield f"{command} exit code", ended.code
        yield command, _unordered(json.loads(ended.output)) if ended.output else ended.messages


def _unordered(value: Any) -> Any:
    """JSON whose findings are in no order, as they begin with their files."""
    if isinstance(value, dict):
        return {
            key: sorted((_unordered(item) for item in items), key=lambda item: repr(_comparable(item, "")))
            if isinstance(items, list) and key in ("findings", "diagnoses")
            else _unordered(items)
            for key, items in value.items()
        }
    return [_unordered(item) for item in value] if isinstance(value, list) else value


def _export(path: Path, out: Path, rng: random.Random) -> Answers:
    """A job written in some format."""
    job, form = tracebraid.open(path, unreadable="skip"), rng.choice([*ExportFormat])
    if form is ExportFormat.PERFETTO and any(job.each(_has_unplaced)):
        form = ExportFormat.CHROME
    options = ExportOptions()
    if form is ExportFormat.CHAKRA:
        options = ExportOptions(chakra=ChakraOptions(detail=rng.choice((None, *Detail))))
    done = tracebraid.export(job, out / f"made{form.suffixes[0]}", form.value, options)
    files = (
        [done.path]
        if done.path.is_file()
        else sorted(path for path in done.path.rglob("*") if path.is_file())
    )
    for file in files:
        if file.stem.endswith("other_events"):
            continue
        yield f"export --to {form.value} {file.relative_to(out)}", _content(file)


def _has_unplaced(linked: LinkedTrace) -> bool:
    """Return whether exports hold some events as their text in the file."""
    return not linked.timeline.tables["other_events"].is_empty()


def _content(file: Path) -> object:
    match file.suffix:
        case ".parquet":
            return pl.read_parquet(file)
        case ".arrow":
            return pl.read_ipc(file.read_bytes())
        case ".sqlite":
            with closing(sqlite3.connect(file)) as database:
                return [line for line in database.iterdump() if 'INTO "other_events"' not in line]
        case ".gz":
            data = gzip.decompress(file.read_bytes())
            return data if ".json" not in file.name else _placed(json.loads(data))
        case ".json":
            return json.loads(file.read_bytes())
    return file.read_bytes()


def _placed(trace: Any) -> Any:
    trace["traceEvents"] = [one for one in trace["traceEvents"] if one.get("cat") != "other events"]
    return trace


def _et_plus(path: Path, out: Path, _: random.Random) -> Answers:
    """The linked traces as ET+, and what Chakra's converter makes of them."""
    job = tracebraid.open(path, cache=False)
    for rank in job.ranks:
        tracebraid.write_et_plus(job[rank], out / f"et_plus_{rank}.json")
        yield f"ET+ of rank {rank}", json.loads((out / f"et_plus_{rank}.json").read_bytes())
    tracebraid.chakra.convert(out, out / "made")
    for file in sorted((out / "made").iterdir()):
        yield f"{file.name} of ET+", file.read_bytes()


def _call(name: str, ask: Callable[[Path, Path, random.Random], Answers]) -> Call:
    return Call(name, partial(answers_differ, ask))


QUESTIONS: Mapping[str, Callable[[Path, Path, random.Random], Answers]] = {
    "tables": _tables,
    "analyses": _analyses,
    "metrics and advice": _metrics_and_advice,
    "graph": _graph,
    "commands": _commands,
    "export": _export,
    "ET+": _et_plus,
}
"""Questions to both forms of the same traces, by the names of the calls."""

_MORE_OFTEN = {"analyses": 3, "export": 2}
"""Those that ask a part of what there is."""

SAME_TABLES = _call("same tables", _tables)
SAME_ANSWERS = tuple(
    _call(f"same {name} {number}" if name in _MORE_OFTEN else f"same {name}", ask)
    for name, ask in QUESTIONS.items()
    if ask is not _tables
    for number in range(1, 1 + _MORE_OFTEN.get(name, 1))
)
"""The calls, beside that upon the tables."""
