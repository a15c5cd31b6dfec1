"""Observers of the program's own: PyTorch's, ours of both kinds, several at once, left to the garbage collector."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import torch

import tracebraid
from tools.stress.model import Scenario
from tools.stress.run import Run
from tracebraid.errors import CaptureError


def work(run: Run) -> None:
    """Observers are registered, started, dropped and collected at random."""
    kept: list[Any] = []
    with run.captured() as step:
        for number in range(14):
            for count in range(run.random.randrange(3)):
                _register(run, kept, run.folder / f"et_{number}_{count}.json")
            if kept and run.random.random() < 0.5:
                kept.pop(run.random.randrange(len(kept)))
            if run.random.random() < 0.3:
                gc.collect()
            step()
    kept.clear()
    gc.collect()
    for path in run.folder.glob("et_*.json"):
        json.loads(path.read_bytes())
        path.unlink()


def _register(run: Run, kept: list[Any], path: Path) -> None:
    observer = tracebraid.ExecutionTraceObserver("native")
    try:
        observer.register_callback(path)
    except CaptureError:
        # Four recorders may be open at once.
        return
    observer.start()
    torch.ones(2).add(1)
    kept.append(observer)
    if run.random.random() < 0.2:
        # A cycle, which only the garbage collector ends.
        observer.myself = observer  # type: ignore[attr-defined]


SCENARIO = Scenario(
    "native observers of the program's own, several at once, collected at random", work, may_lose=True
)
