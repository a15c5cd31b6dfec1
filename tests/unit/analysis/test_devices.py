"""Which devices a file is of: as its header says, else as what ran shows, else unknown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.devices import devices_of_timeline
from tracebraid.model.file_info import DeviceSource


def devices(events: list[Json], **header: Any) -> tuple[tuple[str, ...], DeviceSource]:
    return devices_of_timeline(linked_of(events, header=header).timeline)


def test_names_in_the_header_count() -> None:
    named = [{"id": 0, "name": "A100"}, {"id": 1, "name": "A100"}]
    assert devices([op("x", 0, 1)], deviceProperties=named) == (("A100",), DeviceSource.HEADER)


@pytest.mark.parametrize(
    ("api", "cat", "kind"),
    [
        ("cudaLaunchKernel", "cuda_runtime", "cuda"),
        ("cuLaunchKernel", "cuda_driver", "cuda"),
        ("hipLaunchKernel", "cuda_runtime", "hip"),
        ("urEnqueueKernelLaunch", "xpu_runtime", "xpu"),
        ("launch", "privateuse1_runtime", "privateuse1"),
    ],
)
@pytest.mark.parametrize("header", [{}, {"deviceProperties": []}])
def test_without_names_what_ran_tells(api: str, cat: str, kind: str, header: Json) -> None:
    events = [call(api, 0, 1, 1, cat=cat), kernel("k", 5, 1, 1)]
    assert devices(events, **header) == ((f"{kind}:0",), DeviceSource.EVENTS)


def test_kernels_alone_show_a_device_of_an_unknown_type() -> None:
    assert devices([kernel("k", 5, 1, 1)], deviceProperties=[]) == (("device:0",), DeviceSource.EVENTS)


def test_calls_without_kernels_show_a_device() -> None:
    assert devices([call("cudaMalloc", 0, 1, 0)], deviceProperties=[]) == (("cuda",), DeviceSource.EVENTS)


def test_allocations_show_a_device() -> None:
    args = {"Device Type": 1, "Device Id": 3, "Bytes": 8, "Addr": 1}
    event = {**complete("[memory]", "cpu_instant_event", 1, 0, 1, 1, args), "ph": "i", "s": "t"}
    assert devices([op("x", 0, 5), event], deviceProperties=[]) == (("cuda:3",), DeviceSource.EVENTS)


def test_only_an_empty_list_of_devices_says_that_there_is_none() -> None:
    assert devices([op("x", 0, 5)]) == ((), DeviceSource.UNKNOWN)
    assert devices([op("x", 0, 5)], deviceProperties=[]) == ((), DeviceSource.NONE)
    nccl = {"rank": 0, "backend": "cpu:gloo,cuda:nccl"}
    assert devices([op("x", 0, 5)], deviceProperties=[], distributedInfo=nccl) == ((), DeviceSource.UNKNOWN)


def test_devices_are_in_the_order_of_their_numbers() -> None:
    events: list[Json] = [call("cudaLaunchKernel", 0, 1, 1)]
    for number in (10, 2):
        work = kernel("k", 5, 1, number)
        events.append({**work, "pid": number, "args": {**work["args"], "device": number}})
    assert devices(events)[0] == ("cuda:2", "cuda:10")
