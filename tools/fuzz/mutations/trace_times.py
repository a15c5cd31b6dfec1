"""Changes of when events of a trace are: equal, crossing, negative, long ago, far away, and of clocks."""

from __future__ import annotations

import random

from tools.fuzz.mutations.trace_files import Change, Json, complete_events, of_category, some

__all__ = ["TIMES"]

_HOUR_NS, _DAY_NS = 3_600 * 10**9, 86_400 * 10**9
_LAST_US = (2**63 - 1) // 1000
"""The last moment of a clock that counts ns in 64 bits: in the year 2262."""
_MOMENTS_US = (
    0,
    -1,
    0.001,
    0.999,
    -1e6,
    1e9,
    _LAST_US,
    _LAST_US - 100,
    _LAST_US + 1,
    -_LAST_US,
    2**63,
    1e300,
)
_DURATIONS_US = (0, 0.001, -0.001, -1, -1e6, 1e3, 1e6, 1e9, 1e12, _LAST_US, 2**63, 0.0004, 0.9996)
_BASES_NS = (0, -1, 1, -_DAY_NS, 2**62, 2**63 - 1, 2**63 - 10**9, 2**63, "0", None, 1.5, -(2**63))


def equal_starts(data: Json, rng: random.Random) -> None:
    """Some events start with another."""
    events = complete_events(data)
    for event in some(events, rng):
        event["ts"] = rng.choice(events)["ts"]


def same_times(data: Json, rng: random.Random) -> None:
    """Some events are at the same time for as long as another."""
    events = complete_events(data)
    model = rng.choice(events or [{"ts": 1, "dur": 1}])
    for event in some(events, rng):
        event["ts"], event["dur"] = model["ts"], model["dur"]


def odd_durations(data: Json, rng: random.Random) -> None:
    """Some events last for no time, less than none, or years."""
    duration = rng.choice(_DURATIONS_US)
    for event in some(complete_events(data), rng):
        event["dur"] = duration


def odd_moments(data: Json, rng: random.Random) -> None:
    """Some events are before all time, at its end or behind it."""
    moment = rng.choice(_MOMENTS_US)
    for event in some(complete_events(data), rng):
        event["ts"] = moment


def crossing(data: Json, rng: random.Random) -> None:
    """Some events are moved by a part of their durations: they cross the ends of others."""
    for event in some(complete_events(data), rng):
        event["ts"] += event["dur"] * rng.choice((0.5, -0.5, 0.999, 1, -1, 2))


def longer(data: Json, rng: random.Random) -> None:
    """Some events last longer than what is around them."""
    factor = rng.choice((1.001, 2, 10, 1000))
    for event in some(complete_events(data), rng):
        event["dur"] *= factor


def fractions(data: Json, rng: random.Random) -> None:
    """Times have digits below a ns, or none below a µs."""
    share = rng.choice((0.999, 0.9999, 0.0005, 0.00049))
    whole = rng.random() < 0.5
    for event in some(complete_events(data), rng):
        event["ts"] = int(event["ts"]) if whole else int(event["ts"]) + share
        event["dur"] = int(event["dur"]) if whole else int(event["dur"]) + share


def moved_device(data: Json, rng: random.Random) -> None:
    """The device's clock is another than that of the host."""
    shift = rng.choice((-1e9, -1e3, -5, -0.001, 5, 1e3, 1e9))
    for event in of_category(data, "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
        event["ts"] += shift


def a_pause(data: Json, rng: random.Random) -> None:
    """From some event on everything is later: seconds, a day, years."""
    events = complete_events(data)
    if events:
        start, shift = rng.choice(events)["ts"], rng.choice((1e6, 8.64e10, 3e15))
        for event in events:
            event["ts"] += shift if event["ts"] >= start else 0


def another_base(data: Json, rng: random.Random) -> None:
    """The file's times are relative to another moment, or to none."""
    base = rng.choice((*_BASES_NS, _HOUR_NS, -_HOUR_NS))
    if base in (_HOUR_NS, -_HOUR_NS):
        data["baseTimeNanoseconds"] = data.get("baseTimeNanoseconds", 0) + base
    elif base is None:
        data.pop("baseTimeNanoseconds", None)
    else:
        data["baseTimeNanoseconds"] = base


def drifting(data: Json, rng: random.Random) -> None:
    """The clock runs at another rate."""
    rate = rng.choice((0.0, 0.5, 0.999, 1.001, 2, 1e6, -1))
    for event in data["traceEvents"]:
        event["ts"] *= rate


def shuffled(data: Json, rng: random.Random) -> None:
    """Events stand in another order."""
    rng.shuffle(data["traceEvents"])


TIMES: tuple[Change, ...] = (
    equal_starts, same_times, odd_durations, odd_moments, crossing, longer, fractions, moved_device, a_pause,
    another_base, drifting, shuffled,
)  # fmt: skip
