"""Parts of time add up, and sound traces give no doubt, whatever the program."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import op
from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.exposed_collectives import exposed_collectives
from tracebraid.analysis.time.overlap import overlap
from tracebraid.analysis.time.step_spread import step_spread
from tracebraid.analysis.time.step_times import step_times
from tracebraid.analysis.validity.validity import validity
from tracebraid.model.linked_trace import LinkedTrace

steady = settings(deadline=None, derandomize=True, max_examples=30, database=None)

PARTS = ["compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]


def check_steps(linked: LinkedTrace) -> None:
    times = step_times(linked)
    assert times.select(pl.sum_horizontal(PARTS) == pl.col("span_ns")).to_series().all()
    assert times.select(pl.min_horizontal(*PARTS, "span_ns") >= 0).to_series().all()
    in_breakdown = breakdown(linked).filter(pl.col("step").is_not_null())
    columns = ["step", "device", "start_ns", "span_ns", *PARTS]
    assert sorted(times.select(columns).rows()) == sorted(in_breakdown.select(columns).rows())
    spread = step_spread(linked, with_warmup=True, with_doubtful=True).filter(pl.col("part") != "gap")
    counts = dict(times.group_by("device").len().rows())
    assert all(row["count"] == counts[row["device"]] for row in spread.to_dicts())
    numbers = [value for row in spread.rows() for value in row if isinstance(value, float)]
    assert all(value == value for value in numbers)


def check_communication(linked: LinkedTrace) -> None:
    for per_step in (False, True):
        whole = pl.col("step").is_not_null() if per_step else pl.col("step").is_null()
        keys = ["step", "device"]
        expected = (
            breakdown(linked)
            .filter(whole & (pl.col("communication_ns") > 0))
            .group_by(keys)
            .agg(pl.col("communication_ns", "overlap_ns", "exposed_communication_ns").sum())
        )
        over_all = (
            overlap(linked, per_step=per_step)
            .filter(pl.col("stream").is_null() & (pl.col("communication_ns") > 0))
            .group_by(keys)
            .agg(pl.col("communication_ns", "overlap_ns", "exposed_ns").sum())
        )
        assert sorted(over_all.rows(), key=repr) == sorted(expected.rows(), key=repr)
        collectives = exposed_collectives(linked, per_step=per_step)
        assert collectives.select(pl.col("exposed_ns").is_between(0, pl.col("total_ns"))).to_series().all()
        summed = (
            collectives.group_by(keys).agg(pl.col("exposed_ns").sum()).filter(pl.col("exposed_ns") > 0).rows()
        )
        exposed = expected.select(*keys, "exposed_communication_ns").filter(pl.last() > 0)
        assert sorted(summed, key=repr) == sorted(exposed.rows(), key=repr)


@steady
@given(scenes())
def test_parts_add_up_on_a_device(scene: Scene) -> None:
    linked = scene.linked()
    check_steps(linked)
    check_communication(linked)


HOST_NAMES = ["aten::mm", "c10d::allreduce_", "gloo:all_reduce", "record_param_comms", "gloo:broadcast"]
HOST_OPS = st.tuples(st.sampled_from(HOST_NAMES), st.integers(0, 60), st.integers(0, 30), st.integers(1, 3))


@steady
@given(
    st.lists(HOST_OPS, max_size=12), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=3)
)
def test_parts_add_up_whatever_threads_communicate(
    ops: list[tuple[str, int, int, int]], steps: list[tuple[int, int]]
) -> None:
    """Ops may cross each other, last no time, and steps may overlap."""
    events = [op(name, ts, dur, tid, cat=category(name)) for name, ts, dur, tid in ops]
    marks = [
        op(f"ProfilerStep#{n}", ts, dur, 7 + n, cat="user_annotation") for n, (ts, dur) in enumerate(steps)
    ]
    linked = linked_of([*events, *marks])
    check_steps(linked)
    check_communication(linked)


def category(name: str) -> str:
    return "cpu_op" if "::" in name or name == "record_param_comms" else "user_annotation"


@steady
@given(scenes(device=False))
def test_parts_add_up_on_the_host(scene: Scene) -> None:
    linked = scene.linked()
    check_steps(linked)
    check_communication(linked)


@steady
@given(scenes())
def test_a_sound_trace_gives_no_doubt(scene: Scene) -> None:
    assert validity(scene.linked()).rows() == []
