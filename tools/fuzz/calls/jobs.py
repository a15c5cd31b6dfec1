"""Calls upon jobs: linked tables, sums that have to add up, and caches."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

import tracebraid
from tools.fuzz.calls.commands import run_command
from tools.fuzz.model import Call, FailureError, FailureKind, Files
from tools.fuzz.mutations.raw_bytes import RAW_BYTES
from tracebraid.analysis.ops.ops import OpKey
from tracebraid.errors import TracebraidError
from tracebraid.model.analysis import Analysis, JobAnalysis
from tracebraid.model.answers.job import METRICS
from tracebraid.model.category import Role
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.engine import Job
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S
from tracebraid.model.questions import Advice, Comparison

_ROUNDING = 1e-9
"""Shares are quotients of floats."""

_SIGNED = frozenset({
    "gap_ns", "after_start_ns", "after_end_ns", "lost_ns", "offset_ns", "offset_low_ns", "offset_high_ns",
    "growth_bytes", "slope_bytes_per_step", "difference_ns", "size_bytes", "allocated_bytes", "reserved_bytes",
    "margin_ns", "others_ns", "gap_before_ns", "gap_after_ns", "op_launch_delay_ns", "runtime_delay_ns",
    "start_bytes", "end_bytes", "alpha_low_ns", "mean_low_ns", "clock_width_ns", "late_by_ns", "lateness_ns",
    "interval_ns", "explained_ns", "explained_share", "mean_interval_ns", "median_interval_ns",
    "p95_interval_ns", "variation", "delay_ns",
})  # fmt: skip
"""Columns that may be below 0: differences, and moments before the clock's beginning."""

_SIGNED_TABLES = frozenset({"step_spread"})
"""Tables whose columns are of such differences in some rows: a gap between steps that overlap."""

MOMENTS = frozenset({
    "start_ns", "end_ns", "ts_ns", "peak_ns", "at_ns", "allocated_ns", "released_ns", "time_ns", "arrival_ns",
    "first_arrival_ns", "last_arrival_ns", "issued_ns",
})  # fmt: skip

_BOUND = "0 to 1"
"""The documentation's words for a column of such shares."""


def wrong(message: str) -> FailureError:
    """An answer that must not be."""
    return FailureError(FailureKind.INVALID_OUTPUT, message)


