"""Collectives: who waits for whom, what they transfer, their bandwidths, and the latency and bandwidth that fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from tests.cases import cases
from tests.planted.members import answers_of_ranks, linked_ranks, member
from tracebraid.analysis.collectives.transfers import UNKNOWN_GROUP, waits
from tracebraid.model.collectives import CollectiveType, TransferMethod
from tracebraid.model.linked_ranks import LinkedRanks

collectives, collective_bandwidth, collective_totals, collective_imbalance, collective_fit = answers_of_ranks(
    "collectives", "collective_bandwidth", "collective_totals", "collective_imbalance", "collective_fit"
)

UNKNOWN: Mapping[str, object] = {"method": "unknown"}


def measured(offset_width: int, host: str = "b") -> dict[str, object]:
    """A clock of another host, known to an interval."""
    return {
        "host": host,
        "method": "collectives",
        "offset_ns": 0,
        "offset_low_ns": 0,
        "offset_high_ns": offset_width,
    }


REFERENCE = {"host": "a", "method": "reference", "offset_ns": 0, "offset_low_ns": 0, "offset_high_ns": 0}


def parts(
    rows: Sequence[Mapping[str, object]], clocks: Mapping[int, Mapping[str, object]] | None = None
) -> list[tuple[object, ...]]:
    """Waiting, transfer, rest and whom it waited for, of each rank."""
    found = waits(linked_ranks(rows, clocks))
    assert found.get_column("dur_ns").equals(
        (pl.select(found["waiting_ns"].fill_null(0) + found["transfer_ns"] + found["rest_ns"])).to_series()
    )
    return found.select("waiting_ns", "transfer_ns", "rest_ns", "waited_for").rows()


def test_all_wait_for_the_last_that_arrives() -> None:
    found = waits(linked_ranks([member(0, 100, 190), member(1, 150, 200), member(2, 120, 195)]))
    assert found.get_column("late_by_ns").to_list() == [0, 50, 20]
    assert set(found.get_column("method")) == {TransferMethod.LAST_ARRIVAL.value}
    assert found.get_column("clock_width_ns").to_list() == [0, 0, 0]


@pytest.mark.parametrize("clock", [UNKNOWN, measured(61), {"host": "b", "method": "collectives"}])
def test_where_clocks_are_not_known_the_shortest_member_is_the_transfer(clock: Mapping[str, object]) -> None:
    # The clock of rank 1 is far off: it is the last to arrive, since it is there for the shortest time.
    rows, clocks = [member(0, 100, 200), member(1, 9_000, 9_060)], {0: REFERENCE, 1: clock}
    assert parts(rows, clocks) == [(40, 60, 0, 1), (0, 60, 0, None)]
    found = waits(linked_ranks(rows, clocks))
    assert set(found.get_column("method")) == {TransferMethod.SHORTEST_MEMBER.value}
    assert found.get_column("late_by_ns").to_list() == [0, 40]


SENDS = {"type": "broadcast", "source": 0, "group_size": 3}
RECEIVES = {"type": "reduce", "source": 0, "group_size": 3}
SAME_HOST = {rank: {"host": "b", "method": "unknown"} for rank in (0, 1)}
BETTER = {0: REFERENCE, 1: measured(60)}


@cases(
    "spans, columns, clocks, expected",
    {
        "the last to arrive is waited for": (
            [(100, 190), (150, 200), (120, 195)],
            {},
            None,
            [(50, 40, 0, 1), (0, 50, 0, None), (30, 45, 0, 1)],
        ),
        "all at once": ([(100, 190)] * 2, {}, None, [(0, 90, 0, None)] * 2),
        "the lowest of those that arrive last": (
            [(100, 200), (150, 200), (150, 200)],
            {},
            None,
            [(50, 50, 0, 1), (0, 50, 0, None), (0, 50, 0, None)],
        ),
        "a clock better known than the shortest member": (
            [(100, 200), (150, 210)],
            {},
            BETTER,
            [(50, 50, 0, 1), (0, 60, 0, None)],
        ),
        "a host whose clock is unknown against others": (
            [(100, 200), (150, 200)],
            {},
            SAME_HOST,
            [(50, 50, 0, 1), (0, 50, 0, None)],
        ),
        "an end before another begins contradicts the clocks": (
            [(100, 200), (250, 310)],
            {},
            None,
            [(40, 60, 0, 1), (0, 60, 0, None)],
        ),
        # The first receiver is there before the root: the root has no rest.
        "a broadcast": (
            [(140, 200), (100, 190), (170, 210)],
            SENDS,
            None,
            [(0, 60, 0, None), (40, 50, 0, 0), (0, 40, 0, None)],
        ),
        "an early root": (
            [(50, 200), (100, 190), (170, 210)],
            SENDS,
            None,
            [(0, 100, 50, None), (0, 90, 0, None), (0, 40, 0, None)],
        ),
        "a reduce waits at its root": (
            [(100, 200), (130, 180), (80, 190)],
            RECEIVES,
            None,
            [(30, 70, 0, 1), (0, 50, 0, None), (0, 90, 20, None)],
        ),
        "a broadcast without its root waits for nobody known": (
            [(100, 200), (150, 200)],
            {"type": "broadcast"},
            None,
            [(50, 50, 0, None), (0, 50, 0, None)],
        ),
        "an end before its start": ([(100, 90), (80, 120)], {}, None, [(0, 0, 0, None), (20, 20, 0, 0)]),
        "a damaged member of no duration is not the shortest": (
            [(100, 200), (140, 200), (9_000, 9_000)],
            {},
            None,
            [(40, 60, 0, 1), (0, 60, 0, None), (0, 0, 0, None)],
        ),
    },
)
def test_waiting_transfer_and_rest(
    spans: list[tuple[int, int]],
    columns: dict[str, object],
    clocks: dict[int, dict[str, object]] | None,
    expected: list[tuple[object, ...]],
) -> None:
    rows = [member(rank, *span, **columns) for rank, span in enumerate(spans)]
    assert parts(rows, clocks) == expected


@cases(
    "send, ends, expected",
    {
        "late": (
            member(0, 150, 200, type="send", destination=1),
            {"source": 0},
            [(0, 50, 0, None), (50, 55, 0, 0)],
        ),
        "early": (member(0, 60, 200, type="send"), {}, [(0, 100, 40, None), (0, 105, 0, None)]),
    },
)
def test_a_receive_waits_for_its_send(
    send: dict[str, object], ends: dict[str, object], expected: list[tuple[object, ...]]
) -> None:
    assert parts([send, member(1, 100, 205, type="recv", **ends)]) == expected


@pytest.mark.parametrize(
    ("send", "receive", "expected"),
    [
        # The send's range lasts until its caller waits for it.
        ((100, 110, 900), (50, 200), [(0, 100, 690, None), (50, 100, 0, 0)]),
        # It began after its message had gone.
        ((100, 300, 900), (50, 200), [(0, 100, 500, None), (50, 100, 0, 0)]),
        # It was buffered, and had ended before the receive began.
        ((100, 110, 120), (150, 200), [(0, 10, 0, None), (0, 50, 0, None)]),
    ],
)
def test_a_receive_on_the_host_waits_for_the_issue_of_its_send(
    send: tuple[int, int, int], receive: tuple[int, int], expected: list[tuple[object, ...]]
) -> None:
    issued, *span = send
    rows = [
        member(0, *span, type="send", destination=1, device="cpu", issued_ns=issued),
        member(1, *receive, type="recv", source=0, device="cpu", issued_ns=receive[0]),
    ]
    assert parts(rows) == expected
    (row,) = collectives(linked_ranks(rows)).to_dicts()
    assert row["transfer_ns"] == expected[1][1]


def test_receivers_whose_root_is_not_there_may_have_waited_for_it() -> None:
    sends = {"type": "broadcast", "source": 7, "group_size": 3}
    rows = [member(0, 100, 200, **sends), member(1, 150, 200, **sends)]
    assert parts(rows) == [(None, 100, 0, None), (None, 50, 0, None)]
    found = waits(linked_ranks(rows))
    assert set(found.get_column("method")) == {TransferMethod.DURATION.value}
    assert found.get_column("is_bound").all()


@pytest.mark.parametrize(("size", "waiting", "bound"), [(2, None, True), (1, 0, False), (None, None, None)])
def test_a_single_member_bounds_the_transfer(
    size: int | None, waiting: int | None, bound: bool | None
) -> None:
    for collective in (None, 0):
        found = waits(linked_ranks([member(3, 100, 200, collective, group_size=size)]))
        assert found.select("waiting_ns", "transfer_ns", "is_bound").rows() == [(waiting, 100, bound)]


@pytest.mark.parametrize(
    ("every", "size", "bound"),
    [("[0,1,2]", 3, True), ("[0,1]", 2, False), (None, 3, True), (None, 2, False), (None, None, None)],
)
def test_the_transfer_is_a_bound_where_a_rank_is_missing(
    every: str | None, size: int | None, bound: bool | None
) -> None:
    given = {"group_ranks": every, "group_size": size}
    found = waits(linked_ranks([member(0, 100, 200, **given), member(1, 150, 200, **given)]))
    assert found.get_column("is_bound").to_list() == [bound, bound]


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
    assert found.select(names).rows() == [(0, [0, 1, 2], 100, 150, 200, 1), (None, [2], 300, 300, 310, None)]
    assert found.select("transfer_ns", "waiting_ns", "rest_ns").rows() == [(50, 80, 0), (10, None, 0)]
    assert found.select("method", "confidence").row(1) == (None, None)


def test_rows_are_by_the_group_that_is_the_same_on_all_ranks() -> None:
    named: dict[str, object] = {"group": "pg ranks 0,1"}
    rows = [
        member(0, 0, 10, **named),
        member(1, 5, 10, **named, process_group="renamed"),
        member(1, 20, 30, None, **named),
        member(1, 40, 50, None, process_group="other"),
        member(1, 60, 70, None, process_group=None),
    ]
    found = collective_totals(linked_ranks(rows))
    assert found.select("rank", "group", "count", "waiting_ns", "caused_ns").rows() == [
        (0, "pg ranks 0,1", 1, 5, 0),
        (1, "other", 1, None, None),
        (1, "pg ranks 0,1", 2, 0, 5),
        (1, UNKNOWN_GROUP, 1, None, None),
    ]
    assert found.get_column("waiting_share").to_list() == [0.5, None, 0.0, None]


def exchange(rank: int, given: str | None, got: str | None, **columns: object) -> dict[str, object]:
    """A member of an all-to-all of three ranks, 10, 11 and 12; a part is of 4 bytes."""
    sizes = (
        sum(int(part) for part in text.strip("[]").split(",")) * 4 if text else 24 for text in (given, got)
    )
    in_bytes, out_bytes = sizes
    return member(
        rank,
        0,
        100,
        type="all_to_all",
        group_size=3,
        group_ranks="[10,11,12]",
        **{"in_split": given, "out_split": got, "in_bytes": in_bytes, "out_bytes": out_bytes, **columns},
    )


ROWS = [
    exchange(10, "[1, 5, 0]", "[1, 2, 3]"),
    exchange(11, "[2, 10, 0]", "[5, 10, 3]"),
    exchange(12, "[3, 3, 0]", "[0, 0, 0]"),
]


@cases(
    "rows, expected",
    {
        "all ranks": (ROWS, (11, 18 * 4, 18 / 8, 11, 12 * 4, 12 / 8, True)),
        # Of missing ranks, what the others exchange with them.
        "one rank": (ROWS[:1], (11, 5 * 4, 5 / 2, 12, 3 * 4, 3 / 2, True)),
        "nothing sent": (
            [exchange(rank, "[0, 0, 0]", "[0, 0, 0]") for rank in (10, 11, 12)],
            (10, 0, None, 10, 0, None, True),
        ),
        # Without splits each rank says what it gives and gets itself, if all are there.
        "totals": (
            [{**row, "in_split": None, "out_split": None} for row in ROWS],
            (11, 18 * 4, 18 / 8, 11, 12 * 4, 12 / 8, True),
        ),
        "equal parts": (
            [exchange(10, None, None, in_split="[]", out_split="[]")],
            (10, 8, 1.0, 10, 8, 1.0, False),
        ),
        "totals of one rank": (
            [exchange(10, None, None, out_split="[]")],
            (None, None, None, 10, 8, 1.0, None),
        ),
    },
)
def test_the_rank_that_gets_and_the_one_that_gives_the_most(
    rows: list[dict[str, object]], expected: tuple[object, ...]
) -> None:
    found = collective_imbalance(linked_ranks(rows)).row(0, named=True)
    names = [f"{side}_{name}" for side in ("received", "sent") for name in ("most", "max_bytes", "imbalance")]
    assert tuple(found[name] for name in (*names, "is_uneven")) == pytest.approx(expected)
    if rows is ROWS:
        assert found["received_mean_bytes"] == pytest.approx(24 * 4 / 3)


@pytest.mark.parametrize("split", [None, "[]", "nonsense", "[1, x]", "[-1, 2, 3]"])
def test_ranks_of_equal_totals_have_the_same(split: str | None) -> None:
    rows = [{**row, "in_split": split, "out_split": split, "in_bytes": 24, "out_bytes": 24} for row in ROWS]
    found = collective_imbalance(linked_ranks(rows)).row(0, named=True)
    assert found["is_uneven"] is (False if split == "[]" else None)
    assert (found["received_imbalance"], found["sent_imbalance"]) == (1.0, 1.0)


def test_unknown_sizes_and_other_collectives_are_left_out() -> None:
    rows = [exchange(10, None, None, in_bytes=None, out_bytes=None), member(11, 0, 9, 1, in_bytes=8)]
    assert collective_imbalance(linked_ranks(rows)).is_empty()


def test_what_is_most_beyond_the_mean_comes_first() -> None:
    even = [{**exchange(rank, None, None), "collective": 1} for rank in (10, 11, 12)]
    assert collective_imbalance(linked_ranks([*even, *ROWS])).get_column("collective").to_list() == [0, 1]


ALPHA, BETA = 20_000.0, 10e9
SIZES = [1 << power for power in range(10, 27, 2)]


def ranks_of(sizes: Sequence[int], time_of: Callable[[int, int], float], **columns: object) -> LinkedRanks:
    """All-reduces of two ranks of these sizes; `time_of` takes the number and the size."""
    rows, start = [], 0
    for number, size in enumerate(sizes):
        end = start + round(time_of(number, size))
        rows += [
            member(rank, start, end, number, in_bytes=size, out_bytes=size, **columns) for rank in (0, 1)
        ]
        start = end + 1000
    return linked_ranks(rows)


def line(_: int, size: int) -> float:
    return ALPHA + size / BETA * 1e9


def test_exact_times_give_alpha_and_beta() -> None:
    found = collective_fit(ranks_of(SIZES, line)).row(0, named=True)
    assert found["alpha_ns"] == pytest.approx(ALPHA, rel=1e-3)
    assert found["beta_bytes_per_s"] == pytest.approx(BETA, rel=1e-3)
    assert found["r_squared"] == pytest.approx(1.0)
    assert (found["count"], found["sizes"], found["is_bound"]) == (len(SIZES), len(SIZES), False)


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_times_far_off_and_noise_of_5_percent_leave_it_within_10_percent(seed: int) -> None:
    random = np.random.default_rng(seed)
    noise = 1 + 0.05 * random.standard_normal(len(SIZES) * 20)
    noise[::10] *= 8

    def noisy(number: int, size: int) -> float:
        return line(number, size) * float(noise[number])

    found = collective_fit(ranks_of(SIZES * 20, noisy)).row(0, named=True)
    assert found["alpha_ns"] == pytest.approx(ALPHA, rel=0.1)
    assert found["beta_bytes_per_s"] == pytest.approx(BETA, rel=0.1)
    assert found["alpha_low_ns"] < found["alpha_ns"] < found["alpha_high_ns"]
    assert found["beta_low_bytes_per_s"] < found["beta_bytes_per_s"] < found["beta_high_bytes_per_s"]


@pytest.mark.full
@pytest.mark.slow
def test_the_truth_is_in_its_interval_in_nine_of_ten_cases_at_least() -> None:
    inside = np.zeros(2)
    for seed in range(60):
        noise = 1 + 0.05 * np.random.default_rng(seed).standard_normal(len(SIZES) * 5)
        ranks = ranks_of(SIZES * 5, lambda number, size, by=noise: line(number, size) * float(by[number]))  # type: ignore[misc]
        found = collective_fit(ranks).row(0, named=True)
        inside += [
            found["alpha_low_ns"] <= ALPHA <= found["alpha_high_ns"],
            found["beta_low_bytes_per_s"] <= BETA <= found["beta_high_bytes_per_s"],
        ]
    assert (inside >= 0.9 * 60).all()


@cases("sizes, fits", {"one size": ([1024] * 5, False), "two collectives": ([1024, 1 << 20], True)})
def test_few_sizes_give_a_line_without_intervals_or_none(sizes: list[int], fits: bool) -> None:
    found = collective_fit(ranks_of(sizes, line)).row(0, named=True)
    assert (found["count"], found["sizes"]) == (len(sizes), len(set(sizes)))
    assert found["beta_bytes_per_s"] == (pytest.approx(BETA, rel=1e-3) if fits else None)
    assert (found["alpha_ns"] is None, found["r_squared"] is None) == (not fits, not fits)
    assert found["alpha_low_ns"] is found["beta_high_bytes_per_s"] is None


@cases(
    "time_of, has_bandwidth",
    {
        "shorter with the size": (lambda _, size: 1e9 / size, False),
        "all alike": (lambda *_: 5_000.0, False),
        "a line from below 0": (lambda _, size: (size / 1024) ** 1.3 * 100, True),
    },
)
def test_alpha_is_never_below_0_and_only_growing_times_have_a_bandwidth(
    time_of: Callable[[int, int], float], has_bandwidth: bool
) -> None:
    found = collective_fit(ranks_of(SIZES, time_of)).row(0, named=True)
    assert found["alpha_ns"] >= 0 if has_bandwidth else found["alpha_ns"] > 0
    assert has_bandwidth == (found["beta_bytes_per_s"] is not None)


def test_unknown_sizes_and_no_time_are_left_out() -> None:
    assert collective_fit(linked_ranks([member(0, 0, 100), member(1, 0, 100)])).is_empty()
    assert collective_fit(ranks_of([8, 16], lambda *_: 0)).is_empty()


def test_transfers_that_may_hold_waiting_are_fitted_only_where_nothing_else_is_there() -> None:
    exact = ranks_of(SIZES, line)
    bound = [member(0, 10**9, 2 * 10**9, None, in_bytes=99, out_bytes=99)]
    rows = [*exact.members.to_dicts(), *bound]
    found = collective_fit(linked_ranks(rows)).row(0, named=True)
    assert (found["count"], found["is_bound"]) == (len(SIZES), False)
    alone = exact.members.filter(pl.col("rank") == 0).to_dicts()
    found = collective_fit(linked_ranks(alone)).row(0, named=True)
    assert (found["count"], found["is_bound"]) == (len(SIZES), True)
