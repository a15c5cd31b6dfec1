"""Flame graphs as files, read back: speedscope's profiles and collapsed stacks hold what the table holds."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest

from tracebraid.exporters.flames.collapsed import collapsed_lines, escaped
from tracebraid.exporters.flames.speedscope import (
    FrameNames,
    speedscope_end,
    speedscope_profile,
    speedscope_start,
)
from tracebraid.model.answers import FLAME_FRAMES

HOSTILE = [
    "a;b",
    "new\nline\r\n",
    "</script><script>",
    "100%3B",
    "quote\" ' back\\slash",
    "\x00\x1b[31m\x7f\x85\u2028",
    "\u202ertl 🙂 é",
    "x" * 10_000,
    "ends with 12",
    " ",
]


def frames_of(rows: list[tuple[int | None, str, int]]) -> pl.DataFrame:
    """A tree: parent, name and self time of each frame, parents first, in the order of depth."""
    depth: list[int] = []
    total = [own for _, _, own in rows]
    for parent, _, _ in rows:
        depth.append(0 if parent is None else depth[parent] + 1)
    for number in range(len(rows) - 1, -1, -1):
        parent = rows[number][0]
        if parent is not None:
            total[parent] += total[number]
    return FLAME_FRAMES.conform(
        pl.DataFrame(
            {
                "rank": 0,
                "tree": "host",
                "frame": range(len(rows)),
                "parent": [parent for parent, _, _ in rows],
                "name": [name for _, name, _ in rows],
                "kind": "op",
                "depth": depth,
                "count": 1,
                "self_ns": [own for _, _, own in rows],
                "total_ns": total,
            }
        )
    )


TREE = frames_of([(None, "a", 5), (None, "b", 0), (0, "c", 7), (0, "b", 1), (1, "c", 2**52), (3, "a", 3)])
STACKS = {("a",): 5, ("a", "c"): 7, ("a", "b"): 1, ("a", "b", "a"): 3, ("b", "c"): 2**52}


def own_times(profile: dict[str, Any], names: list[str]) -> dict[tuple[str, ...], int]:
    """Self times by stack of an evented profile; its events must be in order and balanced."""
    times: dict[tuple[str, ...], int] = defaultdict(int)
    stack: list[int] = []
    at = profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= at
        times[tuple(names[frame] for frame in stack)] += event["at"] - at
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert event["type"] == "C"
            assert stack.pop() == event["frame"]
    assert not stack
    assert at <= profile["endValue"]
    return {path: time for path, time in times.items() if time}


def speedscope(*trees: pl.DataFrame) -> dict[str, Any]:
    shared = FrameNames()
    chunks = [speedscope_start("title")]
    for number, tree in enumerate(trees):
        chunks += [b","] if number else []
        chunks += speedscope_profile(tree, f"profile {number}", shared)
    found: dict[str, Any] = json.loads(b"".join([*chunks, *speedscope_end(shared)]))
    return found


def test_a_profile_of_speedscope_has_the_self_time_of_each_stack() -> None:
    found = speedscope(TREE, TREE[:1])
    names = [frame["name"] for frame in found["shared"]["frames"]]
    assert len(set(names)) == len(names)
    assert own_times(found["profiles"][0], names) == STACKS
    assert found["profiles"][0]["endValue"] == sum(STACKS.values())
    assert [profile["name"] for profile in found["profiles"]] == ["profile 0", "profile 1"]


def test_a_file_of_speedscope_has_the_members_that_its_schema_demands() -> None:
    found = speedscope(TREE)
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in found["shared"]["frames"])
    for profile in found["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}
        assert profile["type"] == "evented"
        assert profile["unit"] == "nanoseconds"
        assert all(set(event) == {"type", "frame", "at"} for event in profile["events"])
        assert all(0 <= event["frame"] < len(found["shared"]["frames"]) for event in profile["events"])


def test_a_line_of_collapsed_stacks_is_a_stack_and_its_self_time() -> None:
    lines = b"".join(collapsed_lines(TREE, ("rank 0", "host time"))).decode().splitlines()
    found = {}
    for line in lines:
        stack, _, own = line.rpartition(" ")
        first, second, *names = stack.split(";")
        assert (first, second) == ("rank 0", "host time")
        found[tuple(names)] = int(own)
    assert found == STACKS


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_one_frame_and_can_be_read_back(name: str) -> None:
    assert unquote(escaped(name)) == name
    tree = frames_of([(None, name, 4), (0, "in it", 6)])
    lines = b"".join(collapsed_lines(tree, ())).decode().splitlines()
    assert [[unquote(part) for part in line.rpartition(" ")[0].split(";")] for line in lines] == [
        [name],
        [name, "in it"],
    ]
    found = speedscope(tree)
    assert own_times(found["profiles"][0], [frame["name"] for frame in found["shared"]["frames"]]) == {
        (name,): 4,
        (name, "in it"): 6,
    }
