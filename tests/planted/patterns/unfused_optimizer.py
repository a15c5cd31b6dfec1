"""An optimizer with two ops for each of twenty parameters, of 4 us each."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.busy import STEPS, busy

_PARAMETERS, _NS = 20, 4_000
_LEAST = _PARAMETERS * (_NS - 2_000)
SAVING_NS = ((2 * _PARAMETERS * _NS - _LEAST) * STEPS, (2 * _PARAMETERS * _NS - _LEAST) * STEPS)


def planted() -> Scene:
    """The scene."""
    return busy(_body)


def _body(scene: Scene, host: Thread, stream: Stream) -> None:
    with host.annotation("Optimizer.step#RMSprop.step"):
        for _ in range(_PARAMETERS):
            for name in ("aten::mul_", "aten::addcdiv_"):
                with host.op(name, dims=[[1024, 256]]):
                    host.launch(stream, "elementwise_kernel", _NS)
