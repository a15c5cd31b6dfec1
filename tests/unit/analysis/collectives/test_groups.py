"""The group of members that match no other."""

from __future__ import annotations

import polars as pl

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.collective_totals import collective_totals
from tracebraid.analysis.collectives.transfers import UNKNOWN_GROUP
from tracebraid.model.linked_ranks import LinkedRanks


def test_it_is_that_of_the_ranks_others_of_the_process_group() -> None:
    rows = [
        member(0, 0, 10),
        member(1, 5, 10),
        member(1, 20, 30, None),
        member(1, 40, 50, None, process_group="other"),
        member(1, 60, 70, None, process_group=None),
    ]
    ranks = linked_ranks(rows)
    named = ranks.collectives.with_columns(pl.lit("pg ranks 0,1").alias("group"))
    found = collective_totals(LinkedRanks(ranks.ranks, ranks.clocks, ranks.members, named))
    assert found.select("rank", "group", "count", "waiting_ns", "caused_ns").rows() == [
        (0, "pg ranks 0,1", 1, 5, 0),
        (1, "other", 1, None, 0),
        (1, "pg ranks 0,1", 2, 0, 5),
        (1, UNKNOWN_GROUP, 1, None, 0),
    ]
    assert found.get_column("waiting_share").to_list() == [0.5, None, 0.0, None]
