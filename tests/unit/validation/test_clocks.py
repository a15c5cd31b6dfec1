"""Are clocks that disagree seen where a collective ended before another rank began it, and only there?"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, kernel, op
from tests.unit.linking.made import linked_of
from tests.unit.validation.made import codes, lay, step
from tracebraid.api import check
from tracebraid.validation.clocks import collective_clock_findings, collectives_of

SCHEMA = {"key": pl.String, "number": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}


def nccl(name: str, ts: float, dur: float, group: str | None = "0", correlation: int = 1) -> Json:
    args: Json = {"Collective name": name, **({} if group is None else {"Process Group Name": group})}
    return kernel(f"ncclDevKernel_{name}", ts, dur, correlation, **args)


def gloo(name: str, ts: float, dur: float, **more: Any) -> Json:
    return op(f"gloo:{name}", ts, dur, tid=9, cat="user_annotation", **more)


def found_in(*events: Json) -> list[tuple[Any, ...]]:
    return collectives_of(linked_of([op("aten::mm", 0, 1), *events]).timeline).rows()


def frame(*spans: tuple[int, int], key: str = "0/allreduce") -> pl.DataFrame:
    rows = [(key, number, start, end) for number, (start, end) in enumerate(spans)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


# --- which events are collectives -------------------------------------------------------------------


def test_collectives_are_numbered_by_group_and_name_in_the_order_of_their_starts() -> None:
    events = [
        nccl("allreduce", 30, 5),
        nccl("allreduce", 10, 5),
        nccl("allreduce", 20, 5, "tp"),
        nccl("_allgather_base", 40, 5),
    ]
    assert found_in(*events) == [
        ("0/allreduce", 0, 10_000, 15_000),
        ("tp/allreduce", 0, 20_000, 25_000),
        ("0/allreduce", 1, 30_000, 35_000),
        ("0/_allgather_base", 0, 40_000, 45_000),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "allreduce",
        "all_reduce",
        "_allgather_base",
        "reduce_scatter",
        "_reduce_scatter_base",
        "all_to_allv",
        "barrier",
    ],
)
def test_what_waits_for_all_ranks_is_taken(name: str) -> None:
    assert [row[0] for row in found_in(nccl(name, 1, 2))] == [f"0/{name}"]
    assert [row[0] for row in found_in(gloo(name, 1, 2))] == [f"gloo:{name}"]


@pytest.mark.parametrize("name", ["broadcast", "send", "recv", "reduce", "gather", "scatter"])
def test_what_some_ranks_may_leave_early_is_not(name: str) -> None:
    assert found_in(nccl(name, 1, 2), gloo(name, 1, 2)) == []


def test_a_kernel_that_is_no_collective_is_not_taken() -> None:
    assert found_in(kernel("all_reduce_of_mine", 1, 2, 3)) == []


def test_an_operator_that_never_finished_has_no_end_to_compare() -> None:
    assert found_in(gloo("all_reduce", 1, 2, finished=False)) == []
    assert len(found_in(gloo("all_reduce", 1, 2, finished=True), gloo("all_reduce", 4, 2))) == 2


# --- who ended before whom began --------------------------------------------------------------------


@pytest.mark.parametrize(("gap_ns", "said"), [(-5, False), (0, False), (100_000, False), (100_001, True)])
def test_a_gap_of_more_than_the_tolerance_shows_clocks_that_differ(gap_ns: int, said: bool) -> None:
    early, late = frame((1000, 2000)), frame((2000 + gap_ns, 900_000))
    assert codes(collective_clock_findings({0: early, 1: late}, "job")) == ["clocks-differ"] * said


def test_the_widest_gap_is_told_with_its_ranks_and_its_place() -> None:
    ranks = {
        0: frame((0, 10), (5_000_000, 5_000_010)),
        1: frame((0, 10), (9_000_000, 9_000_010)),
        2: frame((300_000, 300_010), (6_000_000, 6_000_010)),
    }
    (found,) = collective_clock_findings(ranks, "job")
    assert found.path == "job"
    assert "at least 4.000 ms: 0/allreduce number 1 ended on rank 0 before rank 1 began it" in found.message


@pytest.mark.parametrize("ranks", [{}, {0: frame((0, 1))}, {0: frame((0, 1)), 1: frame()}], ids=len)
def test_one_rank_alone_has_nothing_to_compare(ranks: dict[int, pl.DataFrame]) -> None:
    assert collective_clock_findings(ranks, "job") == []


def test_collectives_whose_number_differs_between_ranks_cannot_be_matched() -> None:
    ranks = {0: frame((0, 1)), 1: frame((9_000_000, 9_000_001), (9_100_000, 9_100_001))}
    assert collective_clock_findings(ranks, "job") == []


def test_collectives_of_some_ranks_alone_are_left_out() -> None:
    ranks = {0: frame((0, 1)), 1: frame((9_000_000, 9_000_001)), 2: frame((0, 1), key="tp/allreduce")}
    assert collective_clock_findings(ranks, "job") == []


# --- in a whole capture -----------------------------------------------------------------------------

WORLD = {"world_size": 4, "pg_count": 3, "backend": "gloo"}
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]},
    {"pg_name": "1", "pg_desc": "stage 0", "pg_size": 2, "ranks": [0, 1]},
    {"pg_name": "2", "pg_desc": "stage 1", "pg_size": 2, "ranks": [2, 3]},
]


def test_a_rank_whose_clock_is_off_is_found_by_its_collectives(tmp_path: Any) -> None:
    for rank, begins in enumerate((100, 900)):
        events = [step(1), op("aten::mm", 0, 1), gloo("all_reduce", begins, 50)]
        lay(tmp_path, rank, events, None, {"world_size": 2})
    assert codes(check(tmp_path)) == ["clocks-differ"]


def test_what_steps_have_shown_is_not_said_again_by_collectives(tmp_path: Any) -> None:
    for rank in (0, 1):
        events = [step(1, 9000 * rank), gloo("all_reduce", 9000 * rank, 50)]
        lay(tmp_path, rank, events, None, {"world_size": 2})
    (found,) = check(tmp_path).diagnoses
    assert "ProfilerStep#1 of rank 1 begins" in found.finding.message


def test_groups_that_wait_for_their_own_ranks_alone_are_not_compared_by_one_name(tmp_path: Any) -> None:
    """Two stages of a pipeline: the second one's all-reduce begins when the first one's is long over.

    Gloo's operators carry no group, so that those of several groups cannot be told apart.
    """
    for rank in range(4):
        begins = 100 if rank < 2 else 900
        events = [step(1), op("aten::mm", 0, 1), gloo("all_reduce", begins, 50)]
        lay(tmp_path, rank, events, None, {**WORLD, "rank": rank, "pg_config": GROUPS})
    assert codes(check(tmp_path)) == []


def test_kernels_that_tell_no_group_are_not_taken_for_one_group(tmp_path: Any) -> None:
    for rank in range(4):
        begins = 100 if rank < 2 else 900
        events = [step(1), op("aten::mm", 0, 2000), nccl("allreduce", begins, 50, None)]
        lay(tmp_path, rank, events, None, {**WORLD, "backend": "nccl", "pg_config": GROUPS})
    assert "clocks-differ" not in codes(check(tmp_path))
