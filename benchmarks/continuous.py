"""Recording for minutes on end: how memory and disk grow.

    python -m benchmarks.continuous [SECONDS]

Needs torch, and room for 50 MB a second in the folder of temporary files.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.overhead import small_ops
from tracebraid.recorders.native.recorder import NativeRecorder

__all__: list[str] = []

_LINES = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a small model for so long, recorded, and print what the process holds."""
    seconds = float((arguments or ["600"])[0])
    torch.set_num_threads(1)
    step = small_ops()
    for _ in range(100):
        step()
    before = _resident_bytes()
    with tempfile.TemporaryDirectory() as folder:
        recorder = NativeRecorder(Path(folder) / "et.json")
        recorder.open()
        recorder.start()
        begin, told, steps = time.monotonic(), 0, 0
        while time.monotonic() - begin < seconds:
            step()
            steps += 1
            if time.monotonic() - begin >= seconds * (told + 1) / _LINES:
                told += 1
                grown = _resident_bytes() - before
                print(f"{time.monotonic() - begin:6.0f} s {steps:9} steps {grown / 1e6:+7.1f} MB", flush=True)
        recorder.discard()
    counts = recorder.counts
    sizes = {name: getattr(counts, f"{name}_bytes") for name in ("recorded", "spilled", "peak", "lost")}
    print(", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items()))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main(sys.argv[1:])
