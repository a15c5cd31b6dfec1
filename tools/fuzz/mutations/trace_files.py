"""Changes of what traces say: of one rank's file as parsed JSON, which stays valid JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tools.fuzz.model import Files, Mutation

__all__ = [
    "BIG",
    "NUMBERS",
    "ODD",
    "Change",
    "Json",
    "complete_events",
    "in_one_et",
    "in_one_trace",
    "of_category",
    "one_of",
    "some",
]

Json = dict[str, Any]

Change = Callable[[Json, random.Random], None]
"""Changes a parsed file in place."""

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 7, -7, 0.5, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 1e300,
)  # fmt: skip
"""Numbers at which some type ends."""

ODD: tuple[Any, ...] = (*NUMBERS, None, "", "x", "7", "-1", True, [], {}, [1], [[]], "[]", {"a": 1})
"""Values of every type."""

BIG: tuple[int, ...] = (2**31, 2**53 + 1, 2**62, 2**63 - 1)


def in_one_trace(change: Change) -> Mutation:
    """A mutation of one rank's Kineto trace."""
    return _in_one("kineto_trace", change)


def in_one_et(change: Change) -> Mutation:
    """A mutation of one rank's Execution Trace; of a job that has none, nothing."""
    return _in_one("torch_et", change)


def _in_one(prefix: str, change: Change) -> Mutation:
    def mutate(files: Files, rng: random.Random) -> Files:
        paths = [path for path in sorted(files) if path.startswith(prefix)]
        if not paths:
            return files
        path = rng.choice(paths)
        data = json.loads(files[path])
        change(data, rng)
        return {**files, path: json.dumps(data).encode()}

    mutate.__name__ = change.__name__
    return mutate


def complete_events(data: Json) -> list[Json]:
    """The events that have a duration."""
    return [event for event in data["traceEvents"] if event.get("ph") == "X"]


def of_category(data: Json, *categories: str) -> list[Json]:
    """The events of these categories."""
    return [event for event in data["traceEvents"] if event.get("cat") in categories]


def some(items: list[Json], rng: random.Random) -> list[Json]:
    """One of them, a few, or all, in their order."""
    share = rng.choice((0.0, 0.0, 0.1, 0.5, 1.0))
    found = [item for item in items if rng.random() < share]
    return found or ([rng.choice(items)] if items else [])


def one_of(items: list[Json], rng: random.Random) -> list[Json]:
    """One of them, if there are any."""
    return [rng.choice(items)] if items else []
