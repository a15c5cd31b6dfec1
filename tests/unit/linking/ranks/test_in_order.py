"""Are matched collectives in the order of starts, whatever the hosts' clocks say?"""

from __future__ import annotations

import polars as pl

from tests.planted import Host, WidePlan, wide_job
from tracebraid.linking.ranks.link_ranks import link_ranks

DAY_NS = 86_400 * 10**9


def test_collectives_are_numbered_in_the_order_of_aligned_starts() -> None:
    """Host a is a day behind; where its rank lost a collective, its own start is a day later."""
    hosts = Host("a", -DAY_NS), Host("b"), Host("c", 5)
    job = wide_job(WidePlan(6, 60, hosts, groups=(tuple(range(6)), (2, 3, 4, 5)), lost=0.2))
    linked = link_ranks(job.parts())
    matched = linked.members.drop_nulls("collective")
    starts = matched.group_by("collective").agg(pl.col("start_ns").min()).sort("collective")
    assert starts.get_column("start_ns").is_sorted()
    assert starts.get_column("collective").to_list() == linked.collectives.get_column("collective").to_list()
    for (_,), group in linked.collectives.partition_by("group", as_dict=True).items():
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
