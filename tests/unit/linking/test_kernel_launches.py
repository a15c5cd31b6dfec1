"""Which call, op and node launched each device event, and why the others are orphans."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, kernel, node, op
from tests.unit.linking.made import et_of, event_ids, launch_of, linked_of
from tracebraid.model.coverage import Count, OrphanKind, OrphanReason, Orphans
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import DEVICE_LINKS, FORWARD_BACKWARD

LAUNCH, WORK_7 = call("launch", 20, 5, 7), kernel("k", 500, 9, 7)
NAMED = kernel("k", 500, 9, 7, **Json({"External id": 3}))
UNCORRELATED = kernel("k", 500, 9, 7)
del UNCORRELATED["args"]["correlation"]
OF_ROCM = {**LAUNCH, "args": {"cid": 3, "kernel": "k", "correlation": 7, "ptr": "0x0"}}
NESTED = [
    op(name, 5 * n, 100 - 10 * n, Record_function_id=50 + n)
    for n, name in enumerate(("far", "near", "own", "too"))
]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [op("outer", 0, 100), op("inner", 10, 50), LAUNCH, WORK_7],
            {"call": "launch", "op": "inner", "node": None, "method": "correlation", "reason": None},
            id="the op around the call with its correlation",
        ),
        pytest.param([op("op", 0, 100), OF_ROCM, WORK_7], {"op": "op"}, id="ROCm"),
        pytest.param(
            [op("op", 0, 100), call("a", 20, 50, 7), call("b", 30, 10, 7, cat="cuda_driver"), WORK_7],
            {"call": "b", "op": "op"},
            id="a driver call inside a runtime call",
        ),
        pytest.param(
            [op("op", 0, 100, tid=1), call("launch", 20, 5, 7, tid=2), WORK_7],
            {"op": None, "reason": OrphanReason.OUTSIDE_OF_OPS},
            id="a call on another thread than the op",
        ),
        pytest.param(
            [op("one", 0, 100, tid=1), op("two", 0, 100, tid=2), call("c", 20, 5, 7, tid=2), WORK_7],
            {"op": "two"},
            id="ops on two threads",
        ),
        pytest.param(
            [op("op", 0, 10), LAUNCH, WORK_7], {"call": "launch", "op": None}, id="after the op has ended"
        ),
        pytest.param(
            [op("step", 0, 100, cat="user_annotation"), LAUNCH, WORK_7], {"op": "step"}, id="in an annotation"
        ),
        pytest.param(
            [op("op", 0, 100), call("other", 20, 5, 8), WORK_7],
            {"call": None, "reason": OrphanReason.NO_CALL},
            id="no call with its correlation",
        ),
        pytest.param(
            [op("op", 0, 100), call("other", 20, 5, 8), UNCORRELATED],
            {"reason": OrphanReason.NO_CORRELATION},
            id="no correlation",
        ),
        pytest.param(
            [op("op", 0, 100), call("other", 20, 5, 0), kernel("k", 500, 9, 0)],
            {"reason": OrphanReason.NO_CORRELATION},
            id="correlation 0",
        ),
        pytest.param(
            [op("op", 0, 100, External_id=3), NAMED],
            {"call": None, "op": "op", "node": None, "method": "external_id", "reason": None},
            id="an external id names the op where the call is missing",
        ),
        pytest.param(
            [op("op", 0, 100, External_id=7), kernel("k", 500, 9, 7, **Json({"External id": 7}))],
            {"op": None, "reason": OrphanReason.NO_CALL},
            id="an external id that is just the correlation",
        ),
        pytest.param(
            [op("op", 600, 100, External_id=3), NAMED], {"op": None}, id="an external id of a later op"
        ),
        pytest.param(
            [op("one", 0, 10, External_id=3), op("two", 20, 10, External_id=3), NAMED],
            {"op": None},
            id="an external id of two ops",
        ),
        pytest.param(
            [
                op("named", 0, 10, External_id=3),
                op("around", 20, 50, External_id=4),
                call("c", 30, 5, 7),
                NAMED,
            ],
            {"op": "around", "method": "correlation"},
            id="the call counts more than an external id",
        ),
    ],
)
def test_device_work_belongs_to_the_op_that_launched_it(
    events: list[Json], expected: dict[str, object]
) -> None:
    found = launch_of(linked_of(events), "k")
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "name", ["fooLaunchBar", "cudaLaunchKernelExC", "hipExtModuleLaunchKernel", "cuLaunchKernelEx", "x"]
)
def test_any_call_launches_whatever_its_name(name: str) -> None:
    linked = linked_of([op("op", 0, 100), call(name, 20, 5, 7), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["op"] == "op"


@pytest.mark.parametrize(
    "category",
    [
        "cuda_runtime",
        "cuda_driver",
        "mtia_runtime",
        "glow_runtime",
        "xpu_runtime",
        "xpu_driver",
        "privateuse1_runtime",
        "privateuse1_driver",
    ],
)
def test_calls_of_every_runtime_launch(category: str) -> None:
    linked = linked_of([op("op", 0, 100), call("c", 20, 5, 7, cat=category), kernel("k", 500, 9, 7)])
    assert launch_of(linked, "k")["call"] == "c"


@pytest.mark.parametrize(
    "category", ["kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events", "hpu_op", "collective_comm"]
)
def test_all_work_on_a_device_is_launched(category: str) -> None:
    linked = linked_of([op("op", 0, 100), call("c", 20, 5, 7), kernel("k", 500, 9, 7, cat=category)])
    assert launch_of(linked, "k")["op"] == "op"


def test_a_kernel_with_two_calls_is_one_row() -> None:
    linked = linked_of(
        [
            op("op", 0, 100),
            call("a", 20, 5, 7),
            call("b", 21, 2, 7, cat="cuda_driver"),
            kernel("k", 500, 9, 7),
        ]
    )
    assert linked.device_links.height == 1
    assert linked.coverage.gpu_events.total == 1


def test_all_kernels_of_a_graph_belong_to_the_op_that_launched_the_graph() -> None:
    kernels = [kernel(f"k{i}", 500 + 10 * i, 9, 7) for i in range(50)]
    linked = linked_of([op("replay", 0, 100), call("cudaGraphLaunch", 20, 5, 7), *kernels])
    assert {launch_of(linked, f"k{i}")["op"] for i in range(50)} == {"replay"}


@pytest.mark.parametrize(
    ("count", "known", "op_name", "node_id"),
    [
        pytest.param(1, ["far"], "far", 20, id="that of the op"),
        pytest.param(4, ["far", "near"], "too", 21, id="of the nearest op around that has one"),
        pytest.param(2, [], "near", None, id="none"),
    ],
)
def test_the_node_is_that_of_the_op(count: int, known: list[str], op_name: str, node_id: int | None) -> None:
    nodes = [node(20 + n, name, 1001, rf_id=50 + n) for n, name in enumerate(known)]
    linked = linked_of(
        [*NESTED[:count], LAUNCH, WORK_7], et_of(*nodes, node(30, "elsewhere", 1001, rf_id=99))
    )
    found = launch_of(linked, "k")
    assert (found["op"], found["node"]) == (op_name, node_id)


def test_the_table_has_a_row_per_device_event_in_order_and_its_declared_schema() -> None:
    linked = linked_of(
        [kernel("k1", 500, 9, 7), op("op", 0, 100), kernel("k0", 400, 9, 6), call("launch", 20, 5, 7)]
    )
    ids = event_ids(linked)
    assert linked.device_links.get_column("event_id").to_list() == [ids["k1"], ids["k0"]]
    assert dict(linked.device_links.schema) == DEVICE_LINKS.polars_schema()


def test_no_device_events_make_an_empty_table_of_the_schema() -> None:
    linked = linked_of([op("op", 0, 100), call("launch", 20, 5, 7)])
    assert linked.device_links.is_empty()
    assert dict(linked.device_links.schema) == DEVICE_LINKS.polars_schema()


# --- The ledger of what was linked, how, and why the rest was not ------------------------------------


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


def test_links_are_counted_by_method() -> None:
    """Roots are no nodes that could be linked."""
    coverage = linked_of(WORK, NODES).coverage
    assert coverage.host_ops == Count(2, 1, {"record_function_id": 1})
    assert coverage.et_nodes == Count(2, 1, {})
    assert coverage.gpu_events == Count(4, 2, {"correlation": 1, "external_id": 1})
    assert coverage.gpu_time_ns == (100_000, 50_000)


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


# --- Which forward op made the autograd node that a backward op runs ---------------------------------


def forward(name: str, ts: float, number: int, dur: float = 5, tid: int = 1) -> Json:
    return op(name, ts, dur, tid=tid, Sequence_number=number, Fwd_thread_id=0)


def backward(name: str, ts: float, number: int, thread: int = 1, tid: int = 9) -> Json:
    return op(name, ts, 5, tid=tid, Sequence_number=number, Fwd_thread_id=thread)


def pairs(linked: LinkedTrace) -> set[tuple[str, str]]:
    names = dict(enumerate(linked.timeline.events.get_column("name").cast(str).to_list()))
    rows = linked.forward_backward.select("forward_event", "backward_event").iter_rows()
    return {(names[one], names[other]) for one, other in rows}


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        pytest.param(
            "mul 0 1, add 10 2, Add 50 2, Mul 60 1", "mul-Mul add-Add", id="the forward op with its number"
        ),
        pytest.param(
            "linear 0 1 50, t 2 1, addmm 20 1, B 90 1", "addmm-B", id="the last to start with a number"
        ),
        pytest.param(
            "mul 0 1, Evaluate 50 1, Mul 51 1", "mul-Evaluate mul-Mul", id="a node and what evaluates it"
        ),
        pytest.param("mul 0 1, Mul 50 1, Lost 60 77", "mul-Mul", id="without a forward op"),
        pytest.param(
            "mul 0 1, Mul 50 1, Early 60 2, late 90 2", "mul-Mul", id="a forward op after the backward op"
        ),
        pytest.param("mul 0 -1, Mul 50 -1", "", id="numbers below zero"),
    ],
)
def test_a_backward_op_belongs_to_a_forward_op(ops: str, expected: str) -> None:
    """Ops as name, start, sequence number and length; backward ops begin with a capital letter."""
    events = []
    for name, ts, number, *dur in (one.split() for one in ops.split(", ")):
        if name[0].isupper():
            events.append(backward(name, int(ts), int(number)))
        else:
            events.append(forward(name, int(ts), int(number), *map(int, dur)))
    assert pairs(linked_of(events)) == {tuple(pair.split("-")) for pair in expected.split()}


def test_a_backward_in_the_callers_own_thread_links_too() -> None:
    assert pairs(linked_of([forward("mul", 0, 1, tid=1), backward("Mul", 50, 1, tid=1)])) == {("mul", "Mul")}


def test_the_sequence_number_of_a_pair_is_kept() -> None:
    linked = linked_of(
        [forward("mul", 0, 1), forward("add", 10, 2), backward("Add", 50, 2), backward("Mul", 60, 1)]
    )
    assert linked.forward_backward.get_column("sequence_number").to_list() == [2, 1]


@pytest.mark.parametrize(
    ("first", "others"), [(10, 4), (0, 3)], ids=["numbers of their own", "both count from zero"]
)
def test_two_forward_threads_keep_apart(first: int, others: int) -> None:
    """Sequence numbers are counted per thread: a shorter thread's numbers can all be among the longer one's."""
    linked = linked_of(
        [
            *(forward(f"a{i}", 10 * i, i, tid=1) for i in range(6)),
            *(forward(f"b{i}", 10 * i, first + i, tid=2) for i in range(others)),
            *(backward(f"A{i}", 100 + 10 * i, i, thread=1) for i in range(6)),
            *(backward(f"B{i}", 200 + 10 * i, first + i, thread=2) for i in range(others)),
        ]
    )
    assert pairs(linked) == {
        (f"{x}{i}", f"{x.upper()}{i}") for x, count in (("a", 6), ("b", others)) for i in range(count)
    }


def test_two_forward_threads_with_the_same_numbers_never_share_a_forward_op() -> None:
    """Two replicas of one model: nothing tells which thread is which, but each is one of them."""
    linked = linked_of(
        [
            *(forward(f"a{i}", 10 * i, i, tid=1) for i in range(4)),
            *(forward(f"b{i}", 5 + 10 * i, i, tid=2) for i in range(4)),
            *(backward(f"A{i}", 100 + 10 * i, i, thread=1) for i in range(4)),
            *(backward(f"B{i}", 200 + 10 * i, i, thread=2) for i in range(4)),
        ]
    )
    forwards = linked.forward_backward.get_column("forward_event")
    assert forwards.n_unique() == forwards.len()


@pytest.mark.parametrize("events", [[op("a", 0, 5)], [forward("mul", 0, 1), backward("Mul", 50, 1)]], ids=len)
def test_the_table_has_its_declared_schema(events: list[Json]) -> None:
    found = linked_of(events).forward_backward
    assert dict(found.schema) == FORWARD_BACKWARD.polars_schema()
    assert found.height == len(events) - 1
