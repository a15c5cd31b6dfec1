"""Cautions about a comparison: differences between the runs other than the change under test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from tracebraid.analysis.compare.captures import Capture
from tracebraid.analysis.compare.profiles import RankProfile
from tracebraid.model.answers.job import DiffSetting, LeftOut
from tracebraid.model.printable import encodable
from tracebraid.model.questions import LEAST_CAPTURES, Caution, CautionCode, Comparison

EVENT_COST_NS = 1000
"""Cost of recording a host event: about 1 µs.

Measured with torch 2.13 on a CPU (least of 15 shuffled rounds of 4,000 calls of `torch.neg` on a busy machine): 0.7 µs
for an op, 1.7 µs with shapes, 1.5 µs with memory; with stacks 2.2 µs for an op and the frame of its call together, and
0.2 µs for the frame of a Python function that calls nothing. On an idle machine 1.0 to 1.2 µs for an op with shapes."""
_COST_SHARE = 0.05
"""Minimum share of a step to report the profiler's cost."""
_LATE_SHARE = 0.1
"""Minimum share of a step in which the device waits for the host, so that host cost lengthens the step."""
_OVERHEAD_SHARE = 0.01
"""Minimum share of a step to report the profiler's own events: the size of a typical difference."""
_MATCHED_SHARE = 0.5
"""Share of the time of ops that are in both runs below which the runs are of different programs."""
_STEPS_NAMED = 4
"""Maximum steps that a caution names; `diff_left_out` has all."""
_RECORDED = (
    DiffSetting.RECORD_SHAPES,
    DiffSetting.WITH_STACK,
    DiffSetting.PROFILE_MEMORY,
    DiffSetting.WITH_MODULES,
)


def cautions(
    found: Comparison,
    settings: pl.DataFrame,
    given: Sequence[Capture],
    compared: Sequence[Sequence[Capture]],
) -> tuple[Caution, ...]:
    """Find reasons other than the program for differences, in the order of `CautionCode`.

    Args:
        found: the comparison.
        settings: `DIFF_SETTINGS`.
        given: the first capture of each run, with all its ranks.
        compared: the captures of each run, with the ranks that are compared.
    """
    values = {row["setting"]: row for row in settings.iter_rows(named=True)}
    noticed = [
        *_of_steps(found, compared),
        *_of_captures(found),
        *_of_other_steps(compared),
        *_of_ranks(given, values),
        *_of_settings(values),
        *_of_profiler(found, values),
        *_of_programs(found),
        *_of_noise(found),
    ]
    order = list(CautionCode)
    return tuple(sorted(noticed, key=lambda caution: order.index(caution.code)))


def _of_steps(found: Comparison, compared: Sequence[Sequence[Capture]]) -> Iterator[Caution]:
    row = found.steps.row(0, named=True)
    with_steps = True
    for run, captures in zip("ab", compared, strict=True):
        without = [n for n, capture in enumerate(captures, 1) if not all(rank.has_steps for rank in capture)]
        with_steps &= not without
        if not row[f"{run}_ns"]:
            yield Caution(CautionCode.EMPTY, {"run": run})
        else:
            for number in without:
                details = {
                    "run": _run(found, run, number),
                    "annotation": captures[number - 1][0].annotation,
                }
                yield Caution(CautionCode.NO_STEPS, details)
    if found.is_of_captures and min(row["captures_a"], row["captures_b"]) < LEAST_CAPTURES:
        few = {"a": row["captures_a"], "b": row["captures_b"], "least": LEAST_CAPTURES}
        yield Caution(CautionCode.FEW_CAPTURES, few)
    elif not found.is_of_captures and row["low_ns"] is None and with_steps and not _is_drifting(row):
        yield Caution(CautionCode.FEW_STEPS, {"a": row["steps_a"], "b": row["steps_b"]})


def _of_captures(found: Comparison) -> Iterator[Caution]:
    """Steps of each capture that are not counted, and captures of which none should be."""
    groups = found.left_out.group_by("run", "capture", "reason", "doubt", maintain_order=True)
    for (run, number, reason, doubt), rows in groups:
        steps = rows.get_column("step").to_list()
        more = len(steps) - _STEPS_NAMED
        details = {
            "run": _run(found, str(run), number),
            "reason": f"{reason} ({doubt})" if reason == LeftOut.DOUBTFUL.value else reason,
            "steps": ", ".join(encodable(step or "") for step in steps[:_STEPS_NAMED])
            + (f" and {more:,} more" if more > 0 else ""),
        }
        yield Caution(CautionCode.STEPS_LEFT_OUT, details)
    for row in found.captures.filter("doubtful").iter_rows(named=True):
        yield Caution(CautionCode.DOUBTFUL_STEPS, {"run": _run(found, row["run"], row["capture"])})


def _of_other_steps(compared: Sequence[Sequence[Capture]]) -> Iterator[Caution]:
    """Captures that share no step with the first of a: of another phase of the program."""
    captures = [
        (f"{run} {number}" if len(of_run) > 1 else run, steps)
        for run, of_run in zip("ab", compared, strict=True)
        for number, capture in enumerate(of_run, 1)
        if (steps := capture[0].windows.get_column("step").drop_nulls().unique(maintain_order=True).to_list())
    ]
    for run, steps in captures[1:]:
        first, of_first = captures[0]
        if not set(steps) & set(of_first):
            spans = (f"{encodable(some[0])} to {encodable(some[-1])}" for some in (of_first, steps))
            names = dict(zip(("steps", "other_steps"), spans, strict=True))
            yield Caution(CautionCode.OTHER_STEPS, {"run": first, "other": run, **names})


def _run(found: Comparison, run: str, number: object) -> str:
    """Name a run, or its capture where it has several."""
    return f"{run} {number}" if found.captures.filter(pl.col("run") == run).height > 1 else run


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


def _of_noise(found: Comparison) -> Iterator[Caution]:
    row = found.steps.row(0, named=True)
    if row["low_ns"] is not None and not row["low_ns"] <= row["difference_ns"] <= row["high_ns"]:
        mean, shift = (f"{row[name] / 1e6:,.3f} ms" for name in ("difference_ns", "shift_ns"))
        yield Caution(CautionCode.SINGLE_STEPS, {"mean": mean, "shift": shift})
    if _is_drifting(row):
        details = {run: f"{row[f'autocorrelation_{run}']:.2f}" for run in "ab"}
        steps = {"steps": row["steps_a"] + row["steps_b"], "worth": f"{row['effective_steps']:.0f}"}
        yield Caution(CautionCode.DRIFT, details | steps)


def _is_drifting(row: dict[str, Any]) -> bool:
    effective = row["effective_steps"]
    return bool(effective is not None and effective < row["steps_a"] + row["steps_b"])


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
