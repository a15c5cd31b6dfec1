"""What is to be known before a comparison is believed?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles.rank_profile import RankProfile
from tracebraid.model.answers import DiffSetting
from tracebraid.model.questions.comparison import Caution, CautionCode, Comparison

__all__ = ["EVENT_COST_NS", "cautions"]

_Ints = NDArray[np.int64]

EVENT_COST_NS = 1000
"""What a host event costs the host while the profiler records it: about 1 µs (kineto's and torch's own measurements
are 0.5 to 2 µs, more with stacks)."""
_COST_SHARE = 0.05
"""Share of a step from which on the profiler's cost is named."""
_LATE_SHARE = 0.1
"""Share of a step for which the device waits for the host, from which on the host's cost is the step's."""
_OVERHEAD_SHARE = 0.01
"""Share of a step from which on the profiler's own events are named: as much as a difference may be."""
_MATCHED_SHARE = 0.5
"""Share of the time of ops that are in both runs below which the runs are of different programs."""
_DRIFT = 0.5
"""Autocorrelation of successive steps from which on the interval is too narrow by 1.7 times or more:
sqrt((1 + r) / (1 - r)), Bayley and Hammersley (1946)."""
_DRIFT_STEPS = 10
"""Steps from which on an autocorrelation says something."""

_RECORDED = (
    DiffSetting.RECORD_SHAPES,
    DiffSetting.WITH_STACK,
    DiffSetting.PROFILE_MEMORY,
    DiffSetting.WITH_MODULES,
)


def cautions(
    found: Comparison,
    settings: pl.DataFrame,
    given: Sequence[Sequence[RankProfile]],
    compared: Sequence[Sequence[RankProfile]],
    annotation: str,
) -> tuple[Caution, ...]:
    """What may make the runs differ, or seem to, beside the program; in the order of `CautionCode`.

    Args:
        found: the comparison.
        settings: `DIFF_SETTINGS`.
        given: all ranks of both runs.
        compared: those that are compared.
        annotation: what marks a step.
    """
    values = {row["setting"]: row for row in settings.iter_rows(named=True)}
    noticed = [
        *_of_steps(found, compared, annotation),
        *_of_ranks(given, values),
        *_of_settings(values),
        *_of_profiler(found, values),
        *_of_programs(found),
        *_of_noise(found, compared),
    ]
    order = list(CautionCode)
    return tuple(sorted(noticed, key=lambda caution: order.index(caution.code)))


def _of_steps(
    found: Comparison, compared: Sequence[Sequence[RankProfile]], annotation: str
) -> Iterator[Caution]:
    row = found.steps.row(0, named=True)
    for run, ranks in zip("ab", compared, strict=True):
        if not row[f"{run}_ns"]:
            yield Caution(CautionCode.EMPTY, {"run": run})
        elif not all(rank.has_steps for rank in ranks):
            yield Caution(CautionCode.NO_STEPS, {"run": run, "annotation": annotation})
    if row["low_ns"] is None:
        yield Caution(CautionCode.FEW_STEPS, {"a": row["steps_a"], "b": row["steps_b"]})


def _of_ranks(given: Sequence[Sequence[RankProfile]], values: dict[str, dict[str, str]]) -> Iterator[Caution]:
    a, b = ({rank.rank for rank in ranks} for ranks in given)
    if a != b and not len(a) == len(b) == 1:
        names = [", ".join(map(str, sorted(some))) or "none" for some in (a - b, b - a)]
        yield Caution(CautionCode.RANKS_UNPAIRED, {"only_a": names[0], "only_b": names[1]})
    for setting, code in (
        (DiffSetting.WORLD_SIZE, CautionCode.WORLD_SIZES_DIFFER),
        (DiffSetting.DEVICES, CautionCode.DEVICES_DIFFER),
    ):
        row = values[setting.value]
        if row["differs"]:
            yield Caution(code, {"a": row["a"], "b": row["b"]})
    path = values[DiffSetting.PATH.value]
    if path["a"] is not None and path["a"] == path["b"]:
        yield Caution(CautionCode.SAME_FILES)


