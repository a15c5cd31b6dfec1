"""The names of events."""

from __future__ import annotations

from tests.planted import Scene
from tracebraid.analysis.event_names import event_names


def test_each_name_once_in_the_order_of_the_file() -> None:
    scene = Scene()
    host = scene.thread()
    for name in ("b", "a", "b", "c"):
        host.run(name, 5)
    assert event_names(scene.linked()) == ["b", "a", "c"]


def test_no_events_have_no_names() -> None:
    assert event_names(Scene().linked()) == []
