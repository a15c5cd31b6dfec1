"""What a trace shows of itself: brief, and nothing that was recorded."""

from __future__ import annotations

from pathlib import Path

import tracebraid
from tests.builders import node, op
from tests.unit.linking.made import et_of, linked_of

MOST_CHARACTERS = 1000
SECRET = "a-token-of-the-environment"


def test_a_linked_trace_shows_itself_in_brief(demo: Path) -> None:
    job = tracebraid.open(demo)
    for shown in (repr(job[0]), repr(job[0].timeline), repr(job[0].et), repr(job)):
        assert len(shown) < MOST_CHARACTERS
    assert job[0].timeline.path in repr(job[0])


def test_what_was_recorded_is_not_shown() -> None:
    nodes = et_of(node(5, "op", 1001, inputs=[("String", SECRET, [])], rf_id=3))
    events = [op(SECRET, 0, 10, Record_function_id=3, Concrete_Inputs=[SECRET])]
    linked = linked_of(events, nodes, header={"environment": {"TOKEN": SECRET}})
    assert SECRET not in repr(linked)
