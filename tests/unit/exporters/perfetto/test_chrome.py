"""Chrome JSON against the protobuf of the same process: the same content."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given, settings

from tests.perfetto_trace import shown
from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.unit.exporters.perfetto.test_protobuf import events_of, process_of
from tracebraid.exporters.perfetto.chrome import CHROME
from tracebraid.exporters.perfetto.content import Counter as Series
from tracebraid.exporters.perfetto.content import Process, Unit
from tracebraid.exporters.perfetto.protobuf import PROTOBUF

_BASE_NS = 1_700_000_000_000_000_000


def events_in(process: Process, base_ns: int = _BASE_NS) -> list[dict[str, Any]]:
    text = b"".join(CHROME.chunks([CHROME.process(process, base_ns)], base_ns))
    found = json.loads(text, parse_float=Decimal)
    assert found["baseTimeNanoseconds"] == base_ns
    events: list[dict[str, Any]] = found["traceEvents"]
    return events


def ns(us: Any, base_ns: int = 0) -> int:
    exact = Decimal(us) * 1000
    assert exact == int(exact)
    return int(exact) + base_ns


@settings(max_examples=15, deadline=None)
@given(scenes())
def test_every_event_is_there_with_the_times_arguments_and_flows_of_protobuf(scene: Scene) -> None:
    linked = scene.linked()
    process = process_of(linked)
    events = events_in(process)
    found = Counter(
        (event["name"], event["cat"], ns(event["ts"], _BASE_NS), ns(event.get("dur", 0)))
        for event in events
        if event["ph"] in "Xi"
    )
    assert found == events_of(linked)
    pairs = shown(b"".join(PROTOBUF.process(process, 0)))
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            flows[event["id"]].append((event["ph"], ns(event["ts"], _BASE_NS)))
    expected = defaultdict(list)
    for slice_ in pairs.slices:
        for flow in slice_.flows:
            expected[flow].append(slice_.ts)
    assert {flow: sorted(ts for _, ts in ends) for flow, ends in flows.items()} == {
        flow: sorted(starts) for flow, starts in expected.items()
    }
    assert all(sorted(phase for phase, _ in ends) == ["f", "s"] for ends in flows.values())
    args = Counter((event["name"], frozenset(event["args"])) for event in events if event["ph"] in ("X", "i"))
    assert args == Counter((s.name, frozenset(s.args)) for s in pairs.slices)


def test_counters_keep_their_values() -> None:
    process = process_of(Scene().linked())
    ts = np.array([_BASE_NS, _BASE_NS + 1], dtype=np.int64)
    series = (
        Series("a", Unit.COUNT, ts, np.array([1, 2**53 + 1], dtype=np.int64)),
        Series('b"', Unit.BYTES_PER_S, ts, np.array([0.1, 1e300])),
    )
    counted = Process(0, "p", ("label",), process.lanes, process.slices, series)
    found = [event for event in events_in(counted) if event["ph"] == "C"]
    assert [(event["name"], ns(event["ts"], _BASE_NS)) for event in found] == [
        (name, int(at)) for name in ("a", 'b"') for at in ts
    ]
    assert [float(value) for event in found for value in event["args"].values()] == [1, 2.0**53, 0.1, 1e300]
    assert found[1]["args"]["count"] == 2**53 + 1


def test_hostile_texts_and_numbers_stay_json() -> None:
    names = ["</script>", 'quote " and \\', "\u202e", "\x00\x1f\u2028", "k" * 10_000, "😀", "{}", "%"]
    scene = Scene()
    for start, name in enumerate(names):
        scene.raw(
            {
                "ph": "X",
                "cat": "kernel",
                "name": name,
                "pid": 0,
                "tid": 7,
                "ts": start * 10,
                "dur": 5,
                "args": {name: name, "Input Dims": "[", "est. achieved occupancy %": 1e308},
            }
        )
    events = [event for event in events_in(process_of(scene.linked())) if event.get("cat") == "kernel"]
    assert [event["name"] for event in events] == names
    assert [event["args"][event["name"]] for event in events] == names


def test_times_before_the_base_are_exact_too() -> None:
    scene = Scene()
    with scene.thread().op("aten::add"):
        pass
    process = process_of(scene.linked())
    start = int(process.slices.ts_ns[0])
    (event,) = [event for event in events_in(process, start + 1_234) if event["ph"] == "X"]
    assert ns(event["ts"], start + 1_234) == start


def test_a_process_of_nothing_is_json() -> None:
    assert {event["ph"] for event in events_in(process_of(Scene().linked()))} == {"M"}
