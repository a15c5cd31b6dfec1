"""The order of advice: what each saves at most, and what of that no other saves."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import polars as pl
from msgspec import Struct

from tracebraid.analysis.host.host_rows import by_rules, host_rows, is_in_role
from tracebraid.analysis.time.breakdown import cover_of, step_starts
from tracebraid.analysis.time.step_times import warm_up
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.job import ADVICE, ADVICE_BY_STEP, ADVICE_EVIDENCE, ADVICE_SITES, SavingBasis
from tracebraid.model.capture_facts import OP_WEIGHT
from tracebraid.model.category import Role
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import AnyDetector

Gains: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
"""Takes occurrences with their `item`; returns `item`, `gain_ns`, `device_gain_ns` and `host_events` of those that the
graph knows."""

Estimator: TypeAlias = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
"""Takes items (`key`, `item`, `most_ns`) and their occurrences; adds `estimate_ns`, `low_ns`, `high_ns`, `basis`."""

EVENT_COST_NS = 350.0
"""What the profiler takes for a Python function, where the capture did not measure it."""


class ProfilerCost(Struct, frozen=True):
    """What the profiler cost.

    Args:
        event_ns: of a Python function.
        pace: what a step took without it, of what is left of a recorded step without its events' cost; at most 1.
        own: the program's own share of a recorded step, by the reckoning of what items save.
        spread: by what share a saving may be higher than estimated.
    """

    event_ns: float = EVENT_COST_NS
    pace: float = 1.0
    own: float = 1.0
    spread: float = 0.5


REMOVED = ProfilerCost(event_ns=0.0, spread=1.0)
"""Of a graph without it (`simulation.unrecorded`): what a host takes is fitted, and a saving may be twice as high."""


_MOST_COST_NS = 3_000.0
"""What is beyond it is no cost of events: the steps before were faster for another reason, such as a batch that was
longer. A process that had its processors for a part of the time alone takes as much longer for each event."""
_MOST_SLOWED = 4.0
"""By this factor at most: a process may also have slept."""
LEAST_LEFT = 0.2
"""However many events there are, so much of the time is the program's own."""
_HALF_WAY = 0.5
"""Of what the events do not explain of a slower recorded step, so much is taken to slow all of it (as an exponent)."""
_LOW_COST = 0.5
_HIGH_COST = 1.6
"""Costs of an event differ by its kind: by these factors at most."""
_LOW_SPREAD = 0.4
"""The true saving may be lower by this share, and higher by `ProfilerCost.spread`: of the real programs of the
examination, which were measured with and without their fault, the interval holds four of five."""
_LEAST_OF_BOUND = 0.4
"""Of the time that occurrences cover a change saves so much at least, where no replay says how much."""


def profiler_cost(linked: LinkedTrace, windows: pl.DataFrame) -> ProfilerCost | None:
    """What the profiler cost: recorded steps against those before them; None: not measured.

    The difference of a recorded step and one that was not, over the host events of the thread that has most in a step,
    where an op counts as `OP_WEIGHT` functions.
    """
    facts = linked.capture_facts
    untraced = facts.untraced_step_median_ns
    if not untraced or windows.get_column("step").null_count() or windows.is_empty():
        return None
    spans = windows.select((pl.col("end_ns") - pl.col("start_ns")).alias("span"), "start_ns", "end_ns")
    host = host_rows(linked)
    lane = np.bincount(host.lane).argmax() if len(host.lane) else 0
    is_frame = by_rules(linked, lambda names: names.select(is_in_role(Role.PYTHON).alias("frame")))["frame"]
    rows = np.flatnonzero(host.lane == lane)
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    weight = np.r_[0.0, np.cumsum(np.where(is_frame[rows], 1.0, OP_WEIGHT))]
    first, last = (
        np.searchsorted(host.start_ns[rows], spans.get_column(name).to_numpy())
        for name in ("start_ns", "end_ns")
    )
    events = float(np.median(weight[last] - weight[first]))
    recorded = float(np.median(spans.get_column("span").to_numpy()))
    slowed = (facts.window_ns or 0) / max(facts.cpu_ns or facts.window_ns or 1, 1)
    most = _MOST_COST_NS * min(max(slowed, 1.0), _MOST_SLOWED)
    cost = min(max((recorded - untraced) / max(events, 1.0), 0.0), most)
    left = max(recorded - cost * events, recorded * LEAST_LEFT, 1.0)
    pace = min(untraced / left, 1.0)
    return ProfilerCost(cost, pace, min(left / max(recorded, 1.0), 1.0) * pace**_HALF_WAY)


