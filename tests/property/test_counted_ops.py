"""Which nested ops count, against a walk over the tree; and that no time is lost or counted twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, kernel
from tests.unit.analysis.efficiency.made import FLOAT, called, tensor
from tests.unit.linking.made import linked_of
from tracebraid.analysis.efficiency.op_costs import op_costs

steady = settings(deadline=None, derandomize=True, max_examples=25)

A, B = tensor(FLOAT, 2, 3), tensor(FLOAT, 3, 4)
PRODUCT = 2 * 2 * 3 * 4
ARGUMENTS = {
    "aten::mm": (A, B),
    "aten::matmul": (A, B),
    "aten::linear": (A, tensor(FLOAT, 4, 3)),
    "aten::copy_": (A, A),
    "aten::view": (A,),
    "library::op": (A, B),
}
FLOPS = {"aten::mm": PRODUCT, "aten::copy_": 0, "aten::view": 0}
COMPOSITES = ("aten::matmul", "aten::linear")


@dataclass(frozen=True)
class Node:
    name: str
    children: tuple[Node, ...] = field(default=())


NAMES = st.sampled_from(sorted(ARGUMENTS))
TREES = st.recursive(
    st.builds(Node, NAMES),
    lambda inner: st.builds(Node, NAMES, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=12,
)


def flops_of(node: Node) -> int:
    """An op with a rule counts alone; a composite where nothing inside it computes."""
    if node.name in FLOPS:
        return FLOPS[node.name]
    inside = sum(flops_of(child) for child in node.children)
    return PRODUCT if node.name in COMPOSITES and inside == 0 else inside


def events_of(node: Node, start: int, with_device: bool, events: list[Json]) -> int:
    """Adds the events of a tree, a launch at the start of each op; returns where it ends."""
    row = len(events)
    events.append({})
    end = start + 3
    for child in node.children:
        end = events_of(child, end, with_device, events) + 1
    events[row] = called(node.name, *ARGUMENTS[node.name], ts=start, dur=end - start)
    if with_device:
        events += [
            call("cudaLaunchKernel", start + 1, 1, row + 1),
            kernel("k", 10_000 + 9 * row, 1 + row % 5, row + 1),
        ]
    return end


def made(trees: list[Node], with_device: bool) -> list[Json]:
    events: list[Json] = []
    start = 0
    for tree in trees:
        start = events_of(tree, start, with_device, events) + 1
    return events


@steady
@given(st.lists(TREES, min_size=1, max_size=3), st.booleans())
def test_flops_count_once_and_all_device_time_belongs_to_a_row(trees: list[Node], with_device: bool) -> None:
    events = made(trees, with_device)
    linked = linked_of(events)
    costs = op_costs(linked)
    assert costs.get_column("flops").sum() == sum(flops_of(tree) for tree in trees)
    category = pl.col("category").cast(pl.String)
    kernels = linked.timeline.events.filter(category == "kernel").get_column("dur_ns").sum()
    outermost = linked.host_tree.filter(
        pl.col("op_event").is_null() & pl.col("op_exclusive_ns").is_not_null()
    )
    host = outermost.get_column("inclusive_ns").sum()
    assert costs.get_column("device_ns").sum() == (kernels if with_device else host)
    assert costs.get_column("kernels").sum() == sum(event["cat"] == "kernel" for event in events)