def _of_settings(values: dict[str, dict[str, str]]) -> Iterator[Caution]:
    for setting in (DiffSetting.TORCH, DiffSetting.DRIVER):
        row = values[setting.value]
        if row["differs"]:
            details = {"what": setting.value, "a": row["a"], "b": row["b"]}
            yield Caution(CautionCode.VERSIONS_DIFFER, details)
    if values[DiffSetting.RECORD_SHAPES.value]["differs"]:
        yield Caution(CautionCode.SHAPES_UNKNOWN)
    if values[DiffSetting.WITH_STACK.value]["differs"]:
        yield Caution(CautionCode.MODULES_UNKNOWN)
    if names := [setting.value for setting in _RECORDED if values[setting.value]["differs"]]:
        events = values[DiffSetting.HOST_EVENTS.value]
        details = {"what": ", ".join(names), "a": events["a"], "b": events["b"]}
        yield Caution(CautionCode.PROFILER_DIFFERS, details)


def _of_profiler(found: Comparison, values: dict[str, dict[str, str]]) -> Iterator[Caution]:
    for run in "ab":
        span = found.steps.item(0, f"{run}_ns")
        late = float(values[DiffSetting.HOST_LATE.value][run] or 0)
        events = int(values[DiffSetting.HOST_EVENTS.value][run] or 0)
        if span and late >= _LATE_SHARE and (cost := events * EVENT_COST_NS / span) >= _COST_SHARE:
            details = {
                "run": run,
                "host_late": _percent(late),
                "events": f"{events:,}",
                "share": _percent(cost),
            }
            yield Caution(CautionCode.PROFILER_COST, details)
        overhead = int(values[DiffSetting.OVERHEAD.value][run] or 0)
        if span and overhead / span >= _OVERHEAD_SHARE:
            yield Caution(CautionCode.PROFILER_OVERHEAD, {"run": run, "share": _percent(overhead / span)})


def _of_programs(found: Comparison) -> Iterator[Caution]:
    both = pl.col("matched_by").is_not_null() & (pl.col("count_a") > 0) & (pl.col("count_b") > 0)
    for unit in ("device", "host"):
        time = pl.col(f"{unit}_a_ns") + pl.col(f"{unit}_b_ns")
        whole, matched = found.ops.select(
            time.sum().alias("whole"), time.filter(both).sum().alias("both")
        ).row(0)
        if whole:
            if matched / whole < _MATCHED_SHARE:
                yield Caution(CautionCode.PROGRAMS_DIFFER, {"share": _percent(matched / whole)})
            return


def _of_noise(found: Comparison, compared: Sequence[Sequence[RankProfile]]) -> Iterator[Caution]:
    row = found.steps.row(0, named=True)
    if row["low_ns"] is not None and not row["low_ns"] <= row["difference_ns"] <= row["high_ns"]:
        mean, shift = (f"{row[name] / 1e6:,.3f} ms" for name in ("difference_ns", "shift_ns"))
        yield Caution(CautionCode.SINGLE_STEPS, {"mean": mean, "shift": shift})
    for run, ranks in zip("ab", compared, strict=True):
        if not ranks:
            continue
        windows = ranks[0].windows.filter(~pl.col("warmup") & ~pl.col("doubtful"))
        value = _autocorrelation(windows.get_column("span_ns").to_numpy())
        if windows.height >= _DRIFT_STEPS and value >= _DRIFT:
            yield Caution(CautionCode.DRIFT, {"run": run, "value": f"{value:.2f}"})


def _autocorrelation(spans: _Ints) -> float:
    """Of successive values, by their ranks, so that single slow steps do not make or hide it."""
    if len(spans) < _DRIFT_STEPS:
        return 0.0
    rank = np.argsort(np.argsort(spans, kind="stable"), kind="stable") - (len(spans) - 1) / 2
    return float((rank[1:] * rank[:-1]).sum() / (rank * rank).sum())


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
