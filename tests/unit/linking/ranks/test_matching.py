"""Members of generated jobs are matched where something tells them apart, and left where nothing does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from tests.cases import cases
from tests.unit.linking.ranks.made_members import MadeJob, agreement, all_reduces, facts
from tracebraid.linking.ranks.clocks import without_impossible
from tracebraid.linking.ranks.matching.by_order import can_meet
from tracebraid.linking.ranks.matching.matched import MatchedMembers, match_members
from tracebraid.model.collectives import SAME_CLOCK_NS, ClockMethod, CollectiveType, MatchMethod
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

_DAY_NS = 86_400_000_000_000


def matched(job: MadeJob, frame: pl.DataFrame) -> tuple[MatchedMembers, tuple[int, int, int]]:
    found = match_members(frame.drop("truth"), facts(range(job.world), job.world))
    return found, agreement(found.members, frame)


def codes(found: MatchedMembers) -> list[FindingCode]:
    return [finding.code for finding in found.findings]


def test_numbers_match_where_all_ranks_have_them() -> None:
    job = MadeJob(4, sequences=True, offsets_ns=[0, _DAY_NS, -_DAY_NS, 5])
    all_reduces(job, 40)
    found, result = matched(job, job.frame())
    assert result == (0, 0, 160)
    assert found.collectives.get_column("method").unique().to_list() == [MatchMethod.GROUP_SEQUENCE.value]
    assert found.collectives.get_column("sequence").to_list() == list(range(1, 41))
    assert found.collectives.get_column("missing").list.len().sum() == 0


def test_a_communicator_makes_numbers_certain() -> None:
    job = MadeJob(2, sequences=True, communicators=True)
    all_reduces(job, 5)
    found, _ = matched(job, job.frame())
    assert found.collectives.get_column("method").unique().to_list() == [
        MatchMethod.COMMUNICATOR_SEQUENCE.value
    ]
    assert found.collectives.get_column("confidence").min() == 1.0


def test_a_rank_without_numbers_is_matched_by_order() -> None:
    job = MadeJob(3, sequences=True)
    all_reduces(job, 40)
    frame = job.frame().with_columns(pl.when(pl.col("rank") != 2).then("sequence").alias("sequence"))
    assert matched(job, frame)[1] == (0, 0, 120)


@pytest.mark.parametrize("windows", [{1: (10, 40)}, {0: (0, 30), 1: (15, 40)}])
def test_numbers_that_restart_do_not_mislead(windows: dict[int, tuple[int, int]]) -> None:
    job = MadeJob(2, sequences=True)
    all_reduces(job, 20)
    job.numbers.clear()
    all_reduces(job, 20)
    frame = job.frame()
    for rank, (first, last) in windows.items():
        frame = frame.filter((pl.col("rank") != rank) | pl.col("truth").is_between(first, last - 1))
    found, result = matched(job, frame)
    assert result[:2] == (0, 0)
    assert found.collectives.height == 40 - 10 if 0 not in windows else 15


def test_repeating_collectives_at_regular_intervals_are_left_where_clocks_say_nothing() -> None:
    job = MadeJob(2, offsets_ns=[0, _DAY_NS])
    for _ in range(60):
        job.collective(gap_ns=1_000_000)
    frame = job.frame().filter((pl.col("rank") == 0) | (pl.col("truth") > 3))
    found, (wrong, missed, there) = matched(job, frame)
    assert (wrong, missed, there) == (0, there, 112)
    assert codes(found) == [FindingCode.COLLECTIVES_UNMATCHED] * 2


def test_clocks_that_agree_tell_regular_repetitions_apart_with_less_confidence() -> None:
    job = MadeJob(2, offsets_ns=[0, 20_000])
    for _ in range(60):
        job.collective(gap_ns=1_000_000)
    frame = job.frame().filter((pl.col("rank") == 0) | (pl.col("truth") > 3))
    found, result = matched(job, frame)
    assert result[:2] == (0, 0)
    assert found.collectives.get_column("method").unique().to_list() == [MatchMethod.TIME.value]
    assert (found.collectives.get_column("confidence") < 0.7).all()


def test_names_of_steps_tell_regular_repetitions_apart() -> None:
    job = MadeJob(2, offsets_ns=[0, _DAY_NS])
    for number in range(60):
        job.collective(gap_ns=1_000_000, step=number // 4)
    frame = job.frame().filter((pl.col("rank") == 0) | (pl.col("truth") > 3))
    assert matched(job, frame)[1] == (0, 0, 112)


def test_equal_windows_of_equal_members_are_matched_by_order() -> None:
    job = MadeJob(2, offsets_ns=[0, _DAY_NS])
    for _ in range(60):
        job.collective(gap_ns=1_000_000)
    found, result = matched(job, job.frame())
    assert result[:2] == (0, 0)
    assert found.collectives.get_column("method").unique().to_list() == [MatchMethod.GROUP_ORDER.value]
    assert (found.collectives.get_column("confidence") < 0.9).all()


def test_a_rank_alone_and_no_member_at_all() -> None:
    job = MadeJob(1)
    all_reduces(job, 3)
    found, _ = matched(job, job.frame())
    assert found.collectives.is_empty()
    assert not found.findings
    assert found.members.get_column("collective").null_count() == 3
    empty = match_members(job.frame().drop("truth").clear(), facts([0, 1], 2))
    assert empty.collectives.is_empty()
    assert empty.members.is_empty()
    assert not empty.findings


# --- on the host ------------------------------------------------------------------------------------


def on_gloo(job: MadeJob, frame: pl.DataFrame, lag_ns: int = 900_000) -> pl.DataFrame:
    """The same on the host, whose threads note an end up to so much too late."""
    lag = pl.Series("lag", job.random.integers(0, lag_ns, frame.height))
    return frame.with_columns(pl.lit("cpu").alias("device"), (pl.col("end_ns") + lag).alias("end_ns"))


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("offset_ns", [0, _DAY_NS])
@pytest.mark.parametrize("count", [4, 24])
def test_equal_sequences_of_gloo_in_one_step_are_matched_by_order(
    world: int, offset_ns: int, count: int
) -> None:
    """Whatever their ends say, also on hosts whose clocks are far apart."""
    for seed in range(8):
        job = MadeJob(world, seed, offsets_ns=[rank * offset_ns for rank in range(world)])
        for _ in range(count):
            job.collective("all_to_all", gap_ns=1_000_000, step=2)
        found, result = matched(job, on_gloo(job, job.frame()))
        assert result == (0, 0, world * count)
        assert found.collectives.get_column("method").unique().to_list() == [MatchMethod.GROUP_ORDER.value]
        assert found.collectives.height == count


def test_windows_of_equal_length_that_begin_apart_are_not_taken_for_equal() -> None:
    job = MadeJob(2)
    for _ in range(60):
        job.collective()
    truth, rank = pl.col("truth"), pl.col("rank")
    frame = job.frame().filter(((rank == 0) & (truth < 50)) | ((rank == 1) & (truth >= 10)))
    assert matched(job, frame)[1] == (0, 0, 80)
    assert matched(job, on_gloo(job, frame, 10_000))[1] == (0, 0, 80)


def test_threads_of_gloo_begin_in_another_order_than_that_of_issue() -> None:
    """Ranges that a thread begins later than those of later ops are where they were issued."""
    job = MadeJob(2)
    for number in range(20):
        job.collective("all_reduce", 1024 * (1 + number % 2), gap_ns=10_000, step=1)
    late = pl.when((pl.col("rank") == 1) & (pl.col("truth") % 4 == 0)).then(15_000).otherwise(0)
    frame = job.frame().with_columns((pl.col(name) + late).alias(name) for name in ("start_ns", "end_ns"))
    frame = frame.sort("rank", "start_ns").with_columns(pl.lit("cpu").alias("device"))
    assert matched(job, frame)[1] == (0, 0, 40)
    assert not disordered(matched(job, frame)[0])


# --- groups -----------------------------------------------------------------------------------------


def test_groups_of_one_name_and_other_ranks_are_others() -> None:
    job = MadeJob(4, sequences=True)
    for _ in range(10):
        job.collective(group="tp", ranks=[0, 1])
        job.numbers["tp"] -= 1
        job.collective(group="tp", ranks=[2, 3])
    found, result = matched(job, job.frame())
    assert result == (0, 0, 40)
    assert found.collectives.get_column("group").n_unique() == 2


@pytest.mark.parametrize("sequences", [True, False])
def test_a_group_that_ranks_name_differently_is_one(sequences: bool) -> None:
    job = MadeJob(4, sequences=sequences)
    for _ in range(30):
        job.collective(renamed=True)
    found, result = matched(job, job.frame())
    assert result == (0, 0, 120)
    assert found.members.get_column("group").n_unique() == 1


def test_the_ranks_of_a_group_stand_in_its_name_if_any_of_them_tells_them() -> None:
    job = MadeJob(2, sequences=True)
    job.collective()
    frame = job.frame().with_columns(pl.when(pl.col("rank") != 0).then("group_ranks").alias("group_ranks"))
    found, result = matched(job, frame)
    assert result == (0, 0, 2)
    assert found.collectives.get_column("group").to_list() == ["0 ranks 0,1"]


def test_two_groups_of_equal_ranks_are_told_apart_by_names_and_by_what_they_do() -> None:
    for renamed in (False, True):
        job = MadeJob(2, sequences=True)
        for _ in range(10):
            job.collective("all_gather", group="a", renamed=renamed)
            job.collective("all_reduce", group="b", renamed=renamed)
        found, result = matched(job, job.frame())
        assert result == (0, 0, 40)
        assert found.members.get_column("group").n_unique() == 2


def test_a_name_that_more_ranks_have_than_the_group_is_large_joins_none() -> None:
    job = MadeJob(4, sequences=True)
    for _ in range(10):
        job.collective(group="tp", ranks=[0, 1])
        job.numbers["tp"] -= 1
        job.collective(group="tp", ranks=[2, 3])
    frame = job.frame().with_columns(pl.lit(None, dtype=pl.Categorical).alias("group_ranks"))
    assert matched(job, frame)[1][0] == 0


def test_an_id_of_each_collective_is_no_communicator() -> None:
    job = MadeJob(2, sequences=True)
    all_reduces(job, 20)
    frame = job.frame().with_columns(pl.col("truth").cast(pl.String).alias("communicator"))
    frame = frame.filter((pl.col("rank") == 0) | (pl.col("truth") > 4))
    found, result = matched(job, frame)
    assert result == (0, 0, 30)
    assert found.members.get_column("group").n_unique() == 1


# --- sends and receives -----------------------------------------------------------------------------


def pairs(job: MadeJob, count: int) -> pl.DataFrame:
    """Sends of rank 0 to 1 and back; a rank's numbers count its own sends and receives."""
    for number in range(count):
        job.collective("send", 2048, ranks=[0, 1])
        source = number % 2
        for row in job.rows[-2:]:
            row |= {"source": source, "destination": 1 - source, "sequence": number}
            row["type"] = row["name"] = "send" if row["rank"] == source else "recv"
    return job.frame()


