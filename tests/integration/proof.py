"""Proves what manifests say from the files beside them, as they are on the disk."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.builders import Json
from tests.integration.captured import assert_sound, manifest_of
from tracebraid.model.linked_trace import LinkedTrace

STEP = "ProfilerStep#"


def proven(folder: Path, world: int = 1, windows: int = 1) -> list[Json]:
    """The manifest of each rank: the files link in full, each statement is true, and nothing else lies there."""
    assert [str(path) for path in folder.rglob(".*")] == []
    for linked in assert_sound(folder, world, windows):
        assert_linked_names_are_equal(linked)
    manifests = [manifest_of(folder, rank) for rank in range(world)]
    for manifest in manifests:
        for window in manifest["windows"]:
            assert_window_is_of_this_rank(folder, window, manifest)
        assert_cost_is_consistent(manifest)
    return manifests


def load(path: Path) -> Json:
    data: Json = json.loads(gzip.decompress(path.read_bytes()))
    return data


def events_of(folder: Path, rank: int = 0) -> list[Json]:
    """The events of a rank's Kineto trace."""
    events: list[Json] = load(folder / f"kineto_trace_{rank}.json.gz")["traceEvents"]
    return events


def assert_linked_names_are_equal(linked: LinkedTrace) -> None:
    assert linked.et is not None
    name_of = {
        "event": dict(linked.timeline.events.select("event_id", "name").iter_rows()),
        "node": dict(linked.et.nodes.select("node_id", "name").iter_rows()),
    }
    pairs = [row for row in linked.host_links.select("event_id", "node_id").iter_rows() if row[1] is not None]
    assert [name_of["event"][event] for event, _ in pairs] == [name_of["node"][node] for _, node in pairs]


def assert_window_is_of_this_rank(folder: Path, window: Json, manifest: Json) -> None:
    kineto, et = (folder / file["path"] for file in window["files"])
    assert et.name == f"torch_et_{manifest['rank']}.json.gz"
    trace = load(kineto)
    numbers = [
        int(event["name"].removeprefix(STEP))
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["name"].startswith(STEP)
    ]
    assert sorted(numbers) == window["steps"]
    if manifest["backend"] is not None:
        place = trace["distributedInfo"]
        assert [place[key] for key in ("rank", "world_size", "backend")] == [
            manifest[key] for key in ("rank", "world_size", "backend")
        ]


def assert_cost_is_consistent(manifest: Json) -> None:
    """Of the steps that ended inside of windows, and of those outside: medians, and their ratio."""
    cost = manifest["overhead"]
    recorded = [step for window in manifest["windows"] for step in window["steps"]]
    assert cost["traced_steps"] == sum(step < manifest["steps_seen"] for step in recorded)
    for kind in ("traced", "untraced"):
        median = cost[f"{kind}_step_median_ns"]
        assert median > 0 if cost[f"{kind}_steps"] else median is None
    ratio = None
    if cost["traced_steps"] and cost["untraced_steps"]:
        ratio = round(cost["traced_step_median_ns"] / cost["untraced_step_median_ns"], 3)
    assert cost["traced_to_untraced"] == ratio
