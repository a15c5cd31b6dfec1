"""Memory of random traces: what is alive adds up, and no allocation is counted twice."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, op
from tests.planted import random_scenes
from tests.planted.scene import Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.memory.allocations import allocations
from tracebraid.analysis.memory.catalog import ANALYSES
from tracebraid.analysis.memory.memory_at_peak import memory_at_peak
from tracebraid.analysis.memory.memory_peak import memory_peak
from tracebraid.model.linked_trace import LinkedTrace

steady = settings(deadline=None, derandomize=True, max_examples=30)

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


@steady
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


@steady
@given(scene=random_scenes.scenes())
def test_the_peak_of_a_random_run_is_its_allocators(scene: Scene) -> None:
    linked = scene.linked()
    peaks = dict(memory_peak(linked).select("device", "peak_bytes").iter_rows())
    truth = {("cpu" if device < 0 else str(device)): state.peak for device, state in scene.allocators.items()}
    assert peaks == truth
    assert_adds_up(linked)


@steady
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
