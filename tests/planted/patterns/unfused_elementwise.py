"""A product of two tensors, an addition and an activation, a kernel each, on 16 MiB."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_NS = 60_000
_BY_HAND_NS = _NS * 2 // 3 + _NS // 2
"""Of `mul` nothing, since others may need its result; of `add` what it reads of `mul`, and what it writes: two of
three tensors; of `relu` what it reads: one of two."""
SAVING_NS = (_BY_HAND_NS * STEPS, _BY_HAND_NS * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    full = [2048, 2048]
    for name, dims in (("aten::mul", [full] * 2), ("aten::add", [full, full, []]), ("aten::relu", [full])):
        with host.op(name, dims=dims):
            host.launch(stream, f"{name}_kernel", _NS)
