"""Time by Python function, against what was planted."""

from __future__ import annotations

from typing import Any

from tests.builders import op
from tests.planted import CALL_NS, Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.ops.python_frames import python_frames
from tracebraid.model.answers import PYTHON_FRAMES
from tracebraid.model.linked_trace import LinkedTrace


def by_name(linked: LinkedTrace, **options: Any) -> dict[str | None, dict[str, Any]]:
    return {row["name"]: row for row in python_frames(linked, **options).to_dicts()}


def test_ops_and_calls_are_time_of_the_function_around_them() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.frame("train.py(1): main", 100):
        with host.frame("net.py(5): forward", 10), host.op("aten::mm", 20):
            host.launch(stream, "gemm", 300)
        host.launch(stream, "add", 40)
    with host.op("alone", 7):
        host.launch(stream, "add", 1)
    found = by_name(scene.linked())
    main, inner = found["train.py(1): main"], found["net.py(5): forward"]
    assert (inner["host_self_ns"], inner["device_self_ns"], inner["kernels"]) == (30 + CALL_NS, 300, 1)
    assert (main["host_self_ns"], main["host_total_ns"]) == (100 + CALL_NS, 130 + 2 * CALL_NS)
    assert (main["device_self_ns"], main["device_total_ns"], main["is_user"]) == (40, 340, True)
    rest = found[None]
    assert (rest["calls"], rest["host_self_ns"], rest["device_self_ns"]) == (0, 7 + CALL_NS, 1)
    assert (rest["host_total_ns"], rest["device_total_ns"]) == (7 + CALL_NS, 1)


def test_a_function_inside_itself_counts_once_in_totals() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.frame("a.py(1): f", 10), host.frame("a.py(9): g", 5), host.frame("a.py(1): f", 3):
        host.launch(stream, "k", 30)
    row = by_name(scene.linked())["a.py(1): f"]
    assert (row["calls"], row["host_self_ns"]) == (2, 13 + CALL_NS)
    assert (row["host_total_ns"], row["device_total_ns"]) == (18 + CALL_NS, 30)


def test_built_in_methods_are_a_row_for_all_objects_of_a_type() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    for address in ("0x7f1a", "0x7f1b"):
        with host.frame(f"<built-in method to of Tensor object at {address}>", 4):
            pass
    row = by_name(scene.linked())["<built-in method to of Tensor>"]
    assert (row["calls"], row["host_self_ns"], row["is_user"]) == (2, 8, False)


def test_by_step_calls_count_where_they_started() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.frame("a.py(1): main", 1):
        for number in (1, 2):
            with host.step(number, 2), host.frame("a.py(9): g", 5):
                pass
    rows = python_frames(scene.linked(), per_step=True).to_dicts()
    assert [(r["step"], r["name"], r["calls"], r["host_self_ns"]) for r in rows] == [
        (None, "a.py(1): main", 1, 1),
        ("ProfilerStep#1", "a.py(9): g", 1, 5),
        ("ProfilerStep#1", "a.py(1): main", 0, 2),
        ("ProfilerStep#2", "a.py(9): g", 1, 5),
        ("ProfilerStep#2", "a.py(1): main", 0, 2),
    ]


def test_without_functions_there_is_no_row() -> None:
    assert python_frames(linked_of([op("a", 0, 10)])).equals(PYTHON_FRAMES.empty())
    assert python_frames(linked_of([])).equals(PYTHON_FRAMES.empty())