def estimated(order: pl.DataFrame, parts: pl.DataFrame, gains: Gains, profiler: ProfilerCost) -> pl.DataFrame:
    """Estimate what each item saves.

    By replay it is the gain, at most the time that the occurrences cover, less what the profiler took for the host
    events in it. Where no replay knows what follows it is the time covered. Where recorded steps are slower by more
    than the events cost, all may be slower: the interval holds both.
    """
    by_replay = pl.col("gain_ns").is_not_null()
    gain = pl.min_horizontal("gain_ns", "most_ns").fill_null(pl.col("most_ns"))
    cost = pl.col("host_events").fill_null(0.0) * profiler.event_ns

    def left(factor: float) -> pl.Expr:
        return pl.max_horizontal(
            gain - cost * factor, gain * LEAST_LEFT, pl.min_horizontal(gain, "device_gain_ns")
        )

    least = left(_HIGH_COST) * ((1 - _LOW_SPREAD) * profiler.pace)
    low = pl.when(by_replay).then(least).otherwise(gain * _LEAST_OF_BOUND)
    high = pl.when(by_replay).then(left(_LOW_COST) * (1 + profiler.spread)).otherwise(gain)
    basis = pl.when(by_replay).then(pl.lit(SavingBasis.REPLAY.value))
    return (
        order.join(gains(parts), on="item", how="left", maintain_order="left")
        .with_columns(
            (left(1.0) * profiler.pace**_HALF_WAY).cast(pl.Float64).alias("estimate_ns"),
            low.cast(pl.Float64).alias("low_ns"),
            high.cast(pl.Float64).alias("high_ns"),
            basis.otherwise(pl.lit(SavingBasis.ACCOUNTING.value)).alias("basis"),
        )
        .drop("gain_ns", "device_gain_ns", "host_events")
    )


def counted_once(parts: pl.DataFrame) -> pl.DataFrame:
    """Occurrences of each item on each rank, cut where an earlier one of the same item runs: they are disjoint then.

    Occurrences that overlap save what they save together, at most the time that they cover: what the cut takes from the
    saving of one goes to those of its overlap that have room for it, in their order.
    """
    key = ["rank", "key"]
    reach = pl.col("end_ns").cum_max().shift(1).over(key)
    begins = (pl.col("start_ns") >= reach).fill_null(value=True)
    long = pl.max_horizontal(pl.col("end_ns") - pl.col("start_ns"), 0)
    cut = (
        parts.sort(*key, "start_ns", "end_ns", maintain_order=True)
        .with_columns(
            begins.cum_sum().alias("overlap"), pl.max_horizontal("start_ns", reach).alias("start_ns")
        )
        .with_columns(pl.min_horizontal("saving_ns", long).alias("kept_ns"), long.alias("long_ns"))
    )
    room = pl.col("long_ns") - pl.col("kept_ns")
    lost = (pl.col("saving_ns") - pl.col("kept_ns")).sum().over("overlap")
    taken = (room.cum_sum() - room).over("overlap")
    saving = pl.col("kept_ns") + pl.min_horizontal(room, pl.max_horizontal(lost - taken, 0))
    return (
        cut.with_columns(saving.alias("saving_ns"))
        .filter(pl.col("long_ns") > 0)
        .drop("overlap", "kept_ns", "long_ns")
    )


