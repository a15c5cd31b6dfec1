"""Changes of the numbers by which events are joined: correlations, ids of ops, threads, streams, devices, arrows."""

from __future__ import annotations

import random
from typing import Any

from tools.fuzz.mutations.trace_files import NUMBERS, ODD, Change, Json, complete_events, of_category, some

__all__ = ["IDS"]

_ID_KEYS = (
    "correlation", "External id", "Record function id", "Sequence number", "Fwd thread id", "graph id",
    "graph node id", "Python id", "Python parent id", "Python module id", "Ev Idx", "cbid",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id",
)  # fmt: skip
_DEVICE_KEYS = ("stream", "device", "context")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation")


def _with_arg(data: Json, key: str) -> list[Json]:
    return [event for event in data["traceEvents"] if key in event.get("args", {})]


def _set_args(data: Json, key: str, values: tuple[Any, ...], rng: random.Random) -> None:
    value = rng.choice(values)
    for event in some(_with_arg(data, key), rng):
        event["args"][key] = value


def odd_ids(data: Json, rng: random.Random) -> None:
    """An id of some events is a number that stands for nothing, or no number."""
    _set_args(data, rng.choice(_ID_KEYS), ODD, rng)


def equal_ids(data: Json, rng: random.Random) -> None:
    """Some events have the id of another."""
    key = rng.choice(_ID_KEYS)
    found = _with_arg(data, key)
    for event in some(found, rng):
        event["args"][key] = rng.choice(found)["args"][key]


def without_ids(data: Json, rng: random.Random) -> None:
    """Some events lack an id."""
    key = rng.choice(_ID_KEYS)
    for event in some(_with_arg(data, key), rng):
        del event["args"][key]


def odd_streams(data: Json, rng: random.Random) -> None:
    """Work of the device is on a stream or device that is none, or that its track does not name."""
    _set_args(data, rng.choice(_DEVICE_KEYS), ODD, rng)


def odd_threads(data: Json, rng: random.Random) -> None:
    """Some events are of a thread or process with another id, also as text."""
    key, value = rng.choice(("tid", "pid")), rng.choice((*NUMBERS, "1", "thread 7", "stream 7", "", None))
    for event in some(complete_events(data), rng):
        event[key] = str(event[key]) if value == "1" else value


def other_thread(data: Json, rng: random.Random) -> None:
    """Some events are on the thread or stream of another."""
    events = complete_events(data)
    for event in some(events, rng):
        event["tid"] = rng.choice(events)["tid"]


def odd_arrows(data: Json, rng: random.Random) -> None:
    """Arrows between events begin elsewhere, never end, or have the id of another."""
    arrows = [event for event in data["traceEvents"] if event.get("ph") in ("s", "f")]
    key = rng.choice(("id", "ts", "ph", "tid", "cat"))
    for event in some(arrows, rng):
        event[key] = rng.choice(arrows)[key] if rng.random() < 0.7 else rng.choice(ODD[:17])


def without_launches(data: Json, rng: random.Random) -> None:
    """Some calls of the runtime are missing: nothing launched their work."""
    gone = [id(event) for event in some(of_category(data, "cuda_runtime", "cuda_driver"), rng)]
    data["traceEvents"] = [event for event in data["traceEvents"] if id(event) not in gone]


def without_work(data: Json, rng: random.Random) -> None:
    """Some work of the device is missing: its launches launched nothing."""
    gone = [id(event) for event in some(of_category(data, *_DEVICE), rng)]
    data["traceEvents"] = [event for event in data["traceEvents"] if id(event) not in gone]


IDS: tuple[Change, ...] = (
    odd_ids, equal_ids, without_ids, odd_streams, odd_threads, other_thread, odd_arrows, without_launches,
    without_work,
)  # fmt: skip
