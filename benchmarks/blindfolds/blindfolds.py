"""The blindfolds: each takes something from the traces of a job, or falsifies it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from benchmarks.blindfolds.jobs import Json, Ranks
from tracebraid.model.category import Role, Work, categories_of

_DEVICE = frozenset(categories_of(Role.DEVICE_WORK))
_CALLS = frozenset(categories_of(Role.CALL))
_OPS = frozenset(categories_of(Role.OP))
_KERNELS = frozenset(categories_of(Work.KERNEL))
_STEP = "ProfilerStep#"


@dataclass(frozen=True)
class Blindfold:
    """A blindfold.

    Args:
        name: what it does.
        put_on: changes the traces of a job, which are a copy; returns them, or None where there is nothing to change.
    """

    name: str
    put_on: Callable[[Ranks], Ranks | None]


BLINDFOLDS: list[Blindfold] = []


def _blindfold(name: str) -> Callable[[Callable[[Ranks], Ranks | None]], Callable[[Ranks], Ranks | None]]:
    def declare(put_on: Callable[[Ranks], Ranks | None]) -> Callable[[Ranks], Ranks | None]:
        BLINDFOLDS.append(Blindfold(name, put_on))
        return put_on

    return declare


def blindfolded(blindfold: Blindfold, ranks: Ranks) -> Ranks | None:
    """The job under a blindfold; None where it changes nothing."""
    changed = blindfold.put_on(deepcopy(ranks))
    return None if changed is None or changed == ranks else changed


def _is_device(event: Json) -> bool:
    return event.get("cat") in _DEVICE


def _without(ranks: Ranks, lost: Callable[[int, int, Json], bool]) -> Ranks:
    """Without the events for which a function of rank, position among the device's events and event is true."""
    for rank, trace in ranks.items():
        kept, position = [], 0
        for event in trace["traceEvents"]:
            gone = lost(rank, position, event)
            position += _is_device(event)
            if not gone:
                kept.append(event)
        trace["traceEvents"] = kept
    return ranks


def _changed(ranks: Ranks, change: Callable[[int, Json], None]) -> Ranks:
    for rank, trace in ranks.items():
        for event in trace["traceEvents"]:
            change(rank, event)
    return ranks


def _without_args(*names: str) -> Callable[[Ranks], Ranks]:
    def put_on(ranks: Ranks) -> Ranks:
        def change(_: int, event: Json) -> None:
            for name in names:
                event.get("args", {}).pop(name, None)

        return _changed(ranks, change)

    return put_on


@_blindfold("all device events removed")
def _no_device(ranks: Ranks) -> Ranks:
    return _without(ranks, lambda _, __, event: _is_device(event))


@_blindfold("every other device event removed")
def _half_of_device(ranks: Ranks) -> Ranks:
    return _without(ranks, lambda _, position, event: _is_device(event) and position % 2 == 1)


@_blindfold("the first third of device events removed")
def _third_of_device(ranks: Ranks) -> Ranks:
    counts = {rank: sum(map(_is_device, trace["traceEvents"])) for rank, trace in ranks.items()}
    return _without(ranks, lambda rank, position, event: _is_device(event) and 3 * position < counts[rank])


@_blindfold("device events of one stream removed")
def _one_stream(ranks: Ranks) -> Ranks | None:
    streams = sorted(
        {str(event["tid"]) for trace in ranks.values() for event in trace["traceEvents"] if _is_device(event)}
    )
    if len(streams) < 2:
        return None
    return _without(ranks, lambda _, __, event: _is_device(event) and str(event["tid"]) == streams[-1])


@_blindfold("device events of one rank removed")
def _one_rank_without_device(ranks: Ranks) -> Ranks | None:
    last = max(ranks)
    return (
        None if len(ranks) < 2 else _without(ranks, lambda rank, _, event: rank == last and _is_device(event))
    )


def _renamed(name: str, categories: frozenset[str], new: str) -> None:
    @_blindfold(name)
    def _put_on(ranks: Ranks) -> Ranks:
        numbers: dict[str, int] = {}

        def change(_: int, event: Json) -> None:
            if event.get("cat") in categories and not str(event["name"]).startswith(_STEP):
                number = numbers.setdefault(str(event["name"]), len(numbers))
                event["name"] = f"{new}_{number}"

        return _changed(ranks, change)


_renamed("kernels renamed", _KERNELS, "vendor_kernel")
_renamed("runtime calls renamed", _CALLS, "vendorCall")
_renamed("ops renamed", _OPS, "vendor::op")
_renamed("annotations renamed", frozenset({"user_annotation", "gpu_user_annotation"}), "range")

