"""Costs of ops, memory, and the comparison of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, kernel, op
from tests.planted import random_scenes
from tests.planted.costs import FLOAT, called, tensor
from tests.planted.random_scenes import scenes
from tests.planted.scene import Scene
from tests.unit.linking.made import linked_of
from tracebraid.analyses import allocations, memory_at_peak, memory_peak, op_costs
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles import RankProfile, rank_profile
from tracebraid.analysis.efficiency.operands import UnknownOperandError, operands_of
from tracebraid.analysis.efficiency.rules import RULE_NAMES, cost_of, rule_of
from tracebraid.model.analysis import Family
from tracebraid.model.answers.job import DiffChange, DiffPart
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Comparison

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


steady_rules = settings(deadline=None, derandomize=True, max_examples=300)
TYPES = ["float", "c10::BFloat16", "long int", "bool", "TensorList", "Scalar", "ScalarList", "", "c10::New"]
SHAPES = st.lists(st.integers(-1, 6), max_size=5)

WORDS = st.sampled_from(
    ["", "True", "False", "0", "1", "-1", "2", "[0]", "[2, 2]", "[]", "[True, False]", "1e-05", "x"]
)

DIMS: st.SearchStrategy[Any] = st.one_of(SHAPES, st.lists(SHAPES, max_size=3), st.none(), st.just(["s0"]))

FORMULA_NAMES = sorted(
    {str(rule.formula): name for name in sorted(RULE_NAMES) if (rule := rule_of(name))}.values()
)
"""An op for each formula."""

RULE_ARGUMENTS = st.lists(st.tuples(DIMS, st.sampled_from(TYPES), DIMS, WORDS), max_size=12)


@pytest.mark.full
@steady_rules
@given(
    st.sampled_from(FORMULA_NAMES), RULE_ARGUMENTS, RULE_ARGUMENTS, st.one_of(st.none(), st.integers(-1, 4))
)
def test_a_rule_gives_a_cost_or_says_that_it_is_unknown(
    name: str, arguments: list[Any], outputs: list[Any], group: int | None
) -> None:
    inputs = tuple(json.dumps([argument[i] for argument in arguments]) for i in range(4))
    written = tuple(json.dumps([argument[i] for argument in outputs]) for i in range(2))
    rule = rule_of(name)
    assert rule is not None
    try:
        found = cost_of(rule, operands_of(name, inputs, written, group))
    except UnknownOperandError:
        return
    amounts = [found.flops, found.size_bytes, found.causal_flops]
    assert all(amount is None or (isinstance(amount, int) and amount >= 0) for amount in amounts)
    assert found.causal_flops is None or (found.flops is not None and found.causal_flops <= found.flops)


def test_arguments_nested_without_end_are_unknown() -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    costs = op_costs(linked_of([op("aten::mm", 0, 5, Input_Dims=deep, Input_type=["float"])]))
    assert costs.get_column("flops").to_list() == [None]


ANALYSES = [found for found in all_analyses() if found.family is Family.MEMORY]
steady_memory = settings(deadline=None, derandomize=True, max_examples=30)

changes = st.lists(
    st.tuples(st.integers(0, 40), st.integers(-50, 50), st.integers(0, 3), st.integers(0, 1)), max_size=25
)
"""(moment, size, address, device), in any order: releases of what was never allocated, allocations twice over."""


def instants_of(rows: list[tuple[int, int, int, int]], total: int | None) -> list[Json]:
    return [
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": moment,
            "args": {
                "Addr": address,
                "Bytes": size,
                "Device Type": 1,
                "Device Id": device,
                **({} if total is None else {"Total Allocated": total, "Total Reserved": total}),
            },
        }
        for moment, size, address, device in rows
    ]


def assert_adds_up(linked: LinkedTrace) -> None:
    key = ["step", "device"]
    for per_step in (False, True):
        rows = memory_at_peak(linked, per_step=per_step)
        assert (rows.get_column("bytes") > 0).all()
        summed = rows.group_by(key).agg(pl.col("bytes").sum())
        peaks = memory_peak(linked, per_step=per_step)
        found = peaks.join(summed, on=key, how="left", nulls_equal=True).get_column("bytes").fill_null(0)
        if peaks.select(key).is_duplicated().any():
            continue
        assert found.to_list() == peaks.get_column("peak_bytes").to_list()


@pytest.mark.full
@steady_memory
@given(rows=changes, total=st.none() | st.integers(-100, 100))
def test_any_instants_give_an_answer_whose_rows_add_up(
    rows: list[tuple[int, int, int, int]], total: int | None
) -> None:
    step = op("ProfilerStep#1", 10, 20, cat="user_annotation")
    linked = linked_of([step, *instants_of(rows, total)])
    for analysis in ANALYSES:
        answered = analysis.answer(linked)
        assert dict(answered.schema) == analysis.table.polars_schema()
        for column in answered.select(pl.col(pl.Float64)).iter_columns():
            assert column.drop_nulls().is_finite().all()
    assert_adds_up(linked)


@pytest.mark.full
@steady_memory
@given(scene=random_scenes.scenes())
def test_the_peak_of_a_random_run_is_its_allocators(scene: Scene) -> None:
    linked = scene.linked()
    peaks = dict(memory_peak(linked).select("device", "peak_bytes").iter_rows())
    truth = {("cpu" if device < 0 else str(device)): state.peak for device, state in scene.allocators.items()}
    assert peaks == truth
    assert_adds_up(linked)


@pytest.mark.full
@steady_memory
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=30))
def test_each_allocation_is_paired_with_the_next_release_at_its_address(rows: list[tuple[int, int]]) -> None:
    """Against a plain walk over a sequence in which each address is allocated and released in turn."""
    sizes: dict[int, int] = {}
    begun: dict[int, int] = {}
    expected: dict[int, list[tuple[int, int | None]]] = defaultdict(list)
    instants = []
    for moment, (address, size) in enumerate(rows):
        if address in sizes:
            expected[address].append((begun.pop(address), moment))
            instants.append((moment, -sizes.pop(address), address, 0))
        else:
            sizes[address], begun[address] = size, moment
            instants.append((moment, size, address, 0))
    for address, moment in begun.items():
        expected[address].append((moment, None))
    table = allocations(linked_of(instants_of(instants, None)))
    start = table.get_column("allocated_ns").min()
    for address, lives in expected.items():
        found = table.filter(address=address)
        assert found.get_column("lifetime_ns").to_list() == [
            None if end is None else 1000 * (end - begin) for begin, end in sorted(lives)
        ]
    assert start is None or table.height == sum(map(len, expected.values()))


_SUMS = ["a_ns", "b_ns", "difference_ns"]


def profile(scene: Scene) -> RankProfile:
    return rank_profile(scene.linked())


def sums(found: Comparison) -> tuple[int, ...]:
    return found.parts.select(pl.col(_SUMS).sum()).row(0)


@pytest.mark.full
@settings(max_examples=15, deadline=None)
@given(scenes(), scenes())
def test_parts_add_up_and_exchanged_runs_negate(first: Scene, second: Scene) -> None:
    a, b = profile(first), profile(second)
    check_equal_runs(first, a)
    found, swapped = compare([[a]], [[b]]), compare([[b]], [[a]])
    assert sums(found) == found.steps.select(_SUMS).row(0)
    assert found.difference_ns == -swapped.difference_ns
    assert sorted(found.parts.get_column("difference_ns")) == sorted(
        -value for value in swapped.parts.get_column("difference_ns")
    )
    assert found.parts.select("part", "op", "a_ns", "b_ns").sort(pl.all()).rows() == (
        swapped.parts.select("part", "op", a_ns="b_ns", b_ns="a_ns").sort(pl.all()).rows()
    )
    for run in (a, b):
        # Only a trace without any work has a step that nothing explains.
        kinds = set(run.parts.get_column("part"))
        assert DiffPart.REST.value not in kinds or len(kinds) == 1
    counts = found.ops.get_column("change").value_counts().rows()
    exchanged = {
        DiffChange.ADDED.value: DiffChange.REMOVED.value,
        DiffChange.REMOVED.value: DiffChange.ADDED.value,
    }
    assert {exchanged.get(change, change): count for change, count in counts} == dict(
        swapped.ops.get_column("change").value_counts().rows()
    )


def check_equal_runs(scene: Scene, a: RankProfile) -> None:
    """A run does not differ from itself, however often it is linked."""
    found = compare([[a]], [[profile(scene)]])
    for table in (found.steps, found.parts, found.ops, found.kernels):
        assert set(table.get_column("difference_ns")) <= {0}
        assert not table.get_column("significant").any()
    assert found.changed_ops.is_empty()
    assert found.changed_kernels.is_empty()