def judge_table(name: str, table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """The answer, where it fits its table, and its numbers are finite, no length below 0, no share outside 0 to 1."""
    if dict(frame.schema) != table.polars_schema():
        raise wrong(f"{name}: {frame.schema} is not the schema of {table.name}")
    for column in table.columns if name.partition("(")[0] not in _SIGNED_TABLES else ():
        if column.kind in (Kind.INT, Kind.FLOAT) and column.name not in MOMENTS:
            _judge_numbers(f"{name}.{column.name}", column, frame.get_column(column.name).drop_nulls())
    return frame


def _judge_numbers(where: str, column: Column, values: pl.Series) -> None:
    if values.is_empty():
        return
    if values.dtype == pl.Float64 and not values.is_finite().all():
        raise wrong(f"{where} is {values.filter(~values.is_finite()).item(0)}")
    measured = column.name.endswith(
        ("_ns", "_bytes", "share", "count", "bytes", "flops", "_per_s", "kernels", "calls")
    )
    if measured and column.name not in _SIGNED and float(values.min()) < 0:  # type: ignore[arg-type]
        raise wrong(f"{where} is {values.min()!r}")
    if _BOUND in column.doc and float(values.max()) > 1 + _ROUNDING:  # type: ignore[arg-type]
        raise wrong(f"{where} is {values.max()!r}")


def same_tables(where: str, one: pl.DataFrame, other: pl.DataFrame) -> None:
    """Nothing, where two answers are the same."""
    if one.schema != other.schema:
        raise wrong(f"{where}: {one.schema} and {other.schema}")
    if not one.equals(other):
        columns = [
            name
            for name in one.columns
            if one.height != other.height or not one[name].equals(other[name], null_equal=True)
        ]
        raise wrong(f"{where}: {one.height} and {other.height} rows, which differ in {columns}")


def judge_sums(linked: LinkedTrace) -> None:
    """Ask what adds up: breakdowns to their spans, kernels to the device's work, idle time to its gaps."""
    breakdown = tracebraid.analyses.breakdown(linked)
    _parts(
        breakdown,
        "breakdown",
        "span_ns",
        "compute_ns",
        "exposed_communication_ns",
        "exposed_memory_ns",
        "idle_ns",
    )
    _parts(breakdown, "breakdown", "communication_ns", "overlap_ns", "exposed_communication_ns")
    overlap = tracebraid.analyses.overlap(linked)
    _parts(overlap, "overlap", "communication_ns", "overlap_ns", "exposed_ns")
    for per_step in (False, True):
        _idle(linked, breakdown, per_step)
    _device_time(linked)
    ops = tracebraid.analyses.ops(linked)
    for where in ("host", "device"):
        if not ops.filter(pl.col(f"{where}_self_ns") > pl.col(f"{where}_total_ns")).is_empty():
            raise wrong(f"an op has more {where} time of its own than with all in it")


def _parts(frame: pl.DataFrame, name: str, whole: str, *parts: str) -> None:
    """The parts of every row add up to the whole, as integers of any size."""
    off = frame.select(whole, *parts).filter(
        pl.sum_horizontal(pl.col(*parts).cast(pl.Int128)) != pl.col(whole).cast(pl.Int128)
    )
    if not off.is_empty():
        raise wrong(f"{name}: {' + '.join(parts)} is not {whole}: {off.row(0)}")


def _idle(linked: LinkedTrace, breakdown: pl.DataFrame, per_step: bool) -> None:
    """Causes, blame and gaps are all of the idle time."""
    whole = breakdown.filter(pl.col("step").is_not_null() if per_step else pl.col("step").is_null())
    expected = _sum(whole, "idle_ns")
    for name in ("idle_causes", "idle_blame"):
        found = tracebraid.analyze(name, linked, per_step=per_step).frame
        rows = found.filter(pl.col("step").is_not_null() if per_step else pl.col("step").is_null())
        if name == "idle_causes" and _sum(rows, "idle_ns") != expected:
            raise wrong(f"{name}(per_step={per_step}): {_sum(rows, 'idle_ns')} of {expected} ns")
        if _sum(rows, "idle_ns") > expected:
            raise wrong(f"{name}(per_step={per_step}): {_sum(rows, 'idle_ns')} of {expected} ns")


def _device_time(linked: LinkedTrace) -> None:
    """Kernels, launchers and families hold all work of the device, once."""
    work = linked.timeline.of_role(Role.DEVICE_WORK)
    expected = (work.height, _sum(work, "dur_ns"))
    ask = partial(tracebraid.analyze, traces=linked)
    for name, count, total in (
        ("kernels", "count", "total_ns"),
        ("kernels_by_op", "count", "total_ns"),
        ("kernel_families", "count", "total_ns"),
        ("launchers", "kernels", "device_ns"),
    ):
        frame = ask(name).frame
        if (_sum(frame, count), _sum(frame, total)) != expected:
            raise wrong(f"{name}: {_sum(frame, count)} events of {_sum(frame, total)} ns, not {expected}")


def _sum(frame: pl.DataFrame, column: str) -> int:
    return int(frame.get_column(column).cast(pl.Int128).sum())


_SEVERAL = 4
"""Analyses that one call asks."""
_PACKED = 0.2
"""Share of larger jobs that are packed: that takes as long as ten other calls."""
_SMALL_BYTES = 20_000

_ANNOTATIONS = ("ProfilerStep", "ProfilerStep", "prefill", "aten::mm", "Optimizer.step", "", "none")
_VALUES: dict[str, tuple[Any, ...]] = {
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
"""Values of options."""

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


def _options(analysis: Analysis, rng: random.Random) -> dict[str, Any]:
    """Some options of an analysis, mostly none."""
    chosen = [option for option in analysis.options if rng.random() < 0.4]
    values = {**_VALUES, "by": _BY.get(analysis.name, ())}
    return {option: rng.choice(values[option]) for option in chosen if values.get(option)}


def _analyses(folder: Path, rng: random.Random) -> None:
    """Some analyses of each rank alone: they fit their tables, and add up."""
    chosen = rng.sample(tracebraid.analyses.catalog(), _SEVERAL)
    for linked in ranks_of(folder):
        for analysis in chosen:
            _ask(analysis, linked, _options(analysis, rng))


def _sums(folder: Path, rng: random.Random) -> None:
    """Sums and bounds that the documentation promises."""
    for linked in ranks_of(folder):
        judge_sums(linked)


def _of_job(folder: Path, rng: random.Random) -> None:
    """Some analyses of all ranks."""
    job = tracebraid.open(folder, cache=False, annotation=rng.choice(_ANNOTATIONS))
    for analysis in rng.sample(tracebraid.analyses.catalog(), _SEVERAL):
        _ask(analysis, job, _options(analysis, rng))


def _between_ranks(folder: Path, rng: random.Random) -> None:
    """Questions between ranks: collectives, clocks, lateness."""
    job = tracebraid.open(folder, cache=False)
    of_jobs = [analysis for analysis in tracebraid.analyses.catalog() if isinstance(analysis, JobAnalysis)]
    for analysis in rng.sample(of_jobs, _SEVERAL):
        _ask(analysis, job, _options(analysis, rng))


def _ask(analysis: Analysis, traces: LinkedTrace | Job, options: dict[str, Any]) -> pl.DataFrame:
    asked = f"{analysis.name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
    try:
        answer = tracebraid.analyze(analysis.name, traces, **options)
    except tracebraid.ArgumentError:
        return analysis.table.empty()
    repr(answer)
    return judge_table(asked, analysis.table, answer.frame)


def _metrics(folder: Path, rng: random.Random) -> None:
    options = _some({"with_doubtful": (True,), "peak_flops": (1e15,)}, rng)
    job = tracebraid.open(folder, cache=False, annotation=rng.choice(_ANNOTATIONS))
    found = tracebraid.metrics(job, **options)
    judge_table("metrics", METRICS, found)
    shares = found.filter(pl.col("unit") == "share", pl.col("value") > 1 + 1e-9)
    if not shares.is_empty():
        raise wrong(f"metrics: {shares.select('metric', 'rank', 'value').rows()[:3]}")


def _advise(folder: Path, rng: random.Random) -> None:
    options = _some({"min_saving": ("0%", "1%", "0.001ms", 0.5)}, rng)
    job = tracebraid.open(folder, cache=False, annotation=rng.choice(_ANNOTATIONS))
    advice = tracebraid.advise(job, **options)
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
    size_bytes = sum(path.stat().st_size for path in folder.iterdir())
    if size_bytes > _SMALL_BYTES and rng.random() > _PACKED:
        return
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "store"
        tracebraid.pack(folder, store)
        packed, job = tracebraid.open(store), tracebraid.open(folder, cache=False)
        for analysis in rng.sample(tracebraid.analyses.catalog(), _SEVERAL):
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
    for analysis in rng.sample(tracebraid.analyses.catalog(), _SEVERAL):
        options = _options(analysis, rng)
        frames = (_ask(analysis, one, options).drop(MOMENTS, strict=False) for one in (job, moved))
        same_tables(f"{analysis.name} of the traces a second later", *frames)


def _codes(linked: LinkedTrace) -> list[FindingCode]:
    return [finding.code for finding in linked.timeline.findings]


def _a_second_later(data: bytes) -> bytes:
    try:
        trace = json.loads(data)
    except RecursionError:
        return data
    base_ns = trace.get("baseTimeNanoseconds")
    if isinstance(base_ns, int) and base_ns >= 0:
        trace["baseTimeNanoseconds"] = base_ns + NS_PER_S
    return json.dumps(trace).encode()


def _command(name: str) -> Call:
    def ask(folder: Path, rng: random.Random) -> None:
        run_command(*_ARGUMENTS[name](folder, rng), *rng.choice((("--json",), ())))

    return Call(f"command {name}", ask)


def _analyze_arguments(folder: Path, rng: random.Random) -> tuple[object, ...]:
    analysis = rng.choice(tracebraid.analyses.catalog())
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


_CACHE = ".tracebraid-cache"


def _cached(folder: Path, rng: random.Random) -> None:
    traces = folder / "out" / "cached"
    traces.mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file():
            shutil.copyfile(path, traces / path.name)
    first = _read(traces)
    cache = traces / _CACHE
    found = sorted(path for path in cache.rglob("*") if path.is_file()) if cache.is_dir() else []
    if not found:
        return
    files: Files = {str(path.relative_to(cache)): path.read_bytes() for path in found}
    for name, data in rng.choice(RAW_BYTES)(files, rng).items():
        if files.get(name) != data:
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            (cache / name).write_bytes(data)
    again = _read(traces)
    if first.keys() != again.keys():
        raise wrong(f"with a damaged cache other ranks are read: {sorted(first)}, {sorted(again)}")
    for rank, tables in first.items():
        for name, table in tables.items():
            if not table.equals(again[rank][name]):
                raise wrong(f"with a damaged cache {name} of rank {rank} are others")


def _read(traces: Path) -> dict[int, dict[str, pl.DataFrame]]:
    """Some tables of the ranks that can be read, by the number of their files."""
    found = {}
    job = tracebraid.open(traces, cache=True)
    for rank in job.ranks:
        try:
            linked = job[rank]
            found[rank] = {
                "events": linked.timeline.events,
                "host_links": linked.host_links,
                "dependencies": linked.dependencies,
            }
        except TracebraidError:
            continue
    return found


CACHED = Call("tracebraid.open cache=True", _cached)
