"""Estimate the offsets between the clocks of the ranks' hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.linking.ranks.matching.matched import is_of_all, match_members
from tracebraid.model.collectives import (
    BETWEEN_TWO,
    SAME_CLOCK_NS,
    USUAL_DRIFT_PPM,
    ClockMethod,
    CollectiveType,
    MatchMethod,
    has_peer,
    is_pair_on_host,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_ranks import Gather, LinkedRanks, RankParts
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.schema.links import CLOCKS, MEMBERS, RANKS

ENDS_TOGETHER = 0
ENDS_APART = 1
"""Agreement of a collective's ends: on all ranks within a few µs, or roughly."""

_TYPE = CollectiveType
_WAIT_FOR_ALL = (
    _TYPE.ALL_REDUCE,
    _TYPE.ALL_GATHER,
    _TYPE.REDUCE_SCATTER,
    _TYPE.ALL_TO_ALL,
    _TYPE.BARRIER,
)
_EVIDENCE = {
    "rank": pl.Int64(),
    "collective": pl.Int64(),
    "ends": pl.Int32(),
    "gives_ns": pl.Int64(),
    "awaits_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}
_NOTHING = r"(^|[\[, ])0+([,\] ]|$)"
"""A split that has nothing for some rank, which then is not waited for."""


def evidence_of(members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The matched members: rank, collective, ends (how well they agree), gives_ns, awaits_ns, end_ns.

    What a root alone gives or gets is left out: others leave it early. So are sends and receives on the host, which
    buffers: they may end long before, or after, those that they meet. So is what may be of any of several groups,
    where the trace does not say of which: matched by order alone, it may be of groups that never met.

    No member's `awaits_ns` is before the `gives_ns` of any other member of the collective, by one clock: a collective
    ends on no rank that waits for others before those have started. Null if a member gives or awaits nothing.
    """
    if collectives.is_empty():
        return pl.DataFrame(schema=_EVIDENCE)
    is_pair = pl.col("ranks").list.len() == 2
    kinds = collectives.select(
        "collective", pl.col("type").alias("matched_type"), "agrees", is_pair.alias("is_pair")
    )
    grouped = pl.any_horizontal(pl.col("communicator", "process_group", "group_ranks").is_not_null())
    groups = ranks.select("rank", pl.col("groups").fill_null(0))
    found = (
        members.drop_nulls("collective")
        .join(groups, on="rank", how="inner", maintain_order="left")
        .filter((grouped | (pl.col("groups") <= 1)) & ~is_pair_on_host())
        .join(kinds, on="collective", how="left", maintain_order="left")
    )
    kind, own = pl.coalesce("matched_type", "type"), pl.coalesce("type", "matched_type")
    parts = as_text("in_split", "out_split").str.extract_all(r"\d+").list.n_unique()
    uneven = (kind == _TYPE.ALL_TO_ALL.value) & (
        _any(parts > 1) | _any(pl.col("in_bytes") != pl.col("out_bytes"))
    )
    partial = uneven & _any(as_text("in_split", "out_split").str.contains(_NOTHING))
    doubtful = ~pl.col("agrees").fill_null(value=True) & ~uneven
    all_wait = _is(kind, _WAIT_FOR_ALL) & ~partial & ~doubtful
    gives, awaits = (
        all_wait | (own == kind_of.value) | (pl.col("is_pair") & has_peer(kind_of))
        for kind_of in (_TYPE.SEND, _TYPE.RECEIVE)
    )
    apart = uneven | doubtful | _is(kind, BETWEEN_TWO)
    return found.filter(_is(kind, (*_WAIT_FOR_ALL, *BETWEEN_TWO))).select(
        "rank",
        "collective",
        pl.when(apart).then(ENDS_APART).otherwise(ENDS_TOGETHER).alias("ends"),
        pl.when(gives).then("start_ns").alias("gives_ns"),
        pl.when(awaits).then("end_ns").alias("awaits_ns"),
        "end_ns",
    )


def of_units(evidence: pl.DataFrame, unit_of: pl.DataFrame) -> pl.DataFrame:
    """The evidence of each collective and unit, a unit being ranks that share a clock, in which several take part."""
    units = (
        evidence.join(unit_of, on="rank", how="inner")
        .group_by("collective", "unit")
        .agg(
            pl.col("ends").max(),
            pl.col("gives_ns").max(),
            pl.col("awaits_ns").min(),
            # The middle of several, without the rounding of a float.
            (pl.col("end_ns").min() + ((pl.col("end_ns") - pl.col("end_ns").min()).median()).cast(pl.Int64)),
        )
    )
    return units.filter(pl.len().over("collective") > 1).sort("collective", "unit")


def _any(flags: pl.Expr) -> pl.Expr:
    return pl.any_horizontal(flags.fill_null(value=False))


def _is(kind: pl.Expr, types: tuple[CollectiveType, ...]) -> pl.Expr:
    return kind.is_in([each.value for each in types]).fill_null(value=False)


MOST_DRIFT_PPM = 1000.0
"""No clock of a host drifts as much: oscillators do up to 100, NTP adds up to 500 to correct them."""

_LEAST_FOR_DRIFT = 6
"""Minimum collectives for measuring a drift."""

_ERRORS = 4.0
_ERRORS_OF_FEW = 8.0
"""Standard errors between which a drift lies, and beyond which it is taken to be one: `4 (1 + 8 / (n - 2))`, about the
quantile of Student's distribution with n - 2 degrees of freedom beyond which a part of 6e-5 lies."""

_READING_NS = 1_000
"""Precision of a time: device times are converted to the host's clock to about a microsecond."""

_ROUNDS = 8
_TUKEY = 4.685
"""Constant of Tukey's biweight, for 95 % efficiency on normal residuals, in standard deviations."""

_MAD_TO_SIGMA = 1.4826
"""Scale of the median absolute deviation, for normal residuals."""

_PPM = 1e6
_Floats: TypeAlias = NDArray[np.float64]
_Ints: TypeAlias = NDArray[np.int64]


class Differences(Struct, frozen=True, eq=False):
    """Evidence of collectives about a clock against another, in ns.

    Args:
        own: ends on this clock, at which the others are taken.
        apart: the other clock's ends less its own.
        trusted: which of them the line goes through, at least one; the others only set bounds.
        low: the least that is to be added to this clock, NaN: no bound; relative to `base_ns`.
        high: the most.
        base_ns: what `low` and `high` are relative to.
    """

    own: _Ints
    apart: _Ints
    trusted: NDArray[np.bool_]
    low: _Floats
    high: _Floats
    base_ns: int


class ClockLine(Struct, frozen=True):
    """Offset to add to a clock: `offset_ns` at `at_ns`, `drift_ppm` ns more for each ms.

    Args:
        at_ns: a moment on that clock.
        offset_ns: see above.
        low_ns: the least that the offset can be; None: unknown.
        high_ns: the most.
        drift_ppm: see above; 0 if none is measured.
        drift_low_ppm: the least that the drift can be; None: unknown.
        drift_high_ppm: the most.
    """

    at_ns: int
    offset_ns: int
    low_ns: int | None
    high_ns: int | None
    drift_ppm: float = 0.0
    drift_low_ppm: float | None = None
    drift_high_ppm: float | None = None


class _Drift(Struct, frozen=True):
    """A slope, its error, and whether there are enough samples."""

    slope: float
    error: float
    known: bool

    @property
    def used(self) -> float:
        """Return the slope if significant: not if it may be 0, or exceeds the drift of clocks."""
        return self.slope if self.known and self.error < abs(self.slope) <= MOST_DRIFT_PPM / _PPM else 0.0

    @property
    def free(self) -> float:
        """Return how far the true one can be from that."""
        return abs(self.slope - self.used) + self.error if self.known else USUAL_DRIFT_PPM / _PPM


def line_through(found: Differences) -> ClockLine:
    """The line that agrees best with the ends, and what waiting allows.

    A median of slopes between the halves, then least squares with Tukey's weights. The bounds hold at any time and
    for any drift within its interval; the offset lies between them.
    """
    own = found.own[found.trusted]
    at = int(own.min()) + int(np.median(own - own.min()))
    time = (own - at).astype(np.float64)
    rest = (found.apart[found.trusted] - found.base_ns).astype(np.float64)
    offset, measured, error = _robust_line(time, rest)
    drift = _Drift(measured, error, known=len(time) >= _LEAST_FOR_DRIFT and error < MOST_DRIFT_PPM / _PPM)
    if not drift.used:
        offset = _robust_line(np.zeros_like(time), rest)[0]
    low, high = _between(found, (found.own - at).astype(np.float64), drift)
    offset = min(max(offset, -np.inf if low is None else low), np.inf if high is None else high)
    return ClockLine(
        at_ns=at,
        offset_ns=found.base_ns + round(offset),
        low_ns=None if low is None else found.base_ns + int(np.floor(low)),
        high_ns=None if high is None else found.base_ns + int(np.ceil(high)),
        drift_ppm=drift.used * _PPM,
        drift_low_ppm=(measured - error) * _PPM if drift.known else None,
        drift_high_ppm=(measured + error) * _PPM if drift.known else None,
    )


def _robust_line(time: _Floats, rest: _Floats) -> tuple[float, float, float]:
    """Offset at 0, slope, and error of the slope."""
    slope = _slope_between_halves(time, rest)
    offset = float(np.median(rest - slope * time))
    error, errors = np.inf, _ERRORS * (1 + _ERRORS_OF_FEW / max(len(time) - 2, 1))
    for _ in range(_ROUNDS):
        left = rest - offset - slope * time
        sigma = max(_MAD_TO_SIGMA * float(np.median(np.abs(left))), 1.0)
        weights = np.square(np.clip(1 - np.square(left / (_TUKEY * sigma)), 0, None))
        total = float(weights.sum())
        if not total:
            break
        mean_time, mean_rest = (float((weights * value).sum()) / total for value in (time, rest))
        spread = float((weights * np.square(time - mean_time)).sum())
        if spread:
            slope = float((weights * (time - mean_time) * (rest - mean_rest)).sum()) / spread
            error = errors * sigma / float(np.sqrt(spread))
        offset = mean_rest - slope * mean_time
    return offset, slope, error


def _slope_between_halves(time: _Floats, rest: _Floats) -> float:
    """The median slope between each sample and that which is half of all samples later."""
    order = np.argsort(time, kind="stable")
    half = len(time) // 2
    run = time[order[half:]] - time[order[: len(time) - half]]
    rise = rest[order[half:]] - rest[order[: len(time) - half]]
    later = run >= NS_PER_MS
    return float(np.median(rise[later] / run[later])) if later.any() else 0.0


def _between(found: Differences, time: _Floats, drift: _Drift) -> tuple[float | None, float | None]:
    """Bounds of the offset at time 0; None: no bound.

    Where bounds contradict each other, as by a pair that was matched wrongly, as few of the tightest as possible are
    left out on both ends; where they do so by half, all are.
    """
    rise, loose = drift.used * time, np.abs(time) * drift.free + _READING_NS
    lows = np.sort((found.low - rise - loose)[~np.isnan(found.low)])[::-1]
    highs = np.sort((found.high - rise + loose)[~np.isnan(found.high)])
    if not len(lows) or not len(highs):
        return (float(lows[0]) if len(lows) else None), (float(highs[0]) if len(highs) else None)
    both = min(len(lows), len(highs))
    agree = np.flatnonzero(lows[:both] <= highs[:both])
    if not len(agree) or agree[0] > both // 2:
        return None, None
    return float(lows[agree[0]]), float(highs[agree[0]])


_ENOUGH = 0.5
"""A clock is compared as soon as clocks that are known take part in this share of its collectives."""

_KNOWN = {
    "unit": pl.Int64,
    "order": pl.Int64,
    "at": pl.Int64,
    "offset": pl.Int64,
    "drift": pl.Float64,
    "least": pl.Float64,
    "most": pl.Float64,
    "free": pl.Float64,
}
"""Columns of known clocks: position in the order of comparison, line, error bounds of the offset (null: any),
what the drift may be off in ppm."""


class KnownClock(Struct, frozen=True):
    """A clock relative to the reference.

    Args:
        line: the offset to add to it.
        collectives: how many that comes from.
    """

    line: ClockLine
    collectives: int


def clocks_from(reference: int, evidence: pl.DataFrame) -> dict[int, KnownClock]:
    """The clocks that are connected with the reference's, without it.

    Of each collective one known clock is compared with: that which was known first. So each clock is compared along
    a path of few others, whose uncertainty it has too.
    """
    found: dict[int, KnownClock] = {}
    known = pl.DataFrame([(reference, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)], schema=_KNOWN, orient="row")
    left = evidence
    while True:
        pairs = _pairs(left, known)
        near = _nearest(pairs, left)
        if not near:
            return found
        for unit, frame in (
            pairs.filter(pl.col("unit").is_in(near)).partition_by("unit", as_dict=True).items()
        ):
            line = _with_doubt_of_others(line_through(_differences(frame)), frame)
            found[unit[0]] = KnownClock(line, frame.height)
        rows = [_row(unit, found[unit].line, len(found) + 1) for unit in near]
        known = pl.concat([known, pl.DataFrame(rows, schema=_KNOWN, orient="row")])
        # A collective whose clocks are all known says nothing more.
        unknown = ~pl.col("unit").is_in(known.get_column("unit").implode())
        left = left.filter(unknown.any().over("collective"))


def _pairs(evidence: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Join unknown clocks in each collective with known ones, on the reference clock."""
    with_known = evidence.join(known, on="unit", how="left", maintain_order="left")
    by = with_known.filter(pl.col("order").is_not_null())
    moved = [
        (
            pl.col(name)
            + pl.col("offset")
            + ((pl.col(name) - pl.col("at")) * pl.col("drift") / 1e6).round().cast(pl.Int64)
        ).alias(f"known_{name}")
        for name in ("gives_ns", "awaits_ns", "end_ns")
    ]
    doubt = (pl.col("end_ns") - pl.col("at")).abs() * pl.col("free") / 1e6
    first = by.sort("order").unique("collective", keep="first", maintain_order=True)
    first = first.select("collective", *moved, pl.col("least") + doubt, pl.col("most") + doubt, "free")
    others = with_known.filter(pl.col("order").is_null()).select(evidence.columns)
    return others.join(first, on="collective", how="inner", maintain_order="left")


def _nearest(pairs: pl.DataFrame, evidence: pl.DataFrame) -> list[int]:
    """The clocks that are compared next: those that share enough with known ones, else that which shares most."""
    if pairs.is_empty():
        return []
    best = pairs.get_column("ends").min()
    shared = pairs.filter(pl.col("ends") == best).group_by("unit").agg(pl.len().alias("shared"))
    every = evidence.filter(pl.col("ends") == best).group_by("unit").agg(pl.len().alias("every"))
    counts = shared.join(every, on="unit").sort("shared", "unit", descending=[True, False])
    enough = counts.filter(pl.col("shared") >= _ENOUGH * pl.col("every"))
    near: list[int] = (enough if enough.height else counts.head(1)).get_column("unit").sort().to_list()
    return near


def _differences(pairs: pl.DataFrame) -> Differences:
    """Estimate from the collectives with the best ends, within the bounds of all."""
    best = pl.col("ends") == pl.col("ends").min()
    pairs = pairs.with_columns((pl.col("known_end_ns") - pl.col("end_ns")).alias("apart"), best.alias("best"))
    base_ns = int(pairs.filter("best").get_column("apart").min())  # type: ignore[arg-type]
    low = pl.col("known_gives_ns") - pl.col("awaits_ns") - base_ns - pl.col("least")
    high = pl.col("known_awaits_ns") - pl.col("gives_ns") - base_ns + pl.col("most")
    bounds = pairs.select(
        low=low.cast(pl.Float64).fill_null(np.nan), high=high.cast(pl.Float64).fill_null(np.nan)
    )
    return Differences(
        own=pairs.get_column("end_ns").to_numpy(),
        apart=pairs.get_column("apart").to_numpy(),
        trusted=pairs.get_column("best").to_numpy(),
        low=bounds.get_column("low").to_numpy(),
        high=bounds.get_column("high").to_numpy(),
        base_ns=base_ns,
    )


def _with_doubt_of_others(line: ClockLine, pairs: pl.DataFrame) -> ClockLine:
    """The line, whose drift is as uncertain as it is and as those of the clocks that it was compared with are."""
    free = pairs.get_column("free").max()
    if line.drift_low_ppm is None or line.drift_high_ppm is None or not isinstance(free, float):
        return line
    return replace(line, drift_low_ppm=line.drift_low_ppm - free, drift_high_ppm=line.drift_high_ppm + free)


def _row(unit: int, line: ClockLine, order: int) -> tuple[object, ...]:
    """A row of `_KNOWN`."""
    least = None if line.low_ns is None else float(line.offset_ns - line.low_ns)
    most = None if line.high_ns is None else float(line.high_ns - line.offset_ns)
    free = USUAL_DRIFT_PPM
    if line.drift_low_ppm is not None and line.drift_high_ppm is not None:
        free = max(line.drift_ppm - line.drift_low_ppm, line.drift_high_ppm - line.drift_ppm)
    return unit, order, line.at_ns, line.offset_ns, line.drift_ppm, least, most, free


def units_of(ranks: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Each rank with the lowest rank that has its clock: rank, unit.

    Hosts of several containers or networks can have the same name. They are told apart where a collective ended on a
    rank before another one of its host had begun it.
    """
    unit = pl.when(pl.col("host").is_null()).then("rank").otherwise(pl.col("rank").min().over("host"))
    by_host = ranks.select("rank", unit.alias("unit"))
    if evidence.is_empty():
        return by_host
    split = [_by_clock(evidence, host) for host in _contradicted(by_host, evidence)]
    if not split:
        return by_host
    others = pl.concat(split)
    return by_host.update(others, on="rank").sort("rank")


def _contradicted(unit_of: pl.DataFrame, evidence: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the hosts, with ranks, on which a rank ended a collective before another had begun it."""
    gap = pl.col("gives_ns").max() - pl.col("awaits_ns").min()
    units = (
        evidence.join(unit_of, on="rank", how="inner")
        .group_by("collective", "unit")
        .agg(gap.alias("gap_ns"))
        .filter(pl.col("gap_ns") > SAME_CLOCK_NS)
        .get_column("unit")
        .unique()
    )
    return unit_of.filter(pl.col("unit").is_in(units.implode())).partition_by("unit", maintain_order=True)


def _by_clock(evidence: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The ranks of a host: those that can have the clock of its lowest rank together, the others by their offsets."""
    ranks = host.get_column("rank").sort()
    own = evidence.filter(pl.col("rank").is_in(ranks.implode()))
    found = clocks_from(int(ranks[0]), of_units(own, host.select("rank", pl.col("rank").alias("unit"))))
    apart = []
    for rank, clock in found.items():
        low, high = clock.line.low_ns, clock.line.high_ns
        may_be = (low is None or low <= SAME_CLOCK_NS) and (high is None or high >= -SAME_CLOCK_NS)
        if not may_be:
            apart.append((clock.line.offset_ns, rank))
    unit_of = dict.fromkeys(ranks.to_list(), int(ranks[0]))
    group: list[tuple[int, int]] = []
    for offset, rank in sorted(apart):
        group = (
            [*group, (offset, rank)] if group and offset - group[-1][0] <= SAME_CLOCK_NS else [(offset, rank)]
        )
        lowest = min(member for _, member in group)
        unit_of |= dict.fromkeys((member for _, member in group), lowest)
    return pl.DataFrame({"rank": list(unit_of), "unit": list(unit_of.values())})


def clocks_of(members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The clocks of all ranks: `CLOCKS`. The reference is the lowest rank."""
    if ranks.is_empty():
        return CLOCKS.empty()
    evidence = evidence_of(members, collectives, ranks)
    unit_of = units_of(ranks, evidence)
    reference = int(ranks.get_column("rank").min())  # type: ignore[arg-type]
    found: dict[int, KnownClock] = {}
    compared: set[int] = set()
    if not evidence.is_empty():
        units = of_units(evidence, unit_of)
        found = clocks_from(reference, units)
        shared = pl.col("collective").is_in(units.get_column("collective").implode())
        compared = set(evidence.filter(shared).get_column("rank").unique())
    rows = [
        _clock_row((rank, host, start), reference, int(unit), found.get(unit), rank in compared)
        for rank, host, start, unit in ranks.join(unit_of, on="rank", maintain_order="left")
        .select("rank", "host", "start_ns", "unit")
        .iter_rows()
    ]
    return CLOCKS.conform(pl.DataFrame(rows, schema=CLOCKS.polars_schema()).sort("rank"))


def _clock_row(
    facts: tuple[int, str | None, int | None],
    reference: int,
    unit: int,
    clock: KnownClock | None,
    compared: bool,
) -> dict[str, object]:
    """A row of `CLOCKS`."""
    rank, host, start = facts
    row: dict[str, object] = {
        "rank": rank,
        "host": host,
        "reference": reference,
        "collectives": 0,
        "drift_ppm": 0.0,
    }
    if unit == reference:
        method = ClockMethod.REFERENCE if rank == reference else ClockMethod.SAME_HOST
        zero = dict.fromkeys(("offset_ns", "offset_low_ns", "offset_high_ns"), 0)
        return {
            **row,
            **zero,
            "method": method.value,
            "at_ns": start,
            "drift_low_ppm": 0.0,
            "drift_high_ppm": 0.0,
        }
    if clock is None:
        return {**row, "method": ClockMethod.UNKNOWN.value}
    line = clock.line
    return {
        **row,
        "method": (ClockMethod.COLLECTIVES if compared else ClockMethod.SAME_HOST).value,
        "collectives": clock.collectives,
        "at_ns": line.at_ns,
        "offset_ns": line.offset_ns,
        "offset_low_ns": line.low_ns,
        "offset_high_ns": line.high_ns,
        "drift_ppm": line.drift_ppm,
        "drift_low_ppm": line.drift_low_ppm,
        "drift_high_ppm": line.drift_high_ppm,
    }


def in_order(members: pl.DataFrame, collectives: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Members and collectives, numbered again.

    They were matched on clocks that may be a day apart: the first start of a collective was on whichever rank's clock
    is furthest behind, if that rank recorded it.
    """
    if collectives.is_empty():
        return members, collectives
    starts = (
        members.drop_nulls("collective").group_by("collective").agg(pl.col("start_ns").min().alias("_start"))
    )
    ordered = (
        collectives.join(starts, on="collective", how="left", maintain_order="left")
        .sort("_start", "collective", nulls_last=True)
        .with_row_index("_new")
        .with_columns(
            pl.col("_new").cast(pl.Int64), pl.int_range(pl.len()).over("group").cast(pl.Int64).alias("number")
        )
    )
    moved = members.join(
        ordered.select("collective", "_new"), on="collective", how="left", maintain_order="left"
    )
    return (
        moved.with_columns(pl.col("_new").alias("collective")).select(members.columns),
        ordered.with_columns(pl.col("_new").alias("collective")).select(collectives.columns),
    )


_BY_ORDER = [
    method.value for method in (MatchMethod.GROUP_ORDER, MatchMethod.ALIGNED_ORDER, MatchMethod.TIME)
]


def without_impossible(
    members: pl.DataFrame, collectives: pl.DataFrame, clocks: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same without matches that cannot be: their members are unmatched again.

    Only types that end on no rank before all have started are judged, and all-to-alls, of which ranks that exchange
    nothing might not overlap: nothing but their order says then that they are of the same. A receive does not end
    before its send was issued; a backend of the host may send before the start that it notes. Only clocks that are
    known judge; a gap counts beyond the widest interval of the members' clocks.
    """
    if collectives.is_empty():
        return members, collectives
    known = clocks.filter(pl.col("method") != ClockMethod.UNKNOWN.value).select(
        "rank", (pl.col("offset_high_ns") - pl.col("offset_low_ns")).fill_null(0).alias("_width")
    )
    by_order = collectives.filter(pl.col("method").is_in(_BY_ORDER)).select("collective")
    kind = pl.col("type")
    of_all = is_of_all() | (kind == CollectiveType.ALL_TO_ALL.value)
    gives, awaits = (of_all | (kind == each.value) for each in (CollectiveType.SEND, CollectiveType.RECEIVE))
    issued = pl.coalesce(pl.when(kind == CollectiveType.SEND.value).then("issued_ns"), "start_ns")
    gap = issued.filter(gives).max() - pl.col("end_ns").filter(awaits).min()
    apart = (
        members.filter(gives | awaits)
        .join(by_order, on="collective", how="semi")
        .join(known, on="rank")
        .group_by("collective")
        .agg((gap > SAME_CLOCK_NS + pl.col("_width").max()).alias("apart"))
        .filter("apart")
        .get_column("collective")
    )
    is_apart = pl.col("collective").is_in(apart.implode())
    unmatched = pl.when(~is_apart).then("collective").alias("collective")
    return members.with_columns(unmatched), collectives.filter(~is_apart)


def link_ranks(parts: Sequence[RankParts]) -> LinkedRanks:
    """Link the ranks of a job with each other."""
    ranks = pl.concat([RANKS.empty(), *(part.facts for part in parts)]).sort("rank")
    members = pl.concat([MEMBERS.empty(), *(part.members for part in parts)]).sort(
        "rank", "start_ns", "event_id"
    )
    matched = match_members(members, ranks)
    clocks = clocks_of(matched.members, matched.collectives, ranks)
    linked = LinkedRanks(ranks, clocks, matched.members, matched.collectives, matched.findings, joined(parts))
    aligned = linked.aligned(matched.members, "issued_ns", "start_ns", "end_ns")
    aligned, collectives = in_order(*without_impossible(aligned, linked.collectives, clocks))
    return LinkedRanks(ranks, clocks, aligned, collectives, linked.findings, linked.parts)


def joined(parts: Sequence[RankParts]) -> dict[Gather, pl.DataFrame]:
    """Concatenate the gathered tables in the order of ranks."""
    if not parts:
        return {}
    ordered = sorted(parts, key=lambda part: part.facts.item(0, "rank"))
    return {gather: pl.concat(part.gathered[gather] for part in ordered) for gather in ordered[0].gathered}
