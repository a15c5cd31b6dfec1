"""Changes of steps, and of which events a trace holds at all."""

from __future__ import annotations

import random

from tools.fuzz.mutations.trace_files import Change, Json, complete_events, of_category, one_of, some

__all__ = ["STEPS"]

_NUMBERS = (
    "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#", "ProfilerStep#-1", "ProfilerStep#99999999999999999999",
    "ProfilerStep#1.5", "ProfilerStep#x", "ProfilerStep", "ProfilerStep*", "ProfilerStep#02", "ProfilerStep#2 ",
)  # fmt: skip
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}


def _steps(data: Json) -> list[Json]:
    return [event for event in complete_events(data) if str(event.get("name", "")).startswith("ProfilerStep")]


def step_names(data: Json, rng: random.Random) -> None:
    """Steps have the number of another, or none."""
    name = rng.choice(_NUMBERS)
    for event in some(_steps(data), rng):
        event["name"] = name


def step_times(data: Json, rng: random.Random) -> None:
    """Steps overlap, nest, are empty, long, or elsewhere."""
    steps = _steps(data)
    for event in some(steps, rng):
        other, how = rng.choice(steps), rng.randrange(5)
        event["ts"] = (other["ts"], other["ts"] + other["dur"] / 2, event["ts"] + 1e6, event["ts"], 0)[how]
        event["dur"] = (event["dur"], event["dur"] * 2, event["dur"], 0, 1e9)[how]


def steps_gone(data: Json, rng: random.Random) -> None:
    """Some steps are missing."""
    gone = [id(event) for event in some(_steps(data), rng)]
    data["traceEvents"] = [event for event in data["traceEvents"] if id(event) not in gone]


def more_steps(data: Json, rng: random.Random) -> None:
    """Other events are steps, too; also of another thread or on a device."""
    for event in some(complete_events(data), rng)[:9]:
        event["name"], event["cat"] = rng.choice(_NUMBERS), rng.choice(("user_annotation", event.get("cat")))


def only_device(data: Json, rng: random.Random) -> None:
    """Nothing of the host was recorded, or nothing of the device."""
    keeps = rng.random() < 0.5
    data["traceEvents"] = [event for event in data["traceEvents"] if (event.get("cat") in _DEVICE) == keeps]


def only_one_kind(data: Json, rng: random.Random) -> None:
    """Only events of one category, or none of it."""
    kinds = sorted({str(event.get("cat")) for event in data["traceEvents"]})
    kind, keeps = rng.choice(kinds or [""]), rng.random() < 0.5
    data["traceEvents"] = [event for event in data["traceEvents"] if (str(event.get("cat")) == kind) == keeps]


def few(data: Json, rng: random.Random) -> None:
    """Of all events a few are there, one, or none."""
    events = data["traceEvents"]
    kept = rng.sample(range(len(events)), min(len(events), rng.choice((0, 1, 2, 5, 20))))
    data["traceEvents"] = [events[number] for number in sorted(kept)]


def first_events(data: Json, rng: random.Random) -> None:
    """The recording began late, or ended early."""
    events = complete_events(data)
    if events:
        moment, keeps = rng.choice(events)["ts"], rng.random() < 0.5
        data["traceEvents"] = [
            event for event in data["traceEvents"] if (event.get("ts", 0) < moment) == keeps
        ]


def repeated(data: Json, rng: random.Random) -> None:
    """Some events are there twice; or one is there hundreds of times."""
    events = some(complete_events(data), rng)
    times = 200 if len(events) == 1 and rng.random() < 0.3 else 1
    data["traceEvents"] += [{**event, "args": dict(event.get("args", {}))} for event in events * times]


def nested_deep(data: Json, rng: random.Random) -> None:
    """An event holds hundreds of others, each in the one before."""
    for event in one_of(of_category(data, "cpu_op", "user_annotation", "python_function"), rng):
        for depth in range(rng.choice((10, 300))):
            inner = {"ts": event["ts"] + depth * 0.001, "dur": event["dur"] - depth * 0.002}
            data["traceEvents"].append({**event, **inner, "args": dict(event.get("args", {}))})


STEPS: tuple[Change, ...] = (
    step_names, step_times, steps_gone, more_steps, only_device, only_one_kind, few, first_events, repeated,
    nested_deep,
)  # fmt: skip
