"""The program traces and profiles its own Python code, and changes how the interpreter works."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from types import FrameType
from typing import Any

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """`sys.settrace`, `sys.setprofile`, tracemalloc, gc callbacks and debug flags, a tiny switch interval."""
    calls = [0]

    def note_call(frame: FrameType, event: str, argument: Any) -> Any:
        calls[0] += 1
        return note_call if calls[0] % 50 == 0 else None

    kind = run.random.choice(["trace", "profile", "both", "tracemalloc", "switch", "gc"])
    at, until = run.random.randrange(6), run.random.randrange(6, 12)
    with run.captured() as step:
        for number in range(12):
            if number == at:
                _begin(kind, note_call)
            step()
            if number == until:
                assert kind not in ("trace", "both") or sys.gettrace() is note_call
                assert kind not in ("profile", "both") or sys.getprofile() is note_call
                _end(kind)
    _end(kind)


def _begin(kind: str, note_call: Any) -> None:
    if kind in ("trace", "both"):
        sys.settrace(note_call)
        threading.settrace(note_call)
    if kind in ("profile", "both"):
        sys.setprofile(note_call)
    if kind == "tracemalloc":
        tracemalloc.start(5)
    if kind == "switch":
        sys.setswitchinterval(1e-6)
    if kind == "gc":
        gc.freeze()
        gc.set_threshold(1, 1, 1)


def _end(kind: str) -> None:
    sys.settrace(None)
    threading.settrace(None)
    sys.setprofile(None)
    if kind == "tracemalloc" and tracemalloc.is_tracing():
        tracemalloc.stop()
    if kind == "gc":
        gc.unfreeze()
        gc.set_threshold(700, 10, 10)


SCENARIO = Scenario("sys.settrace, sys.setprofile, tracemalloc, gc.freeze, a switch interval of 1 µs", work)
