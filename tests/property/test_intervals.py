"""Covers and breakdowns against counting every single nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, complete, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.intervals import cover_of

steady = settings(deadline=None, derandomize=True)

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)
windows = st.lists(st.tuples(st.integers(-10, 80), st.integers(0, 60)), min_size=1, max_size=6)
KINDS = {
    "compute": ("kernel", "gemm"),
    "communication": ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "memory": ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
    "wait": ("mtia_ccp_events", "event_wait"),
}
work = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.integers(0, 60),
        st.integers(0, 20),
        st.integers(0, 1),
        st.integers(7, 9),
    ),
    min_size=1,
    max_size=12,
)
"""(kind, start, length, device, stream) in ns."""
Pairs = list[tuple[int, int]]
Work = tuple[str, int, int, int, int]


def arrays(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    return starts, starts + np.array([length for _, length in pairs], dtype=np.int64)


def moments(pairs: Pairs) -> set[int]:
    return {moment for start, length in pairs for moment in range(start, start + length)}


@given(spans)
@steady
def test_the_length_is_the_number_of_covered_moments(pairs: Pairs) -> None:
    assert cover_of(*arrays(pairs)).length == len(moments(pairs))


@given(spans)
@steady
def test_the_pieces_are_apart_and_in_order(pairs: Pairs) -> None:
    found = cover_of(*arrays(pairs))
    assert (found.starts[1:] > found.ends[:-1]).all()
    assert (found.ends >= found.starts).all()
    assert found.before.tolist() == [
        int((found.ends - found.starts)[:i].sum()) for i in range(len(found.starts))
    ]


@given(spans, windows)
@steady
def test_a_window_holds_the_covered_moments_inside_it(pairs: Pairs, looks: Pairs) -> None:
    covered = moments(pairs)
    expected = [len(covered & set(range(start, start + length))) for start, length in looks]
    assert cover_of(*arrays(pairs)).within(*arrays(looks)).tolist() == expected


def events_of(drawn: list[Work], steps: Pairs) -> list[Json]:
    """Device events and steps, in µs with three decimals, as files have them."""
    found = [
        op(f"ProfilerStep#{i}", start / 1000, length / 1000, cat="user_annotation")
        for i, (start, length) in enumerate(steps)
    ]
    for kind, start, length, device, stream in drawn:
        category, name = KINDS[kind]
        args = {"device": device, "stream": stream, "correlation": 1}
        found.append(complete(name, category, start / 1000, length / 1000, device, stream, args))
    return found


@given(work, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), max_size=3))
@settings(steady, max_examples=40)
def test_a_breakdown_is_what_counting_every_nanosecond_gives(drawn: list[Work], steps: Pairs) -> None:
    table = breakdown(linked_of(events_of(drawn, steps)))
    for row in table.filter(device="0").to_dicts() + table.filter(device="1").to_dicts():
        here = [one for one in drawn if str(one[3]) == row["device"] and one[0] != "wait"]
        window = set(range(row["start_ns"], row["start_ns"] + row["span_ns"]))
        compute, communication, memory = (
            moments([(one[1], one[2]) for one in here if one[0] == kind]) & window
            for kind in ("compute", "communication", "memory")
        )
        assert row["compute_ns"] == len(compute)
        assert row["communication_ns"] == len(communication)
        assert row["memory_ns"] == len(memory)
        assert row["overlap_ns"] == len(compute & communication)
        assert row["exposed_communication_ns"] == len(communication - compute)
        assert row["exposed_memory_ns"] == len(memory - compute - communication)
        assert row["idle_ns"] == len(window - compute - communication - memory)


@given(work, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), max_size=3))
@settings(steady, max_examples=40)
def test_the_parts_of_a_breakdown_add_up_to_the_span(drawn: list[Work], steps: Pairs) -> None:
    for row in breakdown(linked_of(events_of(drawn, steps))).to_dicts():
        parts = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
        assert sum(row[part] for part in parts) == row["span_ns"]
        assert all(row[part] >= 0 for part in parts)


@given(work, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 40)), max_size=3))
@settings(steady, max_examples=40)
def test_a_breakdown_has_a_row_per_busy_device_over_all_and_for_each_step(
    drawn: list[Work], steps: Pairs
) -> None:
    table = breakdown(linked_of(events_of(drawn, steps)))
    devices = sorted({str(one[3]) for one in drawn if one[0] != "wait"})
    expected: list[tuple[str, str | None]] = [(device, None) for device in devices]
    order = sorted(range(len(steps)), key=lambda i: (steps[i][0], i))
    expected += [(device, f"ProfilerStep#{i}") for device in devices for i in order]
    assert table.select("device", "step").rows() == expected
