"""Sizes and bandwidths of collectives, by nccl-tests' formulas."""

from __future__ import annotations

import pytest

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.collective_bandwidth import collective_bandwidth
from tracebraid.analysis.collectives.collectives import collectives
from tracebraid.model.collectives.codes import CollectiveType

MB = 1_000_000


@pytest.mark.parametrize(
    ("kind", "given", "got", "size", "factor"),
    [
        ("all_reduce", MB, MB, MB, 1.5),
        ("all_gather", MB, 4 * MB, 4 * MB, 0.75),
        ("all_gather", MB, None, 4 * MB, 0.75),
        ("reduce_scatter", 4 * MB, MB, 4 * MB, 0.75),
        ("reduce_scatter", None, MB, 4 * MB, 0.75),
        ("all_to_all", MB, MB, MB, 0.75),
        ("gather", MB, 4 * MB, 4 * MB, 0.75),
        ("gather", MB, 0, 4 * MB, 0.75),
        ("scatter", 4 * MB, MB, 4 * MB, 0.75),
        ("broadcast", MB, MB, MB, 1.0),
        ("reduce", MB, None, MB, 1.0),
        ("send_recv", MB, MB, MB, 1.0),
    ],
)
def test_size_and_factor_of_each_type(
    kind: str, given: int | None, got: int | None, size: int, factor: float
) -> None:
    # 4 ranks, of which two are there: 1 ms from the last arrival on.
    columns = {"type": kind, "group_size": 4, "in_bytes": given, "out_bytes": got, "source": 0}
    rows = [member(0, 0, 1_500_000, **columns), member(1, 500_000, 1_500_000, **columns)]
    found = collectives(linked_ranks(rows)).row(0, named=True)
    assert (found["size_bytes"], found["transfer_ns"]) == (size, 1_000_000)
    assert found["algorithm_bytes_per_s"] == pytest.approx(size * 1e3)
    assert found["bus_bytes_per_s"] == pytest.approx(size * 1e3 * factor)


def test_every_type_has_a_size_but_a_barrier() -> None:
    for kind in CollectiveType:
        found = collectives(linked_ranks([member(0, 0, 10, type=kind.value, in_bytes=8, out_bytes=8)]))
        assert (found.item(0, "size_bytes") is None) == (kind is CollectiveType.BARRIER)


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        ({"in_bytes": None, "out_bytes": None}, 100),
        ({"type": None, "in_bytes": 8}, 100),
        ({"in_bytes": 8, "out_bytes": 8}, 0),
        ({"in_bytes": 8, "out_bytes": 8, "group_size": None}, 100),
        ({"in_bytes": 8, "out_bytes": 8, "group_size": 0}, 100),
        ({"in_bytes": -8, "out_bytes": -8}, 100),
    ],
)
def test_what_is_unknown_has_no_bandwidth(columns: dict[str, object], end: int) -> None:
    ranks = linked_ranks([member(0, 0, end, **columns), member(1, 0, end, **columns)])
    assert collectives(ranks).get_column("bus_bytes_per_s").null_count() == 1
    found = collective_bandwidth(ranks, peak_bandwidth=1e9)
    assert found.select("bus_bytes_per_s", "peak_share").row(0) == (None, None)


def test_alike_collectives_are_together_and_the_median_counts() -> None:
    rows = []
    for number, transfer in enumerate((1_000_000, 1_000_000, 9_000_000)):
        start = number * 20_000_000
        columns = {"in_bytes": MB, "out_bytes": MB, "step": f"ProfilerStep#{number // 2}"}
        rows += [
            member(0, start, start + 500_000 + transfer, number, **columns),
            member(1, start + 500_000, start + 500_000 + transfer, number, **columns),
        ]
    found = collective_bandwidth(linked_ranks(rows), peak_bandwidth=4e9).row(0, named=True)
    assert (found["count"], found["bounds"], found["transfer_ns"]) == (3, 0, 11_000_000)
    assert (found["transfer_median_ns"], found["transfer_max_ns"]) == (1_000_000, 9_000_000)
    assert found["algorithm_bytes_per_s"] == pytest.approx(1e9)
    assert found["peak_share"] == pytest.approx(0.25)
    assert found["waiting_share"] == pytest.approx(1_500_000 / 23_500_000)
    by_step = collective_bandwidth(linked_ranks(rows), per_step=True)
    assert by_step.select("step", "count").rows() == [("ProfilerStep#0", 2), ("ProfilerStep#1", 1)]
    assert by_step.get_column("peak_share").null_count() == 2


def test_algorithms_and_sizes_are_apart_and_the_most_time_comes_first() -> None:
    columns: tuple[dict[str, object], ...] = (
        {"algorithm": "RING", "in_bytes": 8},
        {"algorithm": "TREE", "in_bytes": 8},
        {"in_bytes": 9},
    )
    rows = [
        member(rank, number * 1000, number * 1000 + 100 + number, number, **given)
        for number, given in enumerate(columns)
        for rank in (0, 1)
    ]
    found = collective_bandwidth(linked_ranks(rows))
    assert found.select("algorithm", "size_bytes", "transfer_ns").rows() == [
        (None, 9, 102),
        ("TREE", 8, 101),
        ("RING", 8, 100),
    ]


def test_a_collective_says_who_was_last_and_what_all_wait_together() -> None:
    rows = [member(0, 100, 190), member(1, 150, 200), member(2, 120, 195), member(2, 300, 310, None)]
    found = collectives(linked_ranks(rows))
    names = ("collective", "ranks", "first_arrival_ns", "last_arrival_ns", "end_ns", "last_rank")
    assert found.select(names).rows() == [
        (0, [0, 1, 2], 100, 150, 200, 1),
        (None, [2], 300, 300, 310, None),
    ]
    assert found.select("transfer_ns", "waiting_ns", "rest_ns").rows() == [(50, 80, 0), (10, None, 0)]
    assert found.select("method", "confidence").row(1) == (None, None)