def test_sends_meet_receives_in_the_order_of_each_pair() -> None:
    job = MadeJob(2, offsets_ns=[0, _DAY_NS])
    found, result = matched(job, pairs(job, 40))
    assert result == (0, 0, 80)
    assert found.collectives.get_column("type").unique().to_list() == ["send_recv"]
    assert found.collectives.get_column("agrees").all()
    assert found.collectives.get_column("missing").list.len().sum() == 0


def of_steps(frame: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives on the host, ten in a step, which are a day apart by their ends."""
    late = pl.when(pl.col("type") == "send").then(_DAY_NS).otherwise(0)
    return frame.with_columns(
        pl.format("ProfilerStep#{}", pl.col("truth") // 10).cast(frame.schema["step"]).alias("step"),
        pl.lit("cpu").alias("device"),
        (pl.col("end_ns") + late).alias("end_ns"),
    )


@pytest.mark.parametrize(
    ("kept", "matches", "confidence"),
    [
        (pl.lit(value=True), 40, 0.95),
        # Windows begin and end at other steps.
        ((pl.col("rank") == 0) | (pl.col("truth") >= 10), 30, 0.8),
        (
            (pl.col("truth") < 30) & (pl.col("rank") == 0) | (pl.col("truth") >= 10) & (pl.col("rank") == 1),
            20,
            0.8,
        ),
        # A step of which one is lost stays unmatched in that direction.
        ((pl.col("rank") == 0) | (pl.col("truth") != 12), 35, 0.8),
    ],
)
def test_sends_and_receives_on_the_host_meet_by_order_in_steps_that_have_equally_many(
    kept: pl.Expr, matches: int, confidence: float
) -> None:
    job = MadeJob(2, offsets_ns=[0, -_DAY_NS])
    frame = of_steps(pairs(job, 40)).filter(kept)
    found, (wrong, _, _) = matched(job, frame)
    assert wrong == 0
    assert found.collectives.height == matches
    assert found.collectives.get_column("confidence").min() == confidence


def test_sends_and_receives_on_the_host_need_peers_and_equal_sizes() -> None:
    job = MadeJob(2)
    frame = of_steps(pairs(job, 40))
    received = pl.when(pl.col("type") == "recv").then(64).otherwise("out_bytes")
    assert matched(job, frame.with_columns(received.alias("out_bytes")))[0].collectives.is_empty()
    no_peer = pl.lit(None, pl.Int64).alias("source")
    assert matched(job, frame.with_columns(no_peer))[0].collectives.is_empty()
    unstepped = frame.with_columns(pl.lit(None, frame.schema["step"]).alias("step"))
    found, result = matched(job, unstepped)
    assert result == (0, 0, 80)
    assert found.collectives.get_column("confidence").unique().to_list() == [0.7]


def test_a_lost_receive_shifts_no_other() -> None:
    job = MadeJob(2)
    frame = pairs(job, 60)
    frame = frame.filter(~((pl.col("rank") == 1) & pl.col("truth").is_in([4, 17, 18])))
    assert matched(job, frame)[1] == (0, 0, 114)


def test_kernels_of_several_sends_stay_unmatched() -> None:
    job = MadeJob(2)
    for _ in range(10):
        job.collective("send_recv")
    found, _ = matched(job, job.frame())
    assert found.collectives.is_empty()


@pytest.mark.parametrize(("ranks", "matches"), [([0, 1], 10), ([0, 1, 2, 3], 0)])
def test_numbered_kernels_of_several_sends_are_matched_in_a_group_of_two(
    ranks: list[int], matches: int
) -> None:
    job = MadeJob(len(ranks), sequences=True)
    for _ in range(10):
        job.collective("send_recv", ranks=ranks)
    found, (wrong, _, _) = matched(job, job.frame())
    assert wrong == 0
    assert found.collectives.height == matches


def test_members_of_unnamed_groups_are_told_apart_by_their_streams() -> None:
    """Two groups enter equal collectives at the same time, each on a stream of its own."""
    job = MadeJob(2)
    for number in range(60):
        job.collective(gap_ns=None if number % 2 else 0)
    stream = pl.when(pl.col("truth") % 2 == 0).then(pl.lit("24")).otherwise(pl.lit("20"))
    frame = job.frame().with_columns(stream.alias("stream"), pl.lit("cuda:0").alias("device"))
    frame = without_groups(frame).with_columns(pl.lit(None, pl.Int64).alias("group_size"))
    assert matched(job, frame)[1] == (0, 0, 120)
    assert matched(job, frame.with_columns(pl.lit("20").alias("stream")))[1][0] > 0


# --- findings ---------------------------------------------------------------------------------------


def disordered(found: MatchedMembers) -> list[Finding]:
    return [finding for finding in found.findings if finding.code is FindingCode.COLLECTIVES_DISORDERED]


def of_all_types(world: int, count: int, gap_ns: int | None = None, sequences: bool = False) -> MadeJob:
    job = MadeJob(world, sequences=sequences)
    for number in range(count):
        kind = ("all_reduce", "all_gather", "reduce_scatter")[number % 3]
        job.collective(kind, 1024 * (number % 5 + 1), gap_ns=gap_ns)
    return job


def without_groups(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.lit(None, pl.String).alias("process_group"), pl.lit(None, pl.Categorical).alias("group_ranks")
    )


def swapped(frame: pl.DataFrame, rank: int, firsts: Sequence[int]) -> pl.DataFrame:
    """The members of a job of which a rank enters some collectives and their next ones the other way round."""
    kept = ["type", "name", "in_bytes", "out_bytes", "truth"]
    of_rank = frame.filter(pl.col("rank") == rank)
    order = list(range(of_rank.height))
    for first in firsts:
        order[first], order[first + 1] = first + 1, first
    other = of_rank.drop(kept).hstack(of_rank.select(kept)[order].get_columns()).select(frame.columns)
    return pl.concat([frame.filter(pl.col("rank") != rank), other]).sort("rank", "start_ns")


@pytest.mark.parametrize("sequences", [True, False])
def test_collectives_in_another_order_on_a_rank_are_named_and_not_matched(sequences: bool) -> None:
    job = of_all_types(4, 30, sequences=sequences)
    found, (wrong, _, _) = matched(job, swapped(job.frame(), 2, [12, 21]))
    assert wrong == 0
    (finding,) = disordered(found)
    assert finding.details["rank"] == 2
    assert finding.details["others"] == ("0, 1, 3" if sequences else "0")
    assert finding.details["number"] == (13 if sequences else 12)
    assert found.collectives.get_column("agrees").all()


@pytest.mark.parametrize("gap_ns", [16_000, 40_000, 1_000_000])
@pytest.mark.parametrize("world", [2, 4])
def test_another_order_of_the_last_collectives_is_named(world: int, gap_ns: int) -> None:
    job = of_all_types(world, 30, gap_ns)
    (finding,) = disordered(matched(job, swapped(job.frame(), world - 1, [28]))[0])
    assert finding.details["rank"] == world - 1
    assert finding.details["number"] == 28
    assert not disordered(matched(job, job.frame())[0])


@pytest.mark.slow
def test_last_collectives_that_a_rank_lacks_are_in_no_other_order() -> None:
    job = of_all_types(2, 30)
    frame = job.frame()
    for last in range(20, 30):
        assert not disordered(matched(job, frame.filter((pl.col("rank") == 0) | (pl.col("truth") < last)))[0])


@pytest.mark.parametrize(("groups", "findings"), [(0, 1), (1, 1), (2, 0)])
def test_the_order_of_members_that_may_be_of_several_groups_is_free(groups: int, findings: int) -> None:
    job = of_all_types(2, 30, 1_000_000)
    frame = without_groups(swapped(job.frame(), 1, [28]))
    ranks = facts(range(2), 2).with_columns(pl.lit(groups, pl.Int64).alias("groups"))
    assert len(disordered(match_members(frame.drop("truth"), ranks))) == findings


@pytest.mark.parametrize(("groups", "most"), [(1, 0.95), (2, 0.475)])
def test_members_that_may_be_of_several_groups_are_matched_with_less_confidence(
    groups: int, most: float
) -> None:
    job = of_all_types(2, 30)
    frame = without_groups(job.frame())
    found = match_members(frame.drop("truth"), facts(range(2), 2).with_columns(groups=pl.lit(groups)))
    assert agreement(found.members, frame) == (0, 0, 60)
    assert found.collectives.get_column("confidence").max() == pytest.approx(most)


def test_a_rank_of_another_run_of_the_host_is_named_and_left_out() -> None:
    job = MadeJob(3, offsets_ns=[0, 0, -3_600_000_000_000])
    all_reduces(job, 10)
    frame = job.frame()
    spans = frame.group_by("rank").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("rank")
    ranks = facts(range(3), 3).drop("start_ns", "end_ns").join(spans, on="rank")
    ranks = facts(range(3), 3).with_columns(
        ranks.get_column("start_ns"), ranks.get_column("end_ns"), host=pl.lit("a")
    )
    found = match_members(frame.drop("truth"), ranks)
    (finding,) = found.findings
    assert finding.code is FindingCode.RUNS_MIXED
    assert finding.details["rank"] == 2
    assert found.collectives.get_column("ranks").to_list() == [[0, 1]] * 10


def test_different_worlds_and_a_rank_that_communicates_nothing() -> None:
    job = MadeJob(2)
    all_reduces(job, 10)
    ranks = facts(range(3), 2).with_columns(world_size=pl.Series([2, 2, 3]))
    found = match_members(job.frame().drop("truth"), ranks)
    assert codes(found) == [FindingCode.WORLD_DIFFERS, FindingCode.NO_COLLECTIVES]
    assert found.findings[1].details["rank"] == 2
    assert found.collectives.height == 10


def two_by_two(communicators: bool, whole: bool) -> pl.DataFrame:
    """Pairs of ranks that reduce among themselves, as of two runs; `whole`: their groups are of all four."""
    job = MadeJob(4, sequences=True, communicators=communicators)
    for number in range(10):
        for ranks in ([0, 1], [2, 3]):
            job.collective(group="0" if communicators else str(ranks), ranks=ranks, size=1024 * (number + 1))
    frame = job.frame()
    run = pl.concat_str(pl.col("communicator"), pl.col("rank") // 2)
    frame = frame.with_columns(pl.when(pl.lit(value=communicators)).then(run).alias("communicator"))
    return frame.with_columns(pl.lit("[0,1,2,3]", pl.Categorical).alias("group_ranks")) if whole else frame


@pytest.mark.parametrize(
    ("communicators", "whole", "findings"), [(True, True, 1), (True, False, 0), (False, False, 0)]
)
def test_ranks_that_share_nothing_with_others_of_their_group_are_named(
    communicators: bool, whole: bool, findings: int
) -> None:
    found = match_members(two_by_two(communicators, whole).drop("truth"), facts(range(4), 4))
    assert codes(found) == [FindingCode.WINDOW_APART] * findings
    assert [finding.details["ranks"] for finding in found.findings] == ["2, 3"] * findings
    assert set(found.collectives.get_column("ranks").list.len()) == {2}


def _lost(job: MadeJob, ranks: Sequence[int]) -> pl.DataFrame:
    """Repeating collectives at regular intervals, on unrelated clocks, of which some ranks lost the first ones."""
    for _ in range(60):
        job.collective(gap_ns=1_000_000)
    return job.frame().filter(~pl.col("rank").is_in(ranks) | (pl.col("truth") > 3))


def _unclear() -> pl.DataFrame:
    return _lost(MadeJob(2, offsets_ns=[0, _DAY_NS]), [1])


def _met_without() -> pl.DataFrame:
    return _lost(MadeJob(3, offsets_ns=[0, 0, _DAY_NS]), [2])


def _of_other_steps() -> pl.DataFrame:
    job = MadeJob(2, offsets_ns=[0, _DAY_NS])
    for number in range(60):
        job.collective(gap_ns=1_000_000, step=number // 4)
    own = pl.col("truth") < 28
    return job.frame().filter(pl.when(pl.col("rank") == 0).then(own).otherwise(~own))


def _of_ranks_that_were_not_read() -> pl.DataFrame:
    job = MadeJob(2)
    for _ in range(9):
        job.collective(ranks=[0, 7], group="a")
        job.collective(ranks=[1, 6], group="b")
    return job.frame().filter(pl.col("rank") < 2)


def _sends_alone() -> pl.DataFrame:
    """All-reduces that meet, and sends whose peers the trace does not name."""
    job = MadeJob(3, sequences=True)
    for _ in range(20):
        job.collective()
    for _ in range(5):
        job.collective("send_recv")
    return job.frame()


def _sends_to_others() -> pl.DataFrame:
    job = MadeJob(2, sequences=True)
    for number in range(20):
        job.collective()
        job.collective("send")
        for row in job.rows[-2:]:
            row |= {"source": row["rank"], "destination": 5 + number % 2}
    return job.frame()


def _a_third(share: int = 3) -> pl.DataFrame:
    """Numbered collectives, of which one rank has a third."""
    job = MadeJob(2, sequences=True)
    all_reduces(job, 60)
    return job.frame().filter((pl.col("rank") == 0) | (pl.col("truth") % share == 0))


_APART, _OPEN = FindingCode.WINDOW_APART, FindingCode.COLLECTIVES_UNMATCHED


@cases(
    "frame, world, expected",
    {
        # Nothing says that they are of another run or window.
        "unclear": (_unclear, 2, [(_OPEN, 0, 60, 0), (_OPEN, 1, 56, 0)]),
        "the others met": (_met_without, 3, [(_APART, 2, 56, 0)]),
        "other steps": (_of_other_steps, 2, [(_APART, 0, 28, 0), (_APART, 1, 32, 0)]),
        "sends alone": (_sends_alone, 3, [(_OPEN, rank, 5, 0) for rank in range(3)]),
        "less than half": (_a_third, 2, [(_OPEN, 0, 60, 20)]),
        "half": (lambda: _a_third(2), 2, []),
        "ranks that were not read": (_of_ranks_that_were_not_read, 8, []),
        "sends to ranks that were not read": (_sends_to_others, 8, []),
    },
)
def test_what_was_issued_and_not_matched_is_told_with_numbers(
    frame: Callable[[], pl.DataFrame], world: int, expected: list[tuple[FindingCode, int, int, int]]
) -> None:
    members = frame()
    ranks = facts(members.get_column("rank").unique().sort().to_list(), world)
    found = match_members(members.drop("truth"), ranks).findings
    details = [(one.code, *(one.details[name] for name in ("rank", "issued", "matched"))) for one in found]
    assert details == expected


# --- A match by order whose members miss each other on known clocks is taken back; others stay -------


WIDTH_NS = 50_000


def judged(
    gap_ns: int,
    kind: CollectiveType = CollectiveType.ALL_REDUCE,
    by: MatchMethod = MatchMethod.ALIGNED_ORDER,
    clock: ClockMethod = ClockMethod.COLLECTIVES,
) -> tuple[list[int | None], int]:
    """The collectives of two members, of which the later starts that long after the other's end."""
    members = pl.DataFrame(
        {
            "rank": [0, 1],
            "collective": [0, 0],
            "type": [kind.value] * 2,
            "issued_ns": [None, None],
            "start_ns": [0, 1_000 + gap_ns],
            "end_ns": [1_000, 2_000 + gap_ns],
        },
        schema_overrides={"issued_ns": pl.Int64},
    )
    collectives = pl.DataFrame({"collective": [0], "method": [by.value]})
    clocks = pl.DataFrame(
        {
            "rank": [0, 1],
            "method": [ClockMethod.REFERENCE.value, clock.value],
            "offset_low_ns": [0, -WIDTH_NS // 2],
            "offset_high_ns": [0, WIDTH_NS // 2],
        }
    )
    found, left = without_impossible(members, collectives, clocks)
    return found.get_column("collective").to_list(), left.height


@pytest.mark.parametrize("kind", [CollectiveType.ALL_REDUCE, CollectiveType.ALL_TO_ALL])
def test_members_that_miss_each_other_beyond_the_clocks_widths_are_unmatched(kind: CollectiveType) -> None:
    assert judged(SAME_CLOCK_NS + WIDTH_NS + 1, kind) == ([None, None], 0)
    assert judged(SAME_CLOCK_NS + WIDTH_NS, kind) == ([0, 0], 1)


def test_what_numbers_say_or_unknown_clocks_cannot_judge_stays() -> None:
    far = 10**9
    assert judged(far, by=MatchMethod.GROUP_SEQUENCE) == ([0, 0], 1)
    assert judged(far, clock=ClockMethod.UNKNOWN) == ([0, 0], 1)
    assert judged(far, CollectiveType.BROADCAST) == ([0, 0], 1)


@pytest.mark.parametrize(("issued_ns", "left"), [(1_000, 1), (2 * SAME_CLOCK_NS, 0)])
def test_a_receive_ends_behind_the_issue_of_its_send(issued_ns: int, left: int) -> None:
    """A backend of the host may send before the start that it notes."""
    members = pl.DataFrame(
        {
            "rank": [0, 1],
            "collective": [0, 0],
            "type": [CollectiveType.SEND.value, CollectiveType.RECEIVE.value],
            "issued_ns": [issued_ns, 0],
            "start_ns": [10**9, 0],
            "end_ns": [2 * 10**9, 2_000],
        }
    )
    collectives = pl.DataFrame({"collective": [0], "method": [MatchMethod.GROUP_ORDER.value]})
    clocks = pl.DataFrame(
        {
            "rank": [0, 1],
            "method": [ClockMethod.REFERENCE.value, ClockMethod.SAME_HOST.value],
            "offset_low_ns": [0, 0],
            "offset_high_ns": [0, 0],
        }
    )
    assert without_impossible(members, collectives, clocks)[1].height == left


# --- Whether two ranks' members can be of the same collectives: there are clocks by which most  ------


MS = 1_000_000
STEPS = np.arange(9) * 60 * MS


def test_ranks_that_a_busy_machine_wakes_one_after_the_other_meet() -> None:
    """The one waits 50 ms in each, the other is short, and either is the first to be woken in the end."""
    woken = np.random.default_rng(1).integers(0, 2 * MS, 9)
    waiting = (STEPS, STEPS + 50 * MS + woken)
    last = (STEPS + 50 * MS, STEPS + 50 * MS + 100_000)
    far = 3_600_000 * MS
    assert can_meet(waiting, (last[0] + far, last[1] + far))


def test_a_rank_that_ended_before_the_other_started_does_not_meet_it() -> None:
    """The pauses between are each another one, so that no clock makes up for all."""
    pauses = np.random.default_rng(1).integers(1 * MS, 9 * MS, 9).cumsum()
    first = (STEPS, STEPS + MS)
    assert not can_meet(first, (first[0] + pauses, first[1] + pauses))


def test_a_clock_that_drifts_along_a_line_is_no_hindrance() -> None:
    drift = (STEPS * 2e-4).astype(np.int64)
    first = (STEPS, STEPS + 50_000)
    assert can_meet(first, (first[0] + drift, first[1] + drift))
