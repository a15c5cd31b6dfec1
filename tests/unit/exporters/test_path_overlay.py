"""The overlay: a Chrome trace with the path's segments on lanes of their own, and arrows along it."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

import tracebraid
from tests.builders import Json
from tests.planted import Cause, PlannedJob
from tracebraid.errors import OutputError
from tracebraid.exporters.path_overlay import overlay_chunks
from tracebraid.model.graph.critical_path import CriticalPath


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> CriticalPath:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(100_000)
            job.delay(number % 2, Cause.KERNEL, 400_000)
            job.collective("allreduce")
    folder = job.write(tmp_path_factory.mktemp("job"))
    return tracebraid.critical_path(tracebraid.open(folder), replays=5)


@pytest.fixture(scope="module")
def overlay(path: CriticalPath) -> Json:
    return json.loads(b"".join(overlay_chunks(path)))


def of_phase(overlay: Json, phase: str) -> list[Json]:
    return [event for event in overlay["traceEvents"] if event["ph"] == phase]


def test_each_segment_is_an_event_at_its_time(path: CriticalPath, overlay: Json) -> None:
    events = of_phase(overlay, "X")
    base = overlay["baseTimeNanoseconds"]
    times = [(base + round(1000 * event["ts"]), round(1000 * event["dur"])) for event in events]
    assert times == path.segments.select("start_ns", "duration_ns").rows()
    assert [event["args"]["order"] for event in events] == path.segments["order"].to_list()


def test_an_arrow_leads_from_each_segment_to_the_next_of_its_step(path: CriticalPath, overlay: Json) -> None:
    starts, ends = of_phase(overlay, "s"), of_phase(overlay, "f")
    assert len(starts) == len(ends) == path.segments.height - path.steps.height > 0
    assert [event["id"] for event in starts] == [event["id"] for event in ends]
    assert len({event["id"] for event in starts}) == len(starts)
    at = {(event["pid"], event["tid"], event["ts"]) for event in of_phase(overlay, "X")}
    for event in (*starts, *ends):
        assert (event["pid"], event["tid"], event["ts"]) in at


def test_events_of_a_lane_do_not_overlap_and_every_lane_has_a_name(overlay: Json) -> None:
    lanes = defaultdict(list)
    for event in of_phase(overlay, "X"):
        lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(spans))
    named = [event for event in of_phase(overlay, "M") if event["name"] == "thread_name"]
    assert {(event["pid"], event["tid"]) for event in named} == set(lanes)
    assert {pid for pid, _ in lanes} == {0, 1}


def test_equal_paths_give_equal_bytes_and_no_file_is_replaced(path: CriticalPath, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    tracebraid.write_path_overlay(path, first)
    tracebraid.write_path_overlay(path, second)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == b"".join(overlay_chunks(path))
    with pytest.raises(OutputError):
        tracebraid.write_path_overlay(path, first)
    assert tracebraid.read_timeline(first).events.height == path.segments.height


def test_a_path_of_nothing_is_well_formed(path: CriticalPath) -> None:
    from dataclasses import replace

    empty = replace(path, segments=path.segments.clear(), steps=path.steps.clear())
    assert json.loads(b"".join(overlay_chunks(empty)))["traceEvents"] == []
