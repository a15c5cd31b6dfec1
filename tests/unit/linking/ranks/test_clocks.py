"""Are the clocks of hosts known from the ends of collectives, and never better than they can be?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest

from tests.growth import grows_less
from tests.planted import Host, WideJob, WidePlan, wide_job
from tests.planted.hosts import BASE_NS
from tests.unit.linking.ranks.made_members import MadeJob, facts
from tracebraid.linking.ranks.clocks import clocks_of, link_ranks
from tracebraid.model.collectives import ClockMethod, CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

DAY_NS = 86_400 * 10**9
US = 1_000
A, B, C = Host("a", 5, 0.0), Host("b", DAY_NS, 25.0), Host("c", -3_000_000, -40.0)

REFERENCE, SAME_HOST, COLLECTIVES, UNKNOWN = (method.value for method in ClockMethod)


def clocks(job: WideJob) -> list[dict[str, Any]]:
    return clocks_of(job.members, job.matched(), job.ranks).to_dicts()


def error_ns(job: WideJob, row: dict[str, Any], row_of_job: int) -> int:
    """How far a rank's aligned time is from the truth at a collective."""
    host, reference = job.host_of[row["rank"]], job.host_of[row["reference"]]
    own = host.says(BASE_NS + int(job.end[row_of_job].max()))
    aligned = row["offset_ns"] + round((own - row["at_ns"]) * row["drift_ppm"] / 1e6)
    return abs(int(host.offset_to(reference, own) - aligned))


