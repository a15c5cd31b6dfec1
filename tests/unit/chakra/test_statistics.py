"""What `.et` files hold, in numbers."""

from __future__ import annotations

from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tracebraid.chakra.statistics import job_stats, rank_stats


def test_a_rank_is_counted() -> None:
    nodes = [
        compute(0, us=100, is_cpu_op=True, kind="op", duration_ns=99_700),
        compute(1, 0, us=30, kind="kernel"),
        compute(2, 0, us=40, kind="kernel"),
        collective(3, 1, 2, size=1000, group="2", duration_micros=7),
        collective(4, 3, size=24, comm_type="BARRIER"),
        send(5, 0, to=1, size=8),
        receive(6, 0, source=1, size=16),
        compute(7, 8),
        compute(8, 7),
    ]
    stats = rank_stats(rank_of(3, nodes))
    (row,) = stats.ranks.to_dicts()
    assert row == {
        "rank": 3,
        "nodes": 9,
        "data_deps": 9,
        "ctrl_deps": 0,
        "never_run": 2,
        "host_us": 100,
        "compute_us": 72,
        "communication_us": 10,
        "communication_bytes": 1048,
        "depth": 4,
        "chain_us": 148,
        "widest": 4,
    }
    assert [row for row in stats.nodes.rows() if row[1] == "COMP_NODE"] == [
        (3, "COMP_NODE", None, 2, 2, None),
        (3, "COMP_NODE", "kernel", 2, 70, None),
        (3, "COMP_NODE", "op", 1, 100, 99_700),
    ]
    assert stats.communication.select("type", "pg_name", "nodes", "size_bytes").rows() == [
        ("ALL_REDUCE", "2", 1, 1000),
        ("BARRIER", None, 1, 24),
        ("COMM_RECV_NODE", None, 1, 16),
        ("COMM_SEND_NODE", None, 1, 8),
    ]


def test_all_ranks_are_summed_and_chains_are_the_longest() -> None:
    ranks = [rank_of(0, [compute(0, us=5)]), rank_of(1, [compute(0, us=2), collective(1, 0), compute(2, 1)])]
    stats = job_stats([rank_stats(rank) for rank in ranks])
    assert stats.ranks.select("rank", "nodes", "compute_us", "depth", "chain_us").rows() == [
        (0, 1, 5, 1, 5),
        (1, 3, 3, 3, 4),
        (None, 4, 8, 3, 5),
    ]
    assert stats.communication.rows() == [
        (1, "ALL_REDUCE", None, None, 1, 1024),
        (None, "ALL_REDUCE", None, None, 1, 1024),
    ]


def test_a_file_without_nodes_has_numbers_too() -> None:
    (row,) = rank_stats(rank_of(0, [])).ranks.to_dicts()
    assert set(row.values()) == {0}