BLINDFOLDS += [
    Blindfold("External id removed", _without_args("External id")),
    Blindfold("correlation removed", _without_args("correlation")),
    Blindfold("record-function ids removed", _without_args("Record function id", "Ev Idx")),
    Blindfold(
        "arguments of communication removed",
        _without_args(
            "Collective name",
            "In msg nelems",
            "Out msg nelems",
            "Group size",
            "dtype",
            "Process Group Name",
            "Process Group Description",
            "Process Group Ranks",
            "Seq",
            "Src Rank",
            "Dst Rank",
            "In split size",
            "Out split size",
            "Comms Id",
            "Global rank start",
            "Global rank stride",
        ),
    ),
    Blindfold("numbers of collectives removed", _without_args("Seq")),
    Blindfold(
        "shapes removed", _without_args("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    ),
    Blindfold("stream and context removed", _without_args("stream", "context")),
]


@_blindfold("flows removed")
def _no_flows(ranks: Ranks) -> Ranks:
    return _without(ranks, lambda _, __, event: event.get("ph") in ("s", "t", "f"))


@_blindfold("one rank removed")
def _rank_removed(ranks: Ranks) -> Ranks | None:
    return None if len(ranks) < 2 else {rank: trace for rank, trace in ranks.items() if rank != max(ranks)}


@_blindfold("the clock of one rank shifted")
def _clock_shifted(ranks: Ranks) -> Ranks | None:
    if len(ranks) < 2:
        return None
    last = max(ranks)

    def change(rank: int, event: Json) -> None:
        if rank == last and "ts" in event and event.get("ph") != "M":
            event["ts"] = float(event["ts"]) + 3_000_000.0

    return _changed(ranks, change)


@_blindfold("one duration of a kernel made a minute")
def _long_kernel(ranks: Ranks) -> Ranks | None:
    for trace in ranks.values():
        kernels = [event for event in trace["traceEvents"] if event.get("cat") in _KERNELS]
        if kernels:
            kernels[len(kernels) // 2]["dur"] = 60_000_000
            return ranks
    return None


@_blindfold("the times of some kernels lost")
def _zero_times(ranks: Ranks) -> Ranks | None:
    for trace in ranks.values():
        kernels = [event for event in trace["traceEvents"] if event.get("cat") in _KERNELS]
        for event in kernels[::5]:
            event["ts"] = 0
    return ranks


@_blindfold("collectives of one rank cut off")
def _collectives_cut(ranks: Ranks) -> Ranks | None:
    if len(ranks) < 2:
        return None
    last = max(ranks)

    def is_communication(event: Json) -> bool:
        name = str(event.get("name", "")).lower()
        return "nccl" in name or "gloo:" in name or "c10d::" in name or name == "record_param_comms"

    mine = [event for event in ranks[last]["traceEvents"] if is_communication(event)]
    gone = {id(event) for event in mine[len(mine) // 2 :]}
    return _without(ranks, lambda _, __, event: id(event) in gone)


@_blindfold("stacks removed")
def _no_stacks(ranks: Ranks) -> Ranks:
    return _without(ranks, lambda _, __, event: event.get("cat") == "python_function")


@_blindfold("steps unmarked")
def _no_steps(ranks: Ranks) -> Ranks:
    return _without(ranks, lambda _, __, event: str(event.get("name", "")).startswith(_STEP))


@_blindfold("steps marked twice")
def _more_steps(ranks: Ranks) -> Ranks:
    """Two more steps within each, as of a profiler of the program: they meet where nothing is open on the thread."""
    for trace in ranks.values():
        events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and not _is_device(event)]
        for step in [event for event in events if str(event.get("name", "")).startswith(_STEP)]:
            inside = sorted(
                (float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0)))
                for event in events
                if (event["pid"], event["tid"]) == (step["pid"], step["tid"])
                and step["ts"] < event["ts"] < step["ts"] + step["dur"]
            )
            reach, free = float(step["ts"]), []
            for begin, end in inside:
                if begin > reach + 0.004:
                    free.append((reach + begin) / 2)
                reach = max(reach, end)
            if len(free) > 2:
                first, middle = free[0], free[len(free) // 2]
                number = 1000 + 2 * int(str(step["name"]).removeprefix(_STEP))
                for part, (begin, end) in enumerate(((first, middle), (middle, free[-1]))):
                    mark = {
                        **step,
                        "name": f"{_STEP}{number + part}",
                        "ts": begin,
                        "dur": end - begin,
                        "args": {},
                    }
                    trace["traceEvents"].append(mark)
    return ranks


@_blindfold("ids of devices' processes and threads are text")
def _text_ids(ranks: Ranks) -> Ranks:
    def change(_: int, event: Json) -> None:
        if _is_device(event):
            event["pid"], event["tid"] = f"GPU {event['pid']}", f"stream {event['tid']}"

    return _changed(ranks, change)
