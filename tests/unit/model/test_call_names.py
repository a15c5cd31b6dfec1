"""What calls do, by their names."""

from __future__ import annotations

import polars as pl
import pytest

from tracebraid.model.call_names import PATTERNS, CallAction, call_does

LAUNCH, GRAPH, COPY = CallAction.LAUNCH_KERNEL, CallAction.LAUNCH_GRAPH, CallAction.COPY
ALLOCATE, RELEASE = CallAction.ALLOCATE_ON_DEVICE, CallAction.RELEASE_ON_DEVICE

DOES = [
    ("cudaLaunchKernel", LAUNCH),
    ("cuLaunchKernelEx", LAUNCH),
    ("hipExtModuleLaunchKernel", LAUNCH),
    ("zeCommandListAppendLaunchKernel", LAUNCH),
    ("urEnqueueKernelLaunch", LAUNCH),
    ("cudaGraphLaunch_ptsz", GRAPH),
    ("hipGraphLaunch", GRAPH),
    ("cudaMemcpyAsync", COPY),
    ("hipMemcpyWithStream", COPY),
    ("hipMemsetAsync", CallAction.FILL),
    ("cudaMalloc", ALLOCATE),
    ("cuMemAlloc_v2", ALLOCATE),
    ("cuMemCreate", ALLOCATE),
    ("hipExtMallocWithFlags", ALLOCATE),
    ("zeMemAllocDevice", ALLOCATE),
    ("cudaFree", RELEASE),
    ("cudaFreeAsync_v11020", RELEASE),
    ("hipMemUnmap", RELEASE),
    ("cudaStreamWaitEvent", CallAction.MAKE_STREAM_WAIT),
    ("cudaEventSynchronize", CallAction.WAIT_FOR_EVENT),
    ("zeEventHostSynchronize", CallAction.WAIT_FOR_EVENT),
    ("cuStreamSynchronize", CallAction.WAIT_FOR_STREAM),
    ("hipDeviceSynchronize", CallAction.WAIT),
    ("cudaEventQuery", CallAction.QUERY),
]
DOES_NOT = [
    ("cudaGraphLaunch", LAUNCH),
    ("cudaLaunchHostFunc", LAUNCH),
    ("cudaGraphAddMemcpyNode", COPY),
    ("cudaGraphAddMemsetNode", CallAction.FILL),
    ("cudaMallocHost", ALLOCATE),
    ("cuMemAllocHost_v2", ALLOCATE),
    ("cudaMallocArray", ALLOCATE),
    ("cudaFreeHost", RELEASE),
    ("cuMemFreeHost", RELEASE),
    ("cudaEventRecord", CallAction.WAIT),
    ("cudaStreamWaitEvent", CallAction.WAIT),
]


def judged(name: str | None, action: CallAction) -> bool | None:
    frame = pl.DataFrame({"name": [name]}, schema={"name": pl.String})
    found: bool | None = frame.select(call_does(pl.col("name"), action)).item()
    return found


@pytest.mark.parametrize(("name", "action"), DOES)
def test_what_a_call_does(name: str, action: CallAction) -> None:
    assert judged(name, action) is True


@pytest.mark.parametrize(("name", "action"), DOES_NOT)
def test_what_a_call_does_not(name: str, action: CallAction) -> None:
    assert judged(name, action) is False


def test_every_action_has_a_pattern_and_no_name_stays_null() -> None:
    assert set(PATTERNS) == set(CallAction)
    assert all(judged(None, action) is None for action in CallAction)
