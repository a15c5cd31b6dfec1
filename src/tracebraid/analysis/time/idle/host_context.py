"""What does the host do in each of its events?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.analysis.host.name_rules import by_rules, kinds
from tracebraid.analysis.host.surroundings import nearest_or_none
from tracebraid.analysis.time.idle.activity_rules import activity_rules
from tracebraid.model.answers import HostActivity
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["ACTIVITIES", "FIRST_OF_WORK", "Activity", "HostContext", "host_context"]

_Ints = NDArray[np.int64]


class Activity(IntEnum):
    """The activities of a host thread by number."""

    OUTSIDE_OF_OPS = 0
    PYTHON = 1
    COMPUTED = 2
    COMMUNICATED = 3
    CALLED = 4
    LAUNCHED = 5
    SYNCHRONIZED = 6
    WAITED_FOR_DATA = 7
    WORKS = 2


ACTIVITIES: tuple[str, ...] = tuple(HostActivity[activity.name].value for activity in Activity)
"""The code of each activity, by its number."""

FIRST_OF_WORK = Activity.COMPUTED
"""From this one on, the trace shows that a thread works itself and does not just wait for another."""

_BLOCKING_COPY = r"(DtoH|DeviceToHost).*Pageable"
"""Copies to pageable memory of the host: their call returns when the copy is done, asynchronous or not."""


@dataclass(frozen=True)
class HostContext:
    """For each row of `HostRows`, itself included: what the host does. Rows; -1 where there is none.

    One more row at the end, which index -1 finds, stands for no host event at all.

    Args:
        activity: a number of `Activity`.
        sync: innermost call or op that synchronizes.
    """

    activity: NDArray[np.int8]
    sync: _Ints


def host_context(linked: LinkedTrace) -> HostContext:
    """The context of all host events, computed once."""
    return linked.derived(_host_context)


def _host_context(linked: LinkedTrace) -> HostContext:
    rules = partial(activity_rules, with_work=_calls_with_work(linked))
    flags, kind = by_rules(linked, rules), kinds(linked)

    def nearest(name: str) -> _Ints:
        return nearest_or_none(linked, flags[name])

    is_frame = kind["is_frame"]
    code = nearest_or_none(linked, kind["is_op"] | is_frame)
    call = nearest_or_none(linked, kind["is_op"] | is_frame | flags["is_call"])
    is_op = np.r_[kind["is_op"], False].astype(np.bool_)
    sync = nearest_or_none(linked, flags["is_sync"] | _blocking_copies(linked))
    activity = np.select(
        [
            nearest("is_data") >= 0,
            sync >= 0,
            nearest("is_launch") >= 0,
            nearest("is_collective") >= 0,
            call != code,
            is_op[code],
            code >= 0,
        ],
        [
            np.int8(number)
            for number in (
                Activity.WAITED_FOR_DATA,
                Activity.SYNCHRONIZED,
                Activity.LAUNCHED,
                Activity.COMMUNICATED,
                Activity.CALLED,
                Activity.COMPUTED,
                Activity.PYTHON,
            )
        ],
        np.int8(Activity.OUTSIDE_OF_OPS),
    )
    return HostContext(activity.astype(np.int8), sync)


def _calls_with_work(linked: LinkedTrace) -> list[str]:
    """The names of calls of which some has work on a device."""
    calls = linked.launches.get_column("call_event").drop_nulls().unique()
    names = linked.timeline.events.get_column("name").gather(calls)
    found: list[str] = names.unique().cast(pl.String).drop_nulls().to_list()
    return found


def _blocking_copies(linked: LinkedTrace) -> NDArray[np.bool_]:
    """The rows of the calls of copies that the host waits for."""
    host = host_rows(linked)
    copies = device_events(linked).filter(pl.col("name").str.contains(_BLOCKING_COPY))
    calls = host.rows(copies.get_column("call_event").drop_nulls().to_numpy())
    found = np.zeros(len(host.event_id), dtype=np.bool_)
    found[calls[calls >= 0]] = True
    return found
