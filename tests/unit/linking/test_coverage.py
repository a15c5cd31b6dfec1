"""The ledger of what was linked, how, and why the rest was not."""

from __future__ import annotations

from tests.builders import Json, call, kernel, node, op
from tests.unit.linking.made import et_of, linked_of
from tracebraid.model.coverage import Count, Orphans
from tracebraid.model.reason import OrphanKind, OrphanReason

WORK = [
    op("linked", 0, 100, Record_function_id=51, External_id=3),
    op("unknown", 200, 100, Record_function_id=52, External_id=4),
    call("launch", 20, 5, 7),
    call("outside", 150, 5, 8),
    kernel("k", 500, 10, 7),
    kernel("no op", 600, 20, 8),
    kernel("no call", 700, 30, 9),
    kernel("named", 800, 40, 10, **Json({"External id": 3})),
]
NODES = et_of(node(20, "linked", 1001, rf_id=51), node(21, "unseen", 1001, rf_id=99))


def test_host_ops_are_counted_by_method() -> None:
    assert linked_of(WORK, NODES).coverage.host_ops == Count(2, 1, {"record_function_id": 1})


def test_roots_are_no_nodes_that_could_be_linked() -> None:
    assert linked_of(WORK, NODES).coverage.et_nodes == Count(2, 1, {})


def test_device_events_are_counted_by_method() -> None:
    assert linked_of(WORK, NODES).coverage.gpu_events == Count(4, 2, {"correlation": 1, "external_id": 1})


def test_device_time_is_counted_in_ns() -> None:
    assert linked_of(WORK, NODES).coverage.gpu_time_ns == (100_000, 50_000)


def test_every_orphan_has_its_reason() -> None:
    orphans = linked_of(WORK, NODES).coverage.orphans
    assert {(one.kind, one.count) for one in orphans} == {("host_op", 1), ("et_node", 1), ("gpu_event", 1)}
    assert sum(one.count for one in orphans) == 4
    assert all(one.reason for one in orphans)


def test_linked_and_orphans_add_up_to_the_total() -> None:
    coverage = linked_of(WORK, NODES).coverage
    orphans = dict.fromkeys(("host_op", "et_node", "gpu_event"), 0)
    for one in coverage.orphans:
        orphans[one.kind] += one.count
    assert coverage.host_ops.linked + orphans["host_op"] == coverage.host_ops.total
    assert coverage.et_nodes.linked + orphans["et_node"] == coverage.et_nodes.total
    assert coverage.gpu_events.linked + orphans["gpu_event"] == coverage.gpu_events.total


def test_the_most_frequent_reason_comes_first() -> None:
    more = [kernel(f"more{i}", 900 + i, 1, 100 + i) for i in range(5)]
    first = linked_of([*WORK, *more], NODES).coverage.orphans[0]
    assert (first.kind, first.count) == ("gpu_event", 6)


def test_without_an_execution_trace_host_ops_are_no_orphans() -> None:
    coverage = linked_of(WORK).coverage
    assert {one.kind for one in coverage.orphans} == {"gpu_event"}
    assert coverage.has_et is False


def test_the_share_is_the_smallest_one() -> None:
    coverage = linked_of(WORK, NODES).coverage
    assert coverage.share == 0.5
    assert linked_of(WORK[:3], NODES).coverage.share == 0.5
    assert linked_of([*WORK[:1], *WORK[2:3], WORK[4]], NODES[:2]).coverage.share == 1.0


def test_nodes_without_events_count_against_the_share() -> None:
    """So it is with a Kineto trace that was cut: all that is left of it links."""
    nodes = et_of(*(node(20 + n, "op", 1001, rf_id=51 + n) for n in range(10)))
    events = [op("op", 100 * n, 50, Record_function_id=51 + n) for n in range(10)]
    assert linked_of(events, nodes).coverage.share == 1.0
    assert linked_of(events[:5], nodes).coverage.share == 0.5


def test_the_share_without_an_execution_trace_is_that_of_the_device() -> None:
    assert linked_of([WORK[0], WORK[2], WORK[4]]).coverage.share == 1.0


def test_an_execution_trace_of_one_step_can_be_covered_in_full() -> None:
    """A timeline of many steps beside it holds host ops that no node could link to."""
    steps = [op("later", 1000 + 10 * i, 5, Record_function_id=60 + i) for i in range(9)]
    coverage = linked_of([WORK[0], *steps], et_of(node(20, "linked", 1001, rf_id=51))).coverage
    assert coverage.host_ops == Count(10, 1, {"record_function_id": 1})
    assert coverage.share == 1.0


def test_nothing_to_link_is_all_linked() -> None:
    assert Count(0, 0, {}).share == 1.0


def test_an_orphan_is_a_kind_a_reason_and_a_count() -> None:
    assert linked_of(WORK[:1]).coverage.orphans == ()
    assert linked_of([kernel("k", 0, 1, 5)]).coverage.orphans == (
        Orphans(OrphanKind.GPU_EVENT, OrphanReason.NO_CALL, 1),
    )
