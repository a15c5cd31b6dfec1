"""Planted jobs: is the truth within the interval of each clock, and the offset exact where ends agree?"""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.planted import Host, WideJob, WidePlan, wide_job
from tests.planted.hosts import BASE_NS
from tracebraid.linking.ranks.clocks.clocks import clocks_of
from tracebraid.linking.ranks.link_ranks import link_ranks

DAY_NS = 86_400 * 10**9
US = 1_000

steady = settings(deadline=None, derandomize=True, max_examples=12)


@st.composite
def hosts(draw: DrawFn, most: int = 8) -> tuple[Host, ...]:
    """Hosts whose clocks are up to a day apart, and drift by up to 100 ppm."""
    ahead = st.one_of(st.integers(-10_000, 10_000), st.integers(-DAY_NS, DAY_NS))
    count = draw(st.integers(1, most))
    return tuple(Host(f"host-{n}", draw(ahead), draw(st.floats(-100, 100))) for n in range(count))


@st.composite
def plans(draw: DrawFn, jitter: int, late_ends: int = 0) -> WidePlan:
    """Jobs of 2 to 64 ranks, whose groups overlap or do not."""
    found = draw(hosts())
    ranks = draw(st.integers(max(2, len(found)), 64))
    size = draw(st.integers(2, ranks))
    stride = draw(st.integers(1, size))
    groups = tuple(tuple(range(first, min(first + size, ranks))) for first in range(0, ranks - 1, stride))
    return WidePlan(
        ranks,
        draw(st.integers(1, 12)) * len(groups) if draw(st.booleans()) else draw(st.integers(1, 150)),
        found,
        groups if draw(st.booleans()) else (),
        skew=draw(st.integers(1_000, 5_000_000)),
        transfer=draw(st.integers(5_000, 5_000_000)),
        jitter=jitter,
        late_ends=tuple(draw(st.integers(0, late_ends)) for _ in found),
        lost=draw(st.sampled_from([0.0, 0.02, 0.3])),
        seed=draw(st.integers(0, 2**32)),
    )


def truths(job: WideJob) -> pl.DataFrame:
    """The clocks that are known, with `true_ns`: what their offsets should be."""
    clocks = clocks_of(job.members, job.matched(), job.ranks).drop_nulls(["offset_ns", "at_ns"])
    true = [
        job.host_of[rank].offset_to(job.host_of[reference], at)
        for rank, reference, at in clocks.select("rank", "reference", "at_ns").iter_rows()
    ]
    return clocks.with_columns(pl.Series("true_ns", true, dtype=pl.Int64))


def outside(clocks: pl.DataFrame) -> pl.DataFrame:
    low, high = pl.col("offset_low_ns"), pl.col("offset_high_ns")
    return clocks.filter((pl.col("true_ns") < low) | (pl.col("true_ns") > high))


@steady
@given(plans(jitter=0))
def test_offsets_are_exact_where_ends_are_the_same_moment(plan: WidePlan) -> None:
    clocks = truths(wide_job(plan))
    errors = (clocks.get_column("offset_ns") - clocks.get_column("true_ns")).abs()
    assert (errors <= US).all()
    assert outside(clocks).is_empty()


@steady
@given(plans(jitter=0))
def test_aligned_ends_are_the_same_moment_all_along_the_trace(plan: WidePlan) -> None:
    job = wide_job(plan)
    linked = link_ranks(job.parts())
    known = linked.clocks.drop_nulls(["offset_ns", "drift_low_ppm"]).get_column("rank")
    members = linked.members.filter(pl.col("rank").is_in(known.implode())).drop_nulls("collective")
    spread = members.group_by("collective").agg(pl.col("end_ns").max() - pl.col("end_ns").min())
    # Each of two clocks may be 1 us off.
    assert (spread.get_column("end_ns") <= 2 * US).all()


@steady
@given(plans(jitter=20_000, late_ends=100_000))
def test_the_truth_is_within_the_interval_where_ends_do_not_agree(plan: WidePlan) -> None:
    """A host whose ends are always late cannot be told from one whose clock is ahead."""
    job = wide_job(plan)
    clocks = truths(job)
    assert outside(clocks).is_empty()
    low, high = clocks.get_column("offset_low_ns"), clocks.get_column("offset_high_ns")
    assert ((low <= clocks.get_column("offset_ns")) & (clocks.get_column("offset_ns") <= high)).all()


def test_offsets_are_within_a_microsecond_and_drifts_within_their_interval_where_ends_jitter_little() -> None:
    random = np.random.default_rng(13)
    errors, drifts, measured = [], 0, 0
    for seed in range(60):
        ahead, drift = random.integers(-DAY_NS, DAY_NS, 2), random.normal(0, 40, 2)
        own = tuple(Host(str(n), int(ahead[n]), float(drift[n])) for n in range(2))
        job = wide_job(WidePlan(4, int(random.integers(20, 400)), own, jitter=300, seed=seed))
        for row in truths(job).filter(pl.col("rank") > 1).iter_rows(named=True):
            errors.append(abs(row["offset_ns"] - row["true_ns"]))
            true = ((1 + own[0].drift_ppm / 1e6) / (1 + own[1].drift_ppm / 1e6) - 1) * 1e6
            measured += 1
            drifts += row["drift_low_ppm"] <= true <= row["drift_high_ppm"]
    assert max(errors) <= US
    assert drifts / measured >= 0.95


@steady
@given(plans(jitter=1_000))
def test_no_collective_ends_before_all_have_arrived(plan: WidePlan) -> None:
    """On aligned clocks, but for what a time is read off by."""
    job = wide_job(plan)
    linked = link_ranks(job.parts())
    reference = set(linked.clocks.drop_nulls("offset_ns").get_column("rank"))
    members = linked.members.filter(pl.col("rank").is_in(list(reference))).drop_nulls("collective")
    gaps = members.group_by("collective").agg(
        (pl.col("start_ns").max() - pl.col("end_ns").min()).alias("gap")
    )
    if not gaps.is_empty():
        assert (gaps.get_column("gap") <= 10 * US).mean() >= 0.99  # type: ignore[operator]


def test_a_planted_hour_is_aligned_to_its_end() -> None:
    own = Host("a"), Host("b", 7, 80.0)
    job = wide_job(WidePlan(2, 3_600, own, gap=10**9, jitter=500))
    (row,) = truths(job).filter(pl.col("rank") == 1).to_dicts()
    at = own[1].says(BASE_NS + int(job.end[-1, 0]))
    aligned = row["offset_ns"] + round((at - row["at_ns"]) * row["drift_ppm"] / 1e6)
    assert abs(own[1].offset_to(own[0], at) - aligned) <= US
