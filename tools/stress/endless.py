"""Records window after window until it is ended: `python -m tools.stress.endless KIND RECORDER FOLDER`."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import torch

import tracebraid
from tools.stress.run import Network

READY = "ready"
"""The file that appears in the folder with the first window."""
_REST_S = 0.03
"""After each step: several of these run beside the scenarios."""
_WINDOWS = 1_000_000


def main(kind: str, recorder: str, folder: str) -> None:
    """Record for ever."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    {"capture": _capture, "observers": _observe}[kind](Path(folder), recorder)


def _capture(folder: Path, recorder: str) -> None:
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tracebraid.capture(
        folder / "out", skip_first=0, wait=1, warmup=1, active=2, repeat=_WINDOWS, recorder=recorder
    ) as capture:
        while True:
            _train(model, optimizer)
            capture.step()
            if capture.windows:
                (folder / READY).touch()
            for window in (folder / "out").glob("window_*"):
                # All but the one that may be written now.
                if int(window.name.removeprefix("window_")) + 1 < len(capture.windows):
                    shutil.rmtree(window)
            time.sleep(_REST_S)


def _observe(folder: Path, recorder: str) -> None:
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        observer = tracebraid.ExecutionTraceObserver(recorder)
        observer.register_callback(folder / "et.json.gz")
        observer.start()
        _train(model, optimizer)
        observer.stop()
        observer.unregister_callback()
        (folder / READY).touch()
        time.sleep(_REST_S)


def _train(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.rand(16, 8)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
