"""Groups of members, matched or not."""

from __future__ import annotations

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.collective_totals import collective_totals
from tracebraid.analysis.collectives.transfers.transfers import UNKNOWN_GROUP


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
        (1, "other", 1, None, 0),
        (1, "pg ranks 0,1", 2, 0, 5),
        (1, UNKNOWN_GROUP, 1, None, 0),
    ]
    assert found.get_column("waiting_share").to_list() == [0.5, None, 0.0, None]