def with_further(parts: pl.DataFrame) -> pl.DataFrame:
    """Add `further_ns`: what of its saving each occurrence has outside of the time of all items before its own.

    An occurrence that others cover up to a length u saves at most u more, however its saving lies in it. So of a rank
    and step all that is further adds up to at most what all occurrences cover together.
    """
    found = [parts.with_columns(pl.lit(0, dtype=pl.Int64).alias("further_ns")).clear()]
    for _, of_rank in parts.sort("item", maintain_order=True).group_by("rank", maintain_order=True):
        starts = np.empty(0, dtype=np.int64)
        ends = starts
        for _, of_item in of_rank.group_by("item", maintain_order=True):
            begin, end, saving = (
                of_item.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns")
            )
            covered = cover_of(starts, ends)
            uncovered = end - begin - covered.within(begin, end)
            further = pl.Series("further_ns", np.minimum(saving, uncovered))
            found.append(of_item.with_columns(further))
            starts, ends = np.r_[covered.starts, begin], np.r_[covered.ends, end]
    return pl.concat(found)


WINDOWS = {
    "rank": pl.Int64(),
    "step": pl.String(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}
"""Columns of the steps of ranks."""


def windows_to_save_in(linked: LinkedTrace) -> pl.DataFrame:
    """The steps of a rank's host: `WINDOWS` and `warm_up`; without steps one of the whole trace, without a name.

    Each lasts from the end of the one before to its own. The device may be behind: its steps are made with the graph.
    """
    on_host = step_windows(linked)
    start, end = (on_host.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    overlaps = np.zeros(len(start), dtype=np.bool_)
    overlaps[1:] = start[1:] < np.maximum.accumulate(end)[:-1]
    windows = on_host.with_columns(
        pl.Series("start_ns", step_starts(start, end, overlaps)),
        pl.Series("warm_up", warm_up(end - start), dtype=pl.Boolean),
    ).filter(pl.col("end_ns") > pl.col("start_ns"))
    if windows.select(pl.col("warm_up").all()).item():
        first, last = linked.timeline.span_ns or (0, 0)
        windows = pl.DataFrame(
            {"step": [None], "start_ns": [first], "end_ns": [max(first, last)], "warm_up": [False]}
        )
    with_rank = windows.with_columns(pl.lit(linked.rank).alias("rank"))
    return with_rank.select(*(pl.col(name).cast(dtype) for name, dtype in WINDOWS.items()), "warm_up")


_ALIKE = 1.2
"""A step is as long on a rank as on others up to so many times; a longer one waits for their recordings to begin."""


def counted_windows(windows: pl.DataFrame) -> pl.DataFrame:
    """The steps of all ranks without warm-up: `WINDOWS`.

    A step that is warm-up on one rank, and as long there as on others, counts on none: what the rank loses in it is not
    counted.
    """
    # Steps may share a name: the first of one rank is the first of the others.
    numbered = windows.with_columns(pl.int_range(pl.len()).over("rank", "step").alias("number"))
    long, same = pl.col("end_ns") - pl.col("start_ns"), ["step", "number"]
    alike = pl.col("warm_up") & (long <= _ALIKE * long.min().over(same))
    return numbered.filter(~pl.col("warm_up") & ~alike.any().over(same)).drop("warm_up", "number")


def cut_at_steps(evidence: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Occurrences in parts, each in one step; what lies in no step is left out.

    A saving lies at the start of its occurrence: the parts share it out in their order, each as much as it is long.
    """
    of_ranks, none = dict(_by_rank(windows)), windows.clear()
    found = [_of_rank(rows, of_ranks.get(rank, none)) for rank, rows in _by_rank(evidence)]
    empty = evidence.clear().with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    return pl.concat([empty, *(part.select(empty.columns) for part in found)])


def _by_rank(frame: pl.DataFrame) -> list[tuple[object, pl.DataFrame]]:
    return [(rank, rows) for (rank,), rows in frame.group_by("rank", maintain_order=True)]


def _of_rank(evidence: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    windows = windows.sort("start_ns", maintain_order=True)
    bounds = np.unique(np.r_[tuple(windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))])
    starts, ends, saving = (
        evidence.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns")
    )
    first = np.searchsorted(bounds, starts, side="right") - 1
    count = np.maximum(np.searchsorted(bounds, ends, side="left") - first, 1)
    row = np.repeat(np.arange(len(count)), count)
    segment = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    edges = np.r_[np.iinfo(np.int64).min, bounds, np.iinfo(np.int64).max]
    begin = np.maximum(starts[row], edges[segment + 1])
    end = np.minimum(ends[row], edges[segment + 2])
    rest = saving[row] - (begin - starts[row])
    step = _step_of(begin, windows)
    parts: pl.DataFrame = evidence[row].with_columns(
        pl.Series("start_ns", begin),
        pl.Series("end_ns", end),
        pl.Series("saving_ns", np.clip(rest, 0, end - begin)),
        step.get_column("step"),
        step.get_column("inside"),
    )
    return parts.filter(pl.col("inside") & (pl.col("saving_ns") > 0)).drop("inside")


def _step_of(moments: np.ndarray[tuple[int], np.dtype[np.int64]], windows: pl.DataFrame) -> pl.DataFrame:
    """`step` of each moment, and whether it is `inside` of one: a step without a name has null for a name, too."""
    numbered = windows.select(pl.int_range(pl.len()).cast(pl.String).alias("step"), "start_ns", "end_ns")
    window = step_of_moments(pl.DataFrame({"ts_ns": moments}), numbered).get_column("step").cast(pl.Int64)
    step = windows.get_column("step").gather(window)
    return pl.DataFrame([step, window.is_not_null().alias("inside")])


DEFAULT_MIN_SAVING = "1%"
"""Steps of one run differ by about as much from one to the next: nobody would notice less."""

_FORM = r"\s*([0-9]*\.?[0-9]+)\s*(%|ns|us|µs|ms|s)\s*"
_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_PER_CENT = 100.0


class MinSaving(Struct, frozen=True):
    """The least that an advice must save.

    Args:
        share: of the step, 0 to 1.
        ns: for each step, in ns.
    """

    share: float = 0.0
    ns: float = 0.0

    def per_step_ns(self, step_ns: float) -> float:
        """The least saving for each step, in ns, where a step takes `step_ns`."""
        return max(self.ns, self.share * step_ns)


def min_saving_of(value: str | float) -> MinSaving:
    """A share, given as `1%` or as a number from 0 to 1, or a time for each step: `0.5ms`, `200us`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value) and 0 <= value <= 1:
            return MinSaving(share=float(value))
        raise ArgumentError(
            f"the least saving is {value}; give a share of the step from 0 to 1, or 1%, 0.5ms"
        )
    found = re.fullmatch(_FORM, str(value))
    if found is None:
        raise ArgumentError(f"the least saving is {value!r}; give a share of the step (1%) or a time (0.5ms)")
    amount, unit = float(found.group(1)), found.group(2)
    if unit != "%":
        return MinSaving(ns=amount * _NS[unit])
    if amount > _PER_CENT:
        raise ArgumentError(f"the least saving is {value!r}; no step can be shorter by more than 100%")
    return MinSaving(share=amount / _PER_CENT)


_WHERE = ["op", "shapes", "call_site", "subject"]
"""What says where an occurrence is."""

_SHOWN = 3
"""Occurrences of each advice that are kept as evidence: the worst ones."""

_BY_STEP = ["item", "rank", "step"]

_SUBSUMED = 0.25
"""An item of which other items leave no more than this share is a part of them."""
_SUBSUMED_GENERAL = 0.5
"""The same for a general cause."""
_SYMPTOM = 2
"""The generality from which on an item says which rank it is, and not why."""
_LEAST_OF_RANKS = 0.05
"""An item is one of the ranks on which it covers so much of what it covers on the rank with the most."""
_WORTH = 0.05
"""Of the step: a cause that saves less stands behind a general one that holds its time."""
_NAMES_MUCH = 0.5
"""A general item's time is named by a cause of which so much is in it."""
_NAMES_SOME = 0.25
"""A cause that saves so much of what such an item saves stands before it, though it saves less."""
_SHORT_NS = 100_000
"""Between the stretches of such an item short work of a device may lie."""
_GENERAL_WEIGHT = 0.8
"""A specific cause that saves so much of what a general one saves stands before it."""


class Ranked(Struct, frozen=True):
    """Items in their order, and the steps in which they save.

    Args:
        items: `ADVICE`.
        sites: `ADVICE_SITES`.
        by_step: `ADVICE_BY_STEP`.
        evidence: `ADVICE_EVIDENCE`.
        steps: how many steps there are; 0: none is marked.
        step_ns: how long a step takes on average, on its slowest rank.
    """

    items: pl.DataFrame
    sites: pl.DataFrame
    by_step: pl.DataFrame
    evidence: pl.DataFrame
    steps: int
    step_ns: float


def ranked(
    evidence: pl.DataFrame,
    windows: pl.DataFrame,
    least: MinSaving,
    estimator: Estimator,
    detectors: Mapping[str, AnyDetector],
    device_windows: pl.DataFrame | None = None,
) -> Ranked:
    """Items in the order of what they save; those that other items hold come last."""
    spans = _spans(windows if device_windows is None else device_windows)
    of_job = spans.group_by("step", maintain_order=True).agg(pl.col("step_ns", "windows").max())
    count = max(int(of_job.get_column("windows").sum()), 1)
    step_ns = int(of_job.get_column("step_ns").sum()) / count
    numbered = evidence.with_row_index("row").with_columns(
        _keys(detectors).rank("dense").cast(pl.Int64).alias("key"),
        # What one event shows is one occurrence, in however many stretches it lies.
        pl.coalesce("event_id", -1 - pl.col("row").cast(pl.Int64)).alias("occurrence"),
    )
    if device_windows is None:
        parts = cut_at_steps(numbered, windows)
    else:
        of_host = cut_at_steps(numbered.filter(~pl.col("on_device")), windows)
        parts = pl.concat([of_host, cut_at_steps(numbered.filter("on_device"), device_windows)])
    parts = counted_once(parts)
    least_ns = least.per_step_ns(step_ns) * count
    order = _order(parts, least_ns)
    order = estimator(order, parts.join(order, on="key", maintain_order="left"))
    generality = pl.col("detector").replace_strict(_generality(detectors), default=0, return_dtype=pl.Int64)
    names = parts.group_by("key").agg(generality.first().alias("generality"))
    order = order.join(names, on="key", how="left", maintain_order="left")
    order = order.filter(pl.col("estimate_ns") >= max(least_ns, 1.0))
    order = _numbered(order, _weight_ns(order, parts, detectors, _WORTH * step_ns * count))
    parts = _with_subsumed_last(with_further(parts.join(order, on="key", maintain_order="left")))
    by_step = _by_step(parts, spans)
    steps = count if of_job.get_column("step").null_count() == 0 else 0
    return Ranked(
        _items(parts, by_step, count, step_ns),
        _sites(parts),
        ADVICE_BY_STEP.conform(by_step),
        _worst(parts),
        steps,
        step_ns,
    )


def _generality(detectors: Mapping[str, AnyDetector]) -> dict[str, int]:
    """How far each detector gives way to others which find the same time."""
    return {name: each.generality for name, each in detectors.items()}


def _keys(detectors: Mapping[str, AnyDetector]) -> pl.Expr:
    """What makes two occurrences one item: the detector, and what it tells apart."""
    keys = [
        pl.when(
            pl.col("detector").is_in([name for name, each in detectors.items() if column in each.apart])
        ).then(pl.col(column))
        for column in _WHERE
    ]
    return pl.struct(
        "detector", *(key.alias(f"of_{column}") for key, column in zip(keys, _WHERE, strict=True))
    )


def _spans(windows: pl.DataFrame) -> pl.DataFrame:
    """`rank`, `step`, `step_ns`, `windows`: how often there is a step of that name."""
    long = pl.col("end_ns") - pl.col("start_ns")
    return (
        windows.sort("rank", "start_ns")
        .group_by("rank", "step", maintain_order=True)
        .agg(long.sum().alias("step_ns"), pl.len().alias("windows"))
        .with_row_index("in_order")
    )


def _order(parts: pl.DataFrame, least_ns: float) -> pl.DataFrame:
    """Those that cover enough, by what they cover on the rank with the most of each step.

    Columns: `key`, `item`, `most_ns` (the time that it covers).
    """
    return (
        parts.group_by("key", "rank", "step")
        .agg(pl.col("saving_ns").sum())
        .group_by("key", "step")
        .agg(pl.col("saving_ns").max())
        .group_by("key")
        .agg(pl.col("saving_ns").sum())
        .filter((pl.col("saving_ns") >= least_ns) & (pl.col("saving_ns") > 0))
        .sort("saving_ns", "key", descending=[True, False])
        .select(
            "key",
            pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("item"),
            pl.col("saving_ns").alias("most_ns"),
        )
    )


def _weight_ns(
    order: pl.DataFrame, parts: pl.DataFrame, detectors: Mapping[str, AnyDetector], worth_ns: float
) -> pl.Series:
    """What items order by: what they save; a general one less, and less than the causes that name much of its time.

    Such a cause saves `worth_ns` or more and a quarter as much, and has half of its time or more in that of the general
    item. Where that tells places apart, only a cause counts that explains what it finds, and saves half as much.
    """
    weight = pl.lit(_GENERAL_WEIGHT) ** pl.col("generality")
    names = parts.group_by("key").agg(pl.col("detector").first())
    rows = order.with_columns((pl.col("estimate_ns") * weight).alias("weight_ns")).join(
        names, on="key", how="left", maintain_order="left"
    )
    causes = rows.filter((pl.col("generality") == 0) & (pl.col("estimate_ns") >= worth_ns))
    of_causes = parts.filter(pl.col("key").is_in(causes.get_column("key").implode()))
    general = rows.filter(pl.col("generality") == 1).select("key", "detector", "estimate_ns")
    for key, detector, estimate_ns in general.iter_rows():
        may = pl.col("estimate_ns") >= _NAMES_SOME * estimate_ns
        if detectors[detector].apart:
            explaining = [name for name, each in detectors.items() if detector in each.explains]
            may = pl.col("detector").is_in(explaining) & (pl.col("estimate_ns") >= _NAMES_MUCH * estimate_ns)
        within = _within(of_causes, parts.filter(pl.col("key") == key))
        named = causes.filter(may).join(within, on="key", how="inner")
        least = named.filter(pl.col("within") >= _NAMES_MUCH).get_column("weight_ns").min()
        if least is not None:
            below = pl.min_horizontal("weight_ns", pl.lit(float(least) - 1.0))  # type: ignore[arg-type]
            weight_ns = pl.when(pl.col("key") == key).then(below).otherwise("weight_ns")
            rows = rows.with_columns(weight_ns.alias("weight_ns"))
    return rows.get_column("weight_ns")


def _within(parts: pl.DataFrame, of_item: pl.DataFrame) -> pl.DataFrame:
    """How much of the time of each other item lies in that of one: `key`, `within`."""
    found = [parts.select("key", pl.lit(0, dtype=pl.Int64).alias("inside"), "start_ns", "end_ns").clear()]
    for (rank,), own in of_item.group_by("rank", maintain_order=True):
        starts, ends = (own.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        cover = cover_of(starts, ends + _SHORT_NS)
        rows = parts.filter(pl.col("rank") == rank)
        inside = cover.within(*(rows.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))
        found.append(rows.select("key", pl.Series("inside", inside, dtype=pl.Int64), "start_ns", "end_ns"))
    long = pl.max_horizontal((pl.col("end_ns") - pl.col("start_ns")).sum(), 1)
    return pl.concat(found).group_by("key").agg((pl.col("inside").sum() / long).alias("within"))


def _numbered(order: pl.DataFrame, weight_ns: pl.Series) -> pl.DataFrame:
    """The items numbered by their weights."""
    return order.sort(weight_ns, "most_ns", "key", descending=[True, True, False]).with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("item")
    )


def _with_subsumed_last(parts: pl.DataFrame) -> pl.DataFrame:
    """The occurrences with `under`, and items numbered anew: those that others hold come behind all others.

    `under` is the item before it that covers most of an item of which little is left; null: it stands for itself.
    """
    left = (
        parts.group_by("item")
        .agg(pl.col("saving_ns", "further_ns").sum(), pl.col("generality").first())
        .sort("item")
    )
    most = pl.when(pl.col("generality") > 0).then(_SUBSUMED_GENERAL).otherwise(_SUBSUMED) * pl.col(
        "saving_ns"
    )
    held = left.filter(pl.col("further_ns") <= most).get_column("item").to_list()
    under = {item: _holder(parts, item, held) for item in held}
    symptoms = _symptoms(parts)
    under = {**symptoms, **{item: holder for item, holder in under.items() if holder is not None}}
    order = [item for item in left.get_column("item").to_list() if item not in under]
    number = {item: position for position, item in enumerate([*order, *under], 1)}
    of_under = {item: number[holder] for item, holder in under.items() if holder is not None}
    of_symptom = pl.col("item").is_in(list(symptoms))
    return parts.with_columns(
        # What the cause saves, the symptom does not save again.
        pl.when(of_symptom).then(0).otherwise("further_ns").alias("further_ns"),
        pl.col("item").replace_strict(of_under, default=None, return_dtype=pl.Int64).alias("under"),
        pl.col("item").replace_strict(number, return_dtype=pl.Int64),
    )


def _symptoms(parts: pl.DataFrame) -> dict[int, int]:
    """Items that only say which ranks are late, with the item before them that says why: on the same ranks, as much."""
    ranks = _ranks(parts).rename({"ranks": "of_ranks"})
    items = (
        parts.group_by("item")
        .agg(pl.col("estimate_ns", "generality").first())
        .join(ranks, on="item")
        .sort("item")
        .rows(named=True)
    )
    found: dict[int, int] = {}
    for position, row in enumerate(items):
        causes = [
            each["item"]
            for each in items[:position]
            if each["generality"] < _SYMPTOM <= row["generality"]
            and each["of_ranks"] == row["of_ranks"]
            and each["estimate_ns"] >= _GENERAL_WEIGHT * row["estimate_ns"]
        ]
        if causes:
            found[row["item"]] = causes[0]
    return found


def _holder(parts: pl.DataFrame, item: int, held: list[int]) -> int | None:
    """The item before another one that covers most of its time, on all ranks."""
    covered: dict[int, int] = {}
    for _, of_rank in parts.filter(pl.col("item") <= item).group_by("rank", maintain_order=True):
        own = of_rank.filter(pl.col("item") == item)
        starts, ends = (own.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        for (other,), rows in of_rank.filter(pl.col("item") < item).group_by("item", maintain_order=True):
            assert isinstance(other, int)
            if other in held:
                continue
            cover = cover_of(*(rows.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))
            covered[other] = covered.get(other, 0) + int(cover.within(starts, ends).sum())
    return max(covered, key=lambda other: (covered[other], -other)) if any(covered.values()) else None


def _by_step(parts: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    return (
        parts.group_by(_BY_STEP)
        .agg(
            pl.col("detector").first(),
            pl.col("occurrence").n_unique().alias("count"),
            pl.col("saving_ns", "further_ns").sum(),
        )
        .join(spans, on=["rank", "step"], nulls_equal=True)
        .sort("item", "rank", "in_order")
    )


def _items(parts: pl.DataFrame, by_step: pl.DataFrame, count: int, step_ns: float) -> pl.DataFrame:
    steps = by_step.group_by("item").agg(
        pl.col("step").filter(pl.col("step").is_not_null()).n_unique().alias("steps")
    )
    what = parts.group_by("item").agg(
        pl.col("detector", "most_ns", "estimate_ns", "low_ns", "high_ns", "basis", "under").first(),
        pl.struct("rank", "occurrence").n_unique().alias("count"),
        pl.struct(_WHERE).n_unique().cast(pl.Int64).alias("sites"),
    )
    # The site that covers most stands for all: of the op with the most that of its line with the most, and so on.
    where = (
        _in_order_of_places(_sites(parts))
        .unique("item", keep="first", maintain_order=True)
        .select("item", *_WHERE)
    )
    found = what.join(where, on="item").join(steps, on="item").join(_ranks(parts), on="item")
    found = found.join(_further_of_job(by_step), on="item")
    per_step = {
        "saving_per_step_ns": "estimate_ns",
        "saving_low_per_step_ns": "low_ns",
        "saving_high_per_step_ns": "high_ns",
        "bound_per_step_ns": "most_ns",
        "further_per_step_ns": "further_ns",
    }
    return ADVICE.conform(
        found.sort("item")
        .with_columns(pl.min_horizontal("further_ns", "estimate_ns").cast(pl.Int64).alias("further_ns"))
        .with_columns(
            *((pl.col(column) / count).alias(name) for name, column in per_step.items()),
            pl.col("estimate_ns").round().cast(pl.Int64).alias("saving_ns"),
            (pl.col("estimate_ns") / count / max(step_ns, 1.0)).clip(0.0, 1.0).alias("share"),
        )
    )


def _ranks(parts: pl.DataFrame) -> pl.DataFrame:
    """The ranks of each item, without those on which it is nothing beside others: `item`, `ranks`."""
    covered = parts.group_by("item", "rank").agg(pl.col("saving_ns").sum().alias("of_rank_ns"))
    matter = pl.col("of_rank_ns") >= _LEAST_OF_RANKS * pl.col("of_rank_ns").max().over("item")
    return covered.filter(matter).group_by("item").agg(pl.col("rank").sort().alias("ranks"))


def _sites(parts: pl.DataFrame) -> pl.DataFrame:
    """The sites of each item, that which covers most first."""
    found = parts.group_by("item", *_WHERE).agg(
        pl.col("detector").first(),
        pl.struct("rank", "occurrence").n_unique().alias("count"),
        pl.col("saving_ns").sum().alias("covered_ns"),
    )
    order = found.sort(
        "item", "covered_ns", *_WHERE, descending=[False, True, False, False, False, False], nulls_last=True
    )
    return ADVICE_SITES.conform(order)


def _in_order_of_places(sites: pl.DataFrame) -> pl.DataFrame:
    """Sites in the order of what their op covers, then their line, and what is done there; shapes count last."""
    places = ["op", "call_site", "subject"]
    covered = [
        pl.col("covered_ns").sum().over("item", *places[: count + 1]).alias(f"of_{place}")
        for count, place in enumerate(places)
    ]
    order = [*(f"of_{place}" for place in places), "covered_ns"]
    return sites.with_columns(covered).sort(
        "item", *order, descending=[False, *(True for _ in order)], maintain_order=True
    )


def _further_of_job(by_step: pl.DataFrame) -> pl.DataFrame:
    """`item`, `further_ns`: by how much the rank with the most savings of each step has more with each item."""
    last = by_step.get_column("item").max()
    number = last if isinstance(last, int) else 0
    further = np.zeros(number + 1, dtype=np.int64)
    for _, rows in by_step.group_by("step", maintain_order=True):
        ranks = rows.get_column("rank").rank("dense").to_numpy().astype(np.int64) - 1
        saved = np.zeros((number + 1, int(ranks.max()) + 1), dtype=np.int64)
        saved[rows.get_column("item").to_numpy(), ranks] = rows.get_column("further_ns").to_numpy()
        further += np.diff(saved.cumsum(axis=0).max(axis=1), prepend=0)
    return pl.DataFrame({"item": np.arange(1, number + 1), "further_ns": further[1:]})


def _worst(parts: pl.DataFrame) -> pl.DataFrame:
    """The worst occurrences of each item, the parts of each in a step together."""
    found = parts.group_by("item", "rank", "step", "occurrence").agg(
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        pl.col("saving_ns").sum(),
        pl.col("event_id", "detector", *_WHERE).first(),
    )
    ordered = found.sort("item", "saving_ns", "rank", "start_ns", descending=[False, True, False, False])
    return ADVICE_EVIDENCE.conform(ordered.group_by("item", maintain_order=True).head(_SHOWN))
