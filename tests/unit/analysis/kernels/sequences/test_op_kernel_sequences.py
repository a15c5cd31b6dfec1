"""What each op launches itself, and its delays."""

from __future__ import annotations

import json

from tests.planted import CALL_NS, LATENCY_NS, Scene
from tracebraid.analysis.kernels.sequences.op_kernel_sequences import op_kernel_sequences


def test_ops_are_apart_by_what_they_launch() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for kernels in (["fill", "gemm"], ["gemm"], ["gemm"]):
        with host.op("aten::mm", ns=2_000):
            for name in kernels:
                host.launch(stream, name, 100)
    found = op_kernel_sequences(scene.linked()).rows(named=True)
    rows = [(json.loads(row["pattern"]), row["length"], row["count"], row["device_ns"]) for row in found]
    assert rows == [(["fill", "gemm"], 2, 1, 200), (["gemm"], 1, 2, 200)]
    assert {row["op_launch_delay_ns"] for row in found} == {2_000.0}
    assert {row["runtime_delay_ns"] for row in found} == {float(CALL_NS + LATENCY_NS)}


def test_an_op_on_another_thread_keeps_its_kernels() -> None:
    """Both run at the same time on one stream: by times alone the kernels would be of either."""
    scene = Scene()
    first, second, stream = scene.thread(), scene.thread(), scene.stream(7)
    with first.op("a"), second.op("b"):
        for _ in range(2):
            first.launch(stream, "of a", 10)
            second.launch(stream, "of b", 10)
    found = op_kernel_sequences(scene.linked())
    patterns = {row["op"]: json.loads(row["pattern"]) for row in found.rows(named=True)}
    assert patterns == {"a": ["of a", "of a"], "b": ["of b", "of b"]}


def test_kernels_belong_to_the_innermost_op() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.op("aten::linear"), host.op("aten::addmm"):
        host.launch(stream, "gemm", 10)
    assert op_kernel_sequences(scene.linked()).get_column("op").to_list() == ["aten::addmm"]
