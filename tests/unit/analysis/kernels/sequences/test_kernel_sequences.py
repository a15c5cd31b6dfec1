"""Sequences of kernels that come back."""

from __future__ import annotations

import json

import pytest

from tests.planted import CALL_NS, Scene, Thread
from tracebraid.analysis.kernels.sequences.kernel_sequences import (
    LONGEST_GAP_NS,
    MOST_NAMES,
    kernel_sequences,
)
from tracebraid.model.linked_trace import LinkedTrace


def layers(runs: int, between_ns: int = 0) -> LinkedTrace:
    """Layers of norm, gemm, add (100 ns each, one every 6 us), with another kernel before and behind them all."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "first", 100)
    for _ in range(runs):
        with host.op("layer"):
            for name in ("norm", "gemm", "add"):
                host.launch(stream, name, 100)
                host.spend(1_000)
        host.spend(between_ns)
    host.launch(stream, "last", 100)
    return scene.linked()


def names(row: dict[str, object]) -> list[str]:
    found: list[str] = json.loads(str(row["pattern"]))
    return found


def test_a_layer_that_comes_back_is_found_once() -> None:
    found = kernel_sequences(layers(4)).rows(named=True)
    assert len(found) == 1
    row = found[0]
    assert names(row) == ["norm", "gemm", "add"]
    assert (row["op"], row["length"], row["count"], row["complete"]) == (None, 3, 4, 0)
    assert row["device_ns"] == 4 * 3 * 100
    assert row["gap_ns"] == 4 * 2 * (CALL_NS + 1_000 - 100)
    assert row["launch_ns"] == 4 * 2 * CALL_NS
    assert row["op_ns"] is None


def test_a_long_gap_ends_a_sequence() -> None:
    row = kernel_sequences(layers(4, LONGEST_GAP_NS)).row(0, named=True)
    assert names(row) == ["norm", "gemm", "add"]
    assert (row["count"], row["complete"]) == (4, 3), "the first layer has a neighbour"


def test_under_an_op_its_whole_sequence_is_found() -> None:
    linked = layers(4)
    row = kernel_sequences(linked, op="layer").row(0, named=True)
    assert (row["op"], row["length"], row["count"], row["complete"]) == ("layer", 3, 4, 4)
    assert row["op_ns"] == 4 * 3 * (CALL_NS + 1_000)
    assert kernel_sequences(linked, op="not there").is_empty()
    assert kernel_sequences(linked, op="layer", min_length=4).is_empty()


def test_steps_are_asked_for_by_their_name_without_a_number() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in (1, 2, 3):
        with host.step(number):
            for name in ("a", "b"):
                host.launch(stream, name, 10)
    row = kernel_sequences(scene.linked(), op="ProfilerStep").row(0, named=True)
    assert (names(row), row["count"], row["complete"]) == (["a", "b"], 3, 3)
    assert kernel_sequences(scene.linked(), per_step=True).is_empty()


def test_an_op_inside_an_op_of_its_name_counts_once() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    outer_ns = 0
    for _ in range(2):
        with host.op("block") as outer, host.op("block"):
            for name in ("a", "b"):
                host.launch(stream, name, 10)
        outer_ns += outer.dur
    row = kernel_sequences(scene.linked(), op="block").row(0, named=True)
    assert (row["count"], row["op_ns"]) == (2, outer_ns)


def run_of(host: Thread, scene: Scene, kernels: str) -> None:
    for name in kernels:
        host.launch(scene.stream(7), name, 10)


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ("xabyabz", [("ab", 2)]),
        ("ababababz", [("ab", 4)]),
        ("xaaaayaaaaz", [("aaaa", 2)]),
        ("xaaayaaz", []),
        ("abc", []),
        ("xabcyabcwabvab", [("ab", 2), ("abc", 2)]),
        ("xabababaz", [("ab", 3)]),
        ("xabcabcabcaz", [("abc", 3)]),
        ("xababayababaz", [("ab", 4)]),
    ],
)
def test_only_sequences_that_say_something_of_their_own(
    kernels: str, expected: list[tuple[str, int]]
) -> None:
    scene = Scene()
    run_of(scene.thread(), scene, kernels)
    found = kernel_sequences(scene.linked()).rows(named=True)
    assert sorted(("".join(names(row)), row["count"]) for row in found) == expected


def test_a_collective_ends_a_sequence() -> None:
    scene = Scene(world_size=2)
    host, stream = scene.thread(), scene.stream(7)
    for _ in range(3):
        run_of(host, scene, "ab")
        host.collective(stream, 100)
        run_of(host, scene, "cd")
    found = kernel_sequences(scene.linked()).rows(named=True)
    assert sorted("".join(names(row)) for row in found) == ["cdab"]


def test_streams_are_apart() -> None:
    scene = Scene()
    host = scene.thread()
    for _ in range(3):
        host.launch(scene.stream(7), "a", 10)
        host.launch(scene.stream(8), "b", 10)
    found = kernel_sequences(scene.linked())
    assert found.is_empty(), "each stream is one run of one kernel"


def test_a_long_sequence_is_written_in_part() -> None:
    scene = Scene()
    host = scene.thread()
    for run in range(2):
        for number in range(MOST_NAMES + 5):
            host.launch(scene.stream(7), f"k{number}", 10)
        host.launch(scene.stream(7), f"behind {run}", 10)
    row = kernel_sequences(scene.linked()).row(0, named=True)
    assert row["length"] == MOST_NAMES + 5
    assert names(row) == [f"k{number}" for number in range(MOST_NAMES)]
    assert row["first_event"] == scene.of("k0")[0].event_id
