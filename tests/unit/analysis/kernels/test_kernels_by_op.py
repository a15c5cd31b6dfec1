"""Which op launched which kernels."""

from __future__ import annotations

from tests.planted import Scene
from tracebraid.analysis.kernels.kernels_by_op import kernels_by_op
from tracebraid.model.linked_trace import LinkedTrace


def two_ops_and_none() -> LinkedTrace:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for _ in range(2):
        with host.op("aten::mm"):
            host.launch(stream, "splitKreduce_kernel", 300)
            host.fill(stream, 64, 100)
    with host.annotation("my step"):
        host.launch(stream, "splitKreduce_kernel", 200)
    stream.run("before", 50)
    return scene.linked()


def test_a_kernel_belongs_to_the_innermost_op_around_its_launch() -> None:
    found = kernels_by_op(two_ops_and_none())
    columns = ("op", "op_category", "kind", "family", "family_by", "name", "count", "total_ns")
    assert found.select(columns).rows() == [
        ("aten::mm", "cpu_op", "compute", "gemm", "op", "splitKreduce_kernel", 2, 600),
        ("aten::mm", "cpu_op", "memory", "fill", "kind", "Memset (Device)", 2, 200),
        ("my step", "user_annotation", "compute", "gemm", "name", "splitKreduce_kernel", 1, 200),
        (None, None, "compute", "other", None, "before", 1, 50),
    ]
    assert found.select("mean_ns", "min_ns", "max_ns", "std_ns").row(0) == (300.0, 300, 300, 0.0)
    assert found.get_column("share").sum() == 1.0
