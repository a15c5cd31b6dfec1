"""Collections of all objects are annotations of the trace; others are not."""

from __future__ import annotations

import gc

import torch

from tracebraid.model.capture_facts import GARBAGE
from tracebraid.recorders.session.garbage_marks import GarbageMarks


def names_recorded(collect: int) -> list[str]:
    marks = GarbageMarks()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        marks.begin()
        gc.collect(collect)
        marks.end()
        gc.collect(2)
    return [event.name for event in profiler.events() if event.name == GARBAGE]


def test_a_whole_collection_is_marked_while_it_is_recorded() -> None:
    assert names_recorded(2) == [GARBAGE]
    assert names_recorded(0) == []
    assert not any(isinstance(getattr(call, "__self__", None), GarbageMarks) for call in gc.callbacks)


def test_marks_that_the_program_removed_end_quietly() -> None:
    marks = GarbageMarks()
    marks.begin()
    gc.callbacks.clear()
    marks.end()
