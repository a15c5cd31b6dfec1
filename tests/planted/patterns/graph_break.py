"""Each step runs several compiled regions, with Python between them, for longer than the device has work."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread
from tests.planted.training_loop import STEPS, training_loop

_PYTHON_NS = 20_000_000
_REGIONS = 3
SAVING_NS = STEPS * 10_000_000, STEPS * (_REGIONS - 1) * _PYTHON_NS


def planted() -> Scene:
    """The device runs dry between the regions."""
    return training_loop(_regions)


def _regions(host: Thread, stream: Stream, _: int) -> None:
    for region in range(_REGIONS):
        with host.op(f"Torch-Compiled Region: {region}/0"):
            host.launch(stream, "triton_poi_fused_0", 1_000_000, api="cuLaunchKernel")
        if region < _REGIONS - 1:
            host.spend(_PYTHON_NS)
