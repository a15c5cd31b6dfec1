"""Calls upon a folder of traces: linking, every analysis, metrics, advice, comparisons, stores."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

import tracebraid
from tools.fuzz.calls.commands import run_command
from tools.fuzz.calls.judged_tables import MOMENTS, judge_table, same_tables, wrong
from tools.fuzz.calls.sums import judge_sums
from tools.fuzz.model import Call
from tracebraid.errors import TracebraidError
from tracebraid.model.answers import METRICS, OpKey
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.advice import Advice
from tracebraid.model.questions.analysis import Analysis
from tracebraid.model.questions.comparison import Comparison
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.units import NS_PER_S

__all__ = ["CHOSEN", "LINKED", "ranks_of"]

_SEVERAL = 5
"""Analyses that one call asks."""

_VALUES: dict[str, tuple[Any, ...]] = {
    "annotation": ("ProfilerStep", "ProfilerStep", "prefill", "aten::mm", "Optimizer.step", "", "none"),
    "per_step": (False, True, True),
    "with_doubtful": (False, True),
    "with_warmup": (False, True),
    "max_ns": (0, 5_000, 2**63 - 1),
    "min_length": (0, 1, 2, 5, 2**63 - 1),
    "max_queue_length": (0, 1, 1024, 2**63 - 1),
    "least_ns": (0, 1_000, 2**63 - 1),
    "peak_flops": (None, 1e15),
    "peak_bandwidth": (None, 1.0, 1e12),
    "op": (None, "aten::mm", "aten::.*", "("),
}
"""What options are asked with."""

_BY = {
    "ops": tuple(key.value for key in OpKey),
    "idle_blame": (None, "host_activity", "op", "call", "annotation", "module", "python_line", "next_op"),
}


def ranks_of(folder: Path) -> Iterator[LinkedTrace]:
    """The ranks of a folder that can be read; one that cannot is an answer, too."""
    job = tracebraid.open(folder, cache=False)
    for rank in job.ranks:
        try:
            yield job[rank]
        except TracebraidError as error:
            _judge_error(folder, error)


def _judge_error(folder: Path, error: TracebraidError) -> None:
    """An error of a rank says of which file."""
    if not any(path.name in str(error) for path in folder.iterdir()) and str(folder) not in str(error):
        raise wrong(f"no file is named: {error}")


def _linked(folder: Path, _: random.Random) -> None:
    """Links, coverage and findings of every rank."""
    for linked in ranks_of(folder):
        coverage = linked.coverage
        repr(coverage)
        for finding in linked.all_findings:
            str(finding)


def _options(analysis: Analysis | JobAnalysis, rng: random.Random) -> dict[str, Any]:
    """Some options of an analysis, mostly none."""
    chosen = [option for option in analysis.options if rng.random() < 0.4]
    values = {**_VALUES, "by": _BY.get(analysis.name, ())}
    return {option: rng.choice(values[option]) for option in chosen if values.get(option)}


def _analyses(folder: Path, rng: random.Random) -> None:
    """Some analyses of each rank alone: they fit their tables, and add up."""
    chosen = rng.sample(tracebraid.analyses(), _SEVERAL)
    for linked in ranks_of(folder):
        for analysis in chosen:
            _ask(analysis, linked, _options(analysis, rng))


def _sums(folder: Path, rng: random.Random) -> None:
    """Sums and bounds that the documentation promises."""
    for linked in ranks_of(folder):
        judge_sums(linked)


def _of_job(folder: Path, rng: random.Random) -> None:
    """Some analyses of all ranks."""
    job = tracebraid.open(folder, cache=False)
    for analysis in rng.sample(tracebraid.analyses(), _SEVERAL):
        _ask(analysis, job, _options(analysis, rng))


def _between_ranks(folder: Path, rng: random.Random) -> None:
    """What is asked between ranks: collectives, clocks, who is late."""
    job = tracebraid.open(folder, cache=False)
    for analysis in tracebraid.analyses():
        if isinstance(analysis, JobAnalysis):
            _ask(analysis, job, _options(analysis, rng))


def _ask(
    analysis: Analysis | JobAnalysis, traces: LinkedTrace | Job, options: dict[str, Any]
) -> pl.DataFrame:
    asked = f"{analysis.name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
    try:
        answer = tracebraid.analyze(analysis.name, traces, **options)
    except tracebraid.ArgumentError:
        return analysis.table.empty()
    repr(answer)
    return judge_table(asked, analysis.table, answer.frame)


def _metrics(folder: Path, rng: random.Random) -> None:
    options = _some(
        {"annotation": _VALUES["annotation"], "with_doubtful": (True,), "peak_flops": (1e15,)}, rng
    )
    found = tracebraid.metrics(tracebraid.open(folder, cache=False), **options)
    judge_table("metrics", METRICS, found)
    shares = found.filter(pl.col("unit") == "share", pl.col("value") > 1 + 1e-9)
    if not shares.is_empty():
        raise wrong(f"metrics: {shares.select('metric', 'rank', 'value').rows()[:3]}")


def _advise(folder: Path, rng: random.Random) -> None:
    options = _some({"min_saving": ("0%", "1%", "0.001ms", 0.5), "annotation": _VALUES["annotation"]}, rng)
    advice = tracebraid.advise(tracebraid.open(folder, cache=False), **options)
    repr(advice)
    _judge_advice(advice)


def _judge_advice(advice: Advice) -> None:
    for frame in (advice.items, advice.by_step, advice.evidence):
        for column in frame.get_columns():
            if column.name.startswith("saving") and (column < 0).any():
                raise wrong(f"advise: {column.name} is {column.min()!r}")
            if column.dtype == pl.Float64 and not column.drop_nulls().is_finite().all():
                raise wrong(f"advise: {column.name} is not finite")


def _some(options: dict[str, tuple[Any, ...]], rng: random.Random) -> dict[str, Any]:
    return {name: rng.choice(values) for name, values in options.items() if rng.random() < 0.4}


def _diff(folder: Path, rng: random.Random) -> None:
    """Against itself nothing differs; against its first rank alone it answers."""
    job = tracebraid.open(folder, cache=False)
    comparison = tracebraid.diff(job, tracebraid.open(folder, cache=False), with_doubtful=rng.random() < 0.5)
    repr(comparison)
    _differs(comparison)


def _differs(comparison: Comparison) -> None:
    """Nothing, where a comparison of a run with itself finds no difference."""
    parts = comparison.parts
    differs = (
        parts.filter(pl.col("difference_ns") != 0) if "difference_ns" in parts.columns else parts.clear()
    )
    if not differs.is_empty():
        raise wrong(f"diff with itself: {differs.head(3).rows()}")


def _store(folder: Path, rng: random.Random) -> None:
    """A store answers as the files do."""
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "store"
        tracebraid.pack(folder, store)
        packed, job = tracebraid.open(store), tracebraid.open(folder, cache=False)
        for analysis in rng.sample(tracebraid.analyses(), _SEVERAL):
            options = _options(analysis, rng)
            same_tables(
                f"{analysis.name} of the store", _ask(analysis, job, options), _ask(analysis, packed, options)
            )
        same_tables("metrics of the store", tracebraid.metrics(job), tracebraid.metrics(packed))


def _later(folder: Path, rng: random.Random) -> None:
    """The same traces a second later have the same answers, but for the moments in them."""
    later = folder / "out" / "later"
    later.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.is_file():
            (later / path.name).write_bytes(_a_second_later(path.read_bytes()))
    job, moved = tracebraid.open(folder, cache=False), tracebraid.open(later, cache=False)
    if any(code is FindingCode.BASE_TIME for codes in job.each(_codes) for code in codes):
        return
    for analysis in rng.sample(tracebraid.analyses(), _SEVERAL):
        options = _options(analysis, rng)
        frames = (_ask(analysis, one, options).drop(MOMENTS, strict=False) for one in (job, moved))
        same_tables(f"{analysis.name} of the traces a second later", *frames)


def _codes(linked: LinkedTrace) -> list[FindingCode]:
    return [finding.code for finding in linked.timeline.findings]


def _a_second_later(data: bytes) -> bytes:
    trace = json.loads(data)
    base_ns = trace.get("baseTimeNanoseconds")
    if isinstance(base_ns, int) and base_ns >= 0:
        trace["baseTimeNanoseconds"] = base_ns + NS_PER_S
    return json.dumps(trace).encode()


def _command(name: str) -> Call:
    def ask(folder: Path, rng: random.Random) -> None:
        run_command(*_ARGUMENTS[name](folder, rng), *rng.choice((("--json",), ())))

    return Call(f"command {name}", ask)


def _analyze_arguments(folder: Path, rng: random.Random) -> tuple[object, ...]:
    analysis = rng.choice(tracebraid.analyses())
    steps = ("--step", rng.choice(("1", "2", "99", "-1", "ProfilerStep#2")))
    options = rng.choice(
        ((), (), steps, ("--per-step",), ("--rank", "0"), ("--top", "1"), ("--with-doubtful",))
    )
    return "analyze", analysis.name, folder, *options


def _sql_arguments(folder: Path, rng: random.Random) -> tuple[object, ...]:
    queries = (
        "SELECT * FROM events LIMIT 5",
        "SELECT rank, count(*), sum(dur_ns) FROM events GROUP BY rank ORDER BY rank",
        "SELECT * FROM breakdown",
        "SELECT name, sum(total_ns) AS t FROM kernels GROUP BY name ORDER BY t DESC, name",
        "SELECT * FROM coverage",
    )
    return "sql", folder, rng.choice(queries)


def _diff_arguments(folder: Path, rng: random.Random) -> tuple[object, ...]:
    gate = ("--fail-on-regression", "5%")
    return "diff", folder, tracebraid.demo_path() if rng.random() < 0.05 else folder, *rng.choice(((), gate))


_ARGUMENTS = {
    "analyze": _analyze_arguments,
    "summary": lambda folder, rng: ("summary", folder),
    "metrics": lambda folder, rng: ("metrics", folder),
    "advise": lambda folder, rng: ("advise", folder, *rng.choice(((), ("--min-saving", "0%")))),
    "diff": _diff_arguments,
    "link": lambda folder, rng: ("link", folder),
    "check": lambda folder, rng: ("check", folder),
    "info": lambda folder, rng: ("info", folder),
    "sql": _sql_arguments,
}

LINKED = (Call("linked", _linked),)
CHOSEN = (
    *(Call("analyses of ranks", _analyses) for _ in range(4)),
    *(Call("analyses of the job", _of_job) for _ in range(2)),
    Call("sums", _sums),
    Call("sums", _sums),
    Call("between ranks", _between_ranks),
    Call("metrics", _metrics),
    Call("advise", _advise),
    Call("diff", _diff),
    Call("store", _store),
    Call("later", _later),
    *(
        _command(name)
        for name in ("analyze", "analyze", "summary", "metrics", "advise", "diff", "link", "sql")
    ),
)