def methods(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [row["method"] for row in rows]


def is_inside(job: WideJob, row: dict[str, Any]) -> bool:
    true = job.host_of[row["rank"]].offset_to(job.host_of[row["reference"]], row["at_ns"])
    return bool(row["offset_low_ns"] <= true <= row["offset_high_ns"])


# --- what ends say ----------------------------------------------------------------------------------


def test_offset_and_drift_are_exact_where_ends_are_the_same_moment() -> None:
    job = wide_job(WidePlan(6, 200, (A, B, C)))
    rows = clocks(job)
    assert methods(rows) == [REFERENCE, SAME_HOST, *[COLLECTIVES] * 4]
    assert [row["collectives"] for row in rows] == [0, 0, 200, 200, 200, 200]
    for row in rows:
        assert error_ns(job, row, 0) <= 2
        assert error_ns(job, row, 199) <= 2
        assert is_inside(job, row)
    # What is to be added to a clock that drifts by 25 ppm falls by that, but for the product of both.
    assert [row["drift_ppm"] for row in rows[::2]] == pytest.approx([0, -25, 40], abs=0.01)


def test_waiting_for_a_late_rank_does_not_move_a_clock() -> None:
    """Rank 1 is always 5 ms late: only starts show it."""
    job = wide_job(WidePlan(2, 50, (A, C), jitter=200))
    late = job.members.with_columns(
        pl.when(pl.col("rank") == 0)
        .then(pl.col("start_ns") - 5_000_000)
        .otherwise("start_ns")
        .alias("start_ns")
    )
    (_, row) = clocks_of(late, job.matched(), job.ranks).to_dicts()
    assert error_ns(job, row, 25) < US
    assert is_inside(job, row)


def test_ends_that_are_always_later_on_a_host_stay_within_the_interval() -> None:
    job = wide_job(WidePlan(6, 100, (A, B, C), jitter=2_000, late_ends=(0, 20_000, 7_000)))
    for row in clocks(job):
        assert is_inside(job, row)


def test_outliers_do_not_move_a_clock() -> None:
    job = wide_job(WidePlan(2, 100, (A, B), jitter=300))
    woken_late = (pl.col("rank") == 1) & (pl.col("event_id") % 5 == 0)
    members = job.members.with_columns(pl.col("end_ns") + pl.when(woken_late).then(40_000_000).otherwise(0))
    (_, row) = clocks_of(members, job.matched(), job.ranks).to_dicts()
    assert error_ns(job, row, 50) < US


def test_members_that_were_matched_wrongly_do_not_move_the_bounds() -> None:
    job = wide_job(WidePlan(2, 100, (A, C), jitter=300))
    wrong = (pl.col("rank") == 1) & pl.col("collective").is_in([50, 51, 52])
    members = job.members.with_columns(pl.col("collective") + pl.when(wrong).then(3).otherwise(0))
    (_, row) = clocks_of(members, job.matched(), job.ranks).to_dicts()
    assert error_ns(job, row, 20) < US
    assert is_inside(job, row)


def test_a_single_collective_gives_an_offset_and_no_drift() -> None:
    job = wide_job(WidePlan(2, 1, (A, B), jitter=100))
    (_, row) = clocks(job)
    assert (row["method"], row["collectives"]) == (COLLECTIVES, 1)
    assert (row["drift_ppm"], row["drift_low_ppm"], row["drift_high_ppm"]) == (0.0, None, None)
    assert error_ns(job, row, 0) <= 1_000
    assert is_inside(job, row)


def test_a_drift_that_is_less_than_what_ends_scatter_is_none() -> None:
    job = wide_job(WidePlan(2, 30, (A, Host("b", 0, 0.0)), jitter=20_000, gap=10_000_000))
    (_, row) = clocks(job)
    assert row["drift_ppm"] == 0
    assert row["drift_low_ppm"] < 0 < row["drift_high_ppm"]


def test_a_collective_whose_ends_are_long_after_the_arrivals_leaves_a_wide_interval() -> None:
    short, long = (wide_job(WidePlan(2, 50, (A, C), transfer=ns)) for ns in (10_000, 1_000_000))
    widths = [row["offset_high_ns"] - row["offset_low_ns"] for row in (clocks(short)[1], clocks(long)[1])]
    assert 10_000 <= widths[0] < 100_000
    assert widths[1] >= 1_000_000


# --- who is connected with whom ---------------------------------------------------------------------


def test_clocks_are_compared_along_pairs_of_hosts() -> None:
    hosts = tuple(Host(str(number), number * 10**9, 10.0 * number) for number in range(5))
    pairs = tuple((number, number + 1) for number in range(4))
    job = wide_job(WidePlan(5, 200, hosts, groups=pairs, jitter=100))
    rows = clocks(job)
    assert methods(rows) == [REFERENCE, *[COLLECTIVES] * 4]
    widths = [row["offset_high_ns"] - row["offset_low_ns"] for row in rows]
    assert widths == sorted(widths)
    for row in rows:
        assert error_ns(job, row, 100) < US
        assert is_inside(job, row)


def test_groups_without_a_common_host_are_not_compared() -> None:
    job = wide_job(WidePlan(4, 20, (A, B), groups=((0, 1), (2, 3))))
    rows = clocks(job)
    assert methods(rows) == [REFERENCE, SAME_HOST, UNKNOWN, UNKNOWN]
    assert rows[2]["offset_ns"] is None
    linked = link_ranks(job.parts())
    assert linked.members.get_column("end_ns").to_list() == job.members.get_column("end_ns").to_list()


def test_a_rank_without_a_collective_has_the_clock_of_its_host() -> None:
    job = wide_job(WidePlan(4, 20, (A, B), groups=((0, 2),)))
    rows = clocks(job)
    assert methods(rows) == [REFERENCE, SAME_HOST, COLLECTIVES, SAME_HOST]
    assert rows[2]["offset_ns"] == rows[3]["offset_ns"]


def test_ranks_whose_host_is_unknown_are_compared_each_on_its_own() -> None:
    unknown = Host(None, 7_000_000)
    job = wide_job(WidePlan(3, 20, (Host(None), unknown, unknown)))
    rows = clocks(job)
    assert methods(rows) == [REFERENCE, COLLECTIVES, COLLECTIVES]
    assert [row["offset_ns"] for row in rows] == pytest.approx([0, -7_000_000, -7_000_000], abs=2)


def test_hosts_of_one_name_whose_clocks_contradict_each_other_are_told_apart() -> None:
    first, second = Host("localhost"), Host("localhost", 2_000_000_000)
    job = wide_job(WidePlan(6, 50, (first, second, first)))
    rows = clocks(job)
    assert methods(rows) == [REFERENCE, SAME_HOST, COLLECTIVES, COLLECTIVES, SAME_HOST, SAME_HOST]
    assert rows[2]["offset_ns"] == rows[3]["offset_ns"] == pytest.approx(-2_000_000_000, abs=2)


def test_skews_of_one_clock_are_no_contradiction() -> None:
    job = wide_job(WidePlan(6, 100, (Host("a"),), skew=9_000_000))
    assert methods(clocks(job)) == [REFERENCE, *[SAME_HOST] * 5]


# --- sends and receives -----------------------------------------------------------------------------


def between(*pairs: tuple[tuple[int, int, int], tuple[int, int, int]]) -> pl.DataFrame:
    """Pairs of a send and a receive, each as rank, start and end."""
    rows = [
        {"rank": rank, "collective": number, "type": kind.value, "start_ns": start, "end_ns": end}
        for number, pair in enumerate(pairs)
        for kind, (rank, start, end) in zip((CollectiveType.SEND, CollectiveType.RECEIVE), pair, strict=True)
    ]
    found = pl.DataFrame(rows).with_row_index("event_id").sort("rank", "start_ns")
    return MEMBERS.conform(found, fill_missing=True)


def matched_of(members: pl.DataFrame, kind: CollectiveType) -> pl.DataFrame:
    rows = members.group_by("collective").agg(pl.col("rank").alias("ranks"))
    rows = rows.sort("collective").with_columns(pl.lit(kind.value).alias("type"))
    return MATCHED_COLLECTIVES.conform(rows, fill_missing=True)


def of_ranks(count: int) -> pl.DataFrame:
    facts = pl.DataFrame({"rank": range(count), "host": [f"h{rank}" for rank in range(count)]})
    return RANKS.conform(facts, fill_missing=True)


def test_a_receive_ends_after_its_send_has_begun() -> None:
    ahead = 1_000_000
    forward = (0, 0, 50_000), (1, 10_000 + ahead, 50_000 + ahead)
    back = (1, 100_000 + ahead, 130_000 + ahead), (0, 90_000, 130_000)
    members = between(forward, back)
    (_, row) = clocks_of(members, matched_of(members, CollectiveType.SEND_RECEIVE), of_ranks(2)).to_dicts()
    assert row["offset_ns"] == -ahead
    # The first: what rank 1 receives cannot have ended before 0. The second: what rank 0 received until 130,000 had
    # begun. Bounds are a µs wider, and more for a drift that is not known.
    assert -ahead - 52_000 < row["offset_low_ns"] <= -ahead - 50_000 - 1_000
    assert -ahead + 30_000 + 1_000 <= row["offset_high_ns"] < -ahead + 32_000


def test_sends_one_way_bound_one_end_of_the_interval() -> None:
    members = between(((0, 0, 50_000), (1, 10_000, 50_000)))
    (_, row) = clocks_of(members, matched_of(members, CollectiveType.SEND_RECEIVE), of_ranks(2)).to_dicts()
    assert row["offset_ns"] == 0
    assert row["offset_low_ns"] is not None
    assert row["offset_high_ns"] is None


@pytest.mark.parametrize("kind", [CollectiveType.BROADCAST, CollectiveType.REDUCE, CollectiveType.GATHER])
def test_what_ranks_leave_early_says_nothing_about_clocks(kind: CollectiveType) -> None:
    job = wide_job(WidePlan(2, 10, (A, B), types=(kind,)))
    assert methods(clocks(job)) == [REFERENCE, UNKNOWN]


# --- bad input --------------------------------------------------------------------------------------


def test_no_ranks_have_no_clocks() -> None:
    empty = clocks_of(MEMBERS.empty(), MATCHED_COLLECTIVES.empty(), RANKS.empty())
    assert empty.is_empty()
    assert empty.schema == CLOCKS.empty().schema


@pytest.mark.parametrize("ranks", [1, 3])
def test_without_a_collective_no_clock_is_known(ranks: int) -> None:
    rows = clocks_of(MEMBERS.empty(), MATCHED_COLLECTIVES.empty(), of_ranks(ranks)).to_dicts()
    assert methods(rows) == [REFERENCE, *[UNKNOWN] * (ranks - 1)]
    assert {row["reference"] for row in rows} == {0}


@pytest.mark.parametrize("collectives", [1, 2, 7, 40])
def test_zero_durations_at_one_moment_are_answered(collectives: int) -> None:
    rows = [
        {"rank": rank, "event_id": n, "collective": n, "type": "all_reduce", "start_ns": rank, "end_ns": rank}
        for rank in (0, 1)
        for n in range(collectives)
    ]
    members = MEMBERS.conform(pl.DataFrame(rows), fill_missing=True)
    (_, row) = clocks_of(members, matched_of(members, CollectiveType.ALL_REDUCE), of_ranks(2)).to_dicts()
    assert row["offset_ns"] == -1
    assert row["drift_ppm"] == 0


def test_an_all_to_all_that_has_nothing_for_a_rank_does_not_wait_for_it() -> None:
    job = wide_job(WidePlan(2, 20, (A, C), types=(CollectiveType.ALL_TO_ALL,)))
    split = pl.lit("[0, 8]").cast(MEMBERS.empty().schema["in_split"]).alias("in_split")
    members = job.members.with_columns(split)
    rows = clocks_of(members, job.matched(), job.ranks).to_dicts()
    assert rows[1]["method"] == COLLECTIVES
    assert rows[1]["offset_low_ns"] is rows[1]["offset_high_ns"] is None


def test_no_row_of_members_is_moved_past_another_of_its_rank() -> None:
    linked = link_ranks(wide_job(WidePlan(6, 50, (A, B, C))).parts())
    assert linked.members.equals(linked.members.sort("rank", "start_ns", "event_id"))


# --- Are matched collectives in the order of starts, whatever the hosts' clocks say ------------------


def test_collectives_are_numbered_in_the_order_of_aligned_starts() -> None:
    """Host a is a day behind; where its rank lost a collective, its own start is a day later."""
    hosts = Host("a", -DAY_NS), Host("b"), Host("c", 5)
    job = wide_job(WidePlan(6, 60, hosts, groups=(tuple(range(6)), (2, 3, 4, 5)), lost=0.2))
    linked = link_ranks(job.parts())
    matched = linked.members.drop_nulls("collective")
    starts = matched.group_by("collective").agg(pl.col("start_ns").min()).sort("collective")
    assert starts.get_column("start_ns").is_sorted()
    assert starts.get_column("collective").to_list() == linked.collectives.get_column("collective").to_list()
    for group in linked.collectives.partition_by("group", as_dict=True).values():
        assert group.get_column("number").to_list() == list(range(group.height))


def test_members_keep_their_collective() -> None:
    linked = link_ranks(wide_job(WidePlan(4, 40, (Host("a", -DAY_NS), Host("b")), lost=0.2)).parts())
    ranks = (
        linked.members.drop_nulls("collective")
        .group_by("collective")
        .agg(pl.col("rank").sort().alias("found"))
    )
    both = linked.collectives.join(ranks, on="collective")
    assert both.height == linked.collectives.height
    assert both.get_column("ranks").to_list() == both.get_column("found").to_list()


# --- Linking ranks is linear in ranks, in collectives and in groups ----------------------------------


_TIMES = 4
"""How many times as large the larger job is."""
_LINEAR = 2.0 * _TIMES
"""Quadratic cost would be 16 times; sorting, caches and a busy machine have a factor of two."""


def _parts(ranks: int, collectives: int, groups: int, sequences: bool) -> list[RankParts]:
    job = MadeJob(ranks, sequences=sequences)
    for number in range(collectives):
        job.collective(group=str(number % groups), size=1024 * (1 + number % 3))
    members = job.frame().drop("truth")
    return [
        RankParts(facts([rank], ranks), own)
        for (rank,), own in members.partition_by("rank", as_dict=True, maintain_order=True).items()
        if isinstance(rank, int)
    ]


def _linked(parts: list[RankParts]) -> LinkedRanks:
    return link_ranks(parts)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize(
    ("small", "large"),
    [
        pytest.param((8, 300, 1), (8 * _TIMES, 300, 1), id="ranks"),
        pytest.param((4, 600, 1), (4, 600 * _TIMES, 1), id="collectives"),
        pytest.param((4, 600, 30), (4, 600 * _TIMES, 30 * _TIMES), id="groups"),
    ],
)
def test_the_cost_is_linear(
    small: tuple[int, int, int], large: tuple[int, int, int], sequences: bool
) -> None:
    little, much = _parts(*small, sequences), _parts(*large, sequences)
    assert _linked(much).members.get_column("collective").null_count() == 0
    assert grows_less(_LINEAR, _linked, little, much)
