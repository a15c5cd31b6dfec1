"""Are the events of a chunk read as typed objects, and is the place of each known?"""

from __future__ import annotations

import json
from typing import Any

from tests.builders import Json, complete, flow, op
from tracebraid.importers.kineto.event import phases_of, read_events

COUNTER: Json = {"ph": "C", "name": "n", "pid": 1, "ts": 1, "args": {"v": 1}}
META: Json = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "p"}}
INSTANT: Json = {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "ts": 1, "pid": 1, "tid": 1}
USUAL = [op("a", 1, 2), flow("s", 1, 1), flow("f", 1, 2), META, INSTANT]


def read(values: list[Any]) -> tuple[list[Any], list[str], list[str]]:
    """(events, phases, codes of issues)."""
    data = json.dumps(values)[1:-1].encode()
    events, _, issues = read_events(data, 0, b"")
    phases = phases_of(events)
    return events, [str(phases.values[code]) for code in phases.codes], [issue.code for issue in issues]


def test_the_phases_that_kineto_writes_are_read() -> None:
    events, phases, issues = read(USUAL)
    assert phases == ["X", "s", "f", "M", "i"]
    assert (events[0].name, events[0].ts, events[0].dur, events[1].id) == ("a", 1.0, 2.0, 1)
    assert issues == []


def test_other_phases_are_read_beside_them() -> None:
    events, phases, issues = read([*USUAL, COUNTER, {"ph": "B", "ts": 1}])
    assert phases == ["X", "s", "f", "M", "i", "C", "B"]
    assert [event.name for event in events[:2]] == ["a", "ac2g"]
    assert issues == []


def test_wrong_types_of_members_do_not_cost_an_event() -> None:
    odd = {**op("b", 1, 2), "pid": [1], "tid": 1.5, "name": 7, "cat": 8, "ts": "3", "args": [1]}
    events, phases, issues = read([op("a", 1, 2), odd])
    assert phases == ["X", "X"]
    assert (events[1].name, events[1].cat, events[1].ts, events[1].pid) == ("7", "8", 3.0, "[1]")
    assert issues == []


def test_what_is_no_event_is_an_issue() -> None:
    events, _, issues = read([op("a", 1, 2), {"no": "phase"}, {"ph": 5}, op("b", 1, 2)])
    assert [event.name for event in events] == ["a", "b"]
    assert issues == ["event-unreadable", "event-unreadable"]


def test_places_and_texts_are_those_of_the_file() -> None:
    start = 1000
    for values in (USUAL, [*USUAL, COUNTER], [*USUAL, complete("b", "c", 1, 2, pid=[1], tid=1)]):
        data = (" " + ",\n ".join(map(json.dumps, values)) + "\n").encode()
        events, place, _ = read_events(data, start, b"")
        every = list(range(len(events)))
        assert [json.loads(text) for text in place.texts()] == values
        found = [data[byte - start :] for byte in place.bytes_of(every)]
        assert all(
            rest.lstrip().startswith(json.dumps(value).encode())
            for rest, value in zip(found, values, strict=True)
        )
