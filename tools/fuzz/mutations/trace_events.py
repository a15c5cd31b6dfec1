"""Changes of the events of traces: arguments, ids and times."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tools.fuzz.model import Files, Mutation

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


_NAMES = (
    "", " ", "x", "ProfilerStep#2", "nccl:all_reduce", "gloo:all_reduce", "nn.Module: ", "nn.Module: A_x",
    "aten::mm", "aten::convolution", "Memcpy HtoD (Pageable -> Device)", "Memset (Device)", "[memory]",
    "cudaDeviceSynchronize", "cudaGraphLaunch", "cudaMalloc", "autograd::engine::evaluate_function: ",
    "Optimizer.step#", "Optimizer.zero_grad#Adam.zero_grad", "Torch-Compiled Region: 0/0", "prefill", "decode",
    "execute_context_1(8)_generation_0(0)", "record_param_comms", "c10d::allreduce_", "DataLoader",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "a.py(3): f", "<built-in x>", "CheckpointFunction",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "\u202eb", "a\x1b[31mb", "ä" * 500, "=1+1", "a;b", "a\nb",
)  # fmt: skip
_CATEGORIES = (
    "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy",
    "gpu_memset", "gpu_user_annotation", "cuda_sync", "cpu_instant_event", "ac2g", "fwdbwd", "Trace", "overhead",
    "privateuse1_runtime", "hpu_op", "", "x",
)  # fmt: skip
_SHAPES: tuple[Any, ...] = (
    [], [[]], [[], []], [[0]], [[0, 0], [0, 0]], [[-1, 2], [2, 3]], [[2**31, 2**31, 2**31], [2**31]],
    [[2**62, 2], [2, 2**62]], [[2**63, 1]], [["2", "3"]], ["x"], [None], [[None]], [[[1, 2], [3]], []], [1, 2],
    [[1.5, 2]], "x", None, 3, {}, [[1] * 30], [[2, 3]] * 20, [[[[]]]], [[1e300]], [[2**53, 2**53], [2**53, 2**53]],
)  # fmt: skip
_TYPES: tuple[Any, ...] = (
    "", "unknown", "c10::BFloat16", "double", "long int", "Scalar", "Float8_e4m3fn", "c10::complex<float>",
    "TensorList", "GenericList[Tensor(float)]", None, 3, "signed char", "bool",
)  # fmt: skip
_MEMORY = ("Bytes", "Addr", "Device Id", "Device Type", "Total Allocated", "Total Reserved")
_KERNEL = (
    "grid", "block", "bytes", "memory bandwidth (GB/s)", "registers per thread", "shared memory",
    "blocks per SM", "warps per SM", "est. achieved occupancy %", "queued", "cuda_sync_kind",
)  # fmt: skip


def names(data: Json, rng: random.Random) -> None:
    """Some events have another name."""
    name = rng.choice(_NAMES)
    for event in some(complete_events(data), rng):
        event["name"] = name


def long_name(data: Json, rng: random.Random) -> None:
    """An event has a name of up to 1 MB; mostly it is shorter, since that takes long."""
    for event in some(complete_events(data), rng)[:1]:
        event["name"] = "long " * rng.choice((10, 100, 100, 1000, 200_000 if rng.random() < 0.02 else 1))


def swapped_names(data: Json, rng: random.Random) -> None:
    """Events have each other's names."""
    events = complete_events(data)
    for event in some(events, rng):
        event["name"] = rng.choice(events)["name"]


def categories(data: Json, rng: random.Random) -> None:
    """Some events are of another category."""
    category = rng.choice(_CATEGORIES)
    for event in some(complete_events(data), rng):
        event["cat"] = category


def shapes(data: Json, rng: random.Random) -> None:
    """Inputs have odd shapes, or as strides odd steps."""
    key = rng.choice(("Input Dims", "Input Dims", "Input Strides"))
    value = rng.choice(_SHAPES)
    for event in some(of_category(data, "cpu_op", "user_annotation"), rng):
        event.setdefault("args", {})[key] = value


def types(data: Json, rng: random.Random) -> None:
    """Inputs have odd types."""
    value = rng.choice(_TYPES)
    for event in some(of_category(data, "cpu_op", "user_annotation"), rng):
        args = event.setdefault("args", {})
        count = len(args["Input Dims"]) if isinstance(args.get("Input Dims"), list) else 2
        args["Input type"] = [value] * rng.choice((count, 1, 0)) if value != 3 else value


def concrete(data: Json, rng: random.Random) -> None:
    """Values of inputs are odd, or of another number."""
    texts = (
        "",
        "1",
        "-1",
        "[]",
        "[1, 1]",
        "[0, 0]",
        "[-1]",
        "9223372036854775808",
        "True",
        "1e400",
        "nan",
        "[x]",
    )
    value = [rng.choice(texts) for _ in range(rng.randint(0, 9))]
    for event in some(of_category(data, "cpu_op"), rng):
        event.setdefault("args", {})["Concrete Inputs"] = value


def memory(data: Json, rng: random.Random) -> None:
    """Instants of allocations say other sizes, addresses, devices, totals."""
    key = rng.choice(_MEMORY)
    value = rng.choice((*NUMBERS, *ODD))
    for event in some(of_category(data, "cpu_instant_event"), rng):
        event["args"][key] = -event["args"][key] if rng.random() < 0.2 and key == "Bytes" else value


def kernel_args(data: Json, rng: random.Random) -> None:
    """Arguments of kernels and copies are odd, or there at all."""
    key = rng.choice(_KERNEL)
    value = rng.choice((*ODD, *BIG, [0, 0, 0], [2**31, 2**31, 2**31], [1, 2], [-1, 1, 1], ["1", "1", "1"]))
    for event in some(of_category(data, "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"), rng):
        event.setdefault("args", {})[key] = value


def any_arg(data: Json, rng: random.Random) -> None:
    """Some argument of one kind has an odd value."""
    events = [event for event in data["traceEvents"] if event.get("args")]
    if events:
        model = rng.choice(events)
        key, value = rng.choice(sorted(model["args"])), rng.choice(ODD)
        for event in some([event for event in events if key in event["args"]], rng):
            event["args"][key] = value


def no_args(data: Json, rng: random.Random) -> None:
    """Some events have no arguments."""
    for event in some(complete_events(data), rng):
        event["args"] = {}


def devices(data: Json, rng: random.Random) -> None:
    """Properties of devices are odd, or of devices that are not there."""
    properties = data.get("deviceProperties") or [{}]
    key = rng.choice(("id", "name", "numSms", "totalGlobalMem", "computeMajor", "computeMinor", "warpSize"))
    properties[0][key] = rng.choice((*ODD, "NVIDIA H100 PCIe", "Tesla T4", "AMD Instinct MI250X"))
    data["deviceProperties"] = properties if rng.random() < 0.9 else properties * 2


ARGS: tuple[Change, ...] = (
    names, long_name, swapped_names, categories, shapes, types, concrete, memory, kernel_args, any_arg, no_args,
    devices,
)  # fmt: skip


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
