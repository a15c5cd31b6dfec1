"""Changes of what events say about themselves: names, categories, shapes, types, sizes, memory, devices."""

from __future__ import annotations

import random
from typing import Any

from tools.fuzz.mutations.trace_files import (
    BIG,
    NUMBERS,
    ODD,
    Change,
    Json,
    complete_events,
    of_category,
    some,
)

__all__ = ["ARGS"]

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
_INPUTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
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
