"""What a thread asks of the device: launches, copies, graphs, synchronisation, any call of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from tests.builders import Json
from tests.planted.events import DRIVER, RUNTIME, SYNC, Planted
from tests.planted.memory import Memory
from tests.planted.streams import Recorded, Stream

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.planted.scene import Scene

CALL_NS = 5_000
"""Duration of a call, unless another is given."""

LATENCY_NS = 3_000
"""From the end of a launching call to the start of the work on a stream that is free, unless another is given."""

RETURN_NS = 1_000
"""From the end of the work that is waited for to the end of the call that waits."""

_SEND_RECEIVE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"

_CALLBACKS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cuLaunchKernel": 307,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaEventRecord": 135,
    "cudaEventSynchronize": 137,
    "cudaStreamWaitEvent": 147,
    "cudaDeviceSynchronize": 165,
    "cudaGraphLaunch": 311,
    "cudaMalloc": 20,
    "cudaFree": 22,
}


class Copy(Enum):
    """The kinds of copies, by the names that Kineto gives them."""

    PAGEABLE_TO_DEVICE = "Memcpy HtoD (Pageable -> Device)"
    PINNED_TO_DEVICE = "Memcpy HtoD (Pinned -> Device)"
    DEVICE_TO_PAGEABLE = "Memcpy DtoH (Device -> Pageable)"
    DEVICE_TO_PINNED = "Memcpy DtoH (Device -> Pinned)"
    DEVICE_TO_DEVICE = "Memcpy DtoD (Device -> Device)"
    PEER_TO_PEER = "Memcpy PtoP (Device -> Device)"


class Calls(Memory):
    """The calls of a thread; each begins now, and moves the thread's clock to its end."""

    if TYPE_CHECKING:
        scene: Scene
        open: list[Planted]

        def event(self, name: str, category: str, args: Json) -> AbstractContextManager[Planted]: ...
        def op(self, name: str, ns: int = 0, **options: Any) -> AbstractContextManager[Planted]: ...
        def annotation(self, name: str, ns: int = 0) -> AbstractContextManager[Planted]: ...
        def frame(self, name: str, ns: int = 0, called_from: str = "") -> AbstractContextManager[Planted]: ...

    def call(self, api: str, ns: int = CALL_NS, **args: Any) -> Planted:
        """A call of the runtime or driver of any name: `cudaMalloc`, `cuLaunchKernel`, `hipLaunchKernel`."""
        number = {"cid" if api.startswith("hip") else "cbid": _CALLBACKS.get(api, 999)}
        fixed: Json = {**number, "correlation": self.scene.new_correlation()}
        category = DRIVER if api.startswith("cu") and not api.startswith("cuda") else RUNTIME
        with self.event(api, category, {**fixed, **args}) as planted:
            if planted.op is not None:
                planted.args["External id"] = planted.op.args["External id"]
            self.spend(ns)
        return planted

    def launch(
        self,
        stream: Stream,
        name: str,
        dur: int,
        api: str = "cudaLaunchKernel",
        call_ns: int = CALL_NS,
        latency: int = LATENCY_NS,
        at: int | None = None,
        **args: Any,
    ) -> Planted:
        """Launch a kernel; gives the kernel, whose `call` is the launch.

        It starts `latency` after the call's end, or when all work before it on the stream has ended.

        Args:
            stream: where it is queued.
            name: the kernel's name.
            dur: the kernel's duration in ns.
            api: the call.
            call_ns: the call's duration.
            latency: see above; may be below 0, as far as the call's start.
            at: an exact start instead.
            args: arguments of the kernel: `grid=[8, 1, 1]`.
        """
        call = self.call(api, call_ns)
        return stream.run(name, dur, call.end + latency, call=call, at=at, args=args)

    def copy(
        self,
        stream: Stream,
        kind: Copy,
        size: int,
        dur: int,
        blocking: bool = False,
        api: str = "cudaMemcpyAsync",
        call_ns: int = CALL_NS,
        latency: int = LATENCY_NS,
    ) -> Planted:
        """Copy `size` bytes in `dur` ns, so at size / dur GB/s; a blocking call ends `RETURN_NS` after the copy."""
        return self._transfer(stream, kind.value, "gpu_memcpy", size, dur, blocking, api, call_ns, latency)

    def fill(self, stream: Stream, size: int, dur: int, call_ns: int = CALL_NS) -> Planted:
        """Fill `size` bytes of the device in `dur` ns."""
        name, api = "Memset (Device)", "cudaMemsetAsync"
        return self._transfer(stream, name, "gpu_memset", size, dur, False, api, call_ns, LATENCY_NS)

    def _transfer(
        self,
        stream: Stream,
        name: str,
        category: str,
        size: int,
        dur: int,
        blocking: bool,
        api: str,
        call_ns: int,
        latency: int,
    ) -> Planted:
        args = {"bytes": size, "memory bandwidth (GB/s)": size / dur if dur else 0.0}
        call = self.call(api, call_ns)
        work = stream.run(name, dur, call.end + latency, category, call, args=args)
        if blocking:
            self._prolong(call, work.end + RETURN_NS)
        return work

    def replay(
        self,
        stream: Stream,
        kernels: Sequence[tuple[str, int]],
        graph: int = 1,
        gap: int = 0,
        api: str = "cudaGraphLaunch",
        call_ns: int = CALL_NS,
    ) -> list[Planted]:
        """Replay a CUDA graph: its kernels, as (name, duration), one after another, all of one correlation."""
        call = self.call(api, call_ns)
        ready, found = call.end + LATENCY_NS, []
        for node, (name, dur) in enumerate(kernels):
            args = {"graph id": graph, "graph node id": graph * 1000 + node}
            found.append(stream.run(name, dur, ready, call=call, args=args))
            ready = found[-1].end + gap
        return found

    def synchronize(
        self, stream: Stream | None = None, recorded: bool = True, call_ns: int = CALL_NS
    ) -> Planted:
        """Wait for a stream, or for the device: `call_ns`, or until `RETURN_NS` after the last work's end.

        Args:
            stream: the stream; None: all of the device.
            recorded: whether the device recorded it too (`cuda_sync`).
            call_ns: the least duration.
        """
        streams = self.scene.streams if stream is None else [stream]
        call = self.call("cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize", call_ns)
        self._prolong(call, max((s.free for s in streams), default=0) + RETURN_NS)
        if recorded:
            kind = "Context Sync" if stream is None else "Stream Sync"
            self._sync_row(kind, call, -1 if stream is None else stream.number, {})
        return call

    def record(self, stream: Stream, call_ns: int = CALL_NS) -> Recorded:
        """Record an event on a stream: it is done when all work queued there so far is."""
        call = self.call("cudaEventRecord", call_ns)
        return Recorded(self.scene.count("event"), stream, call, max(stream.free, call.end))

    def wait_event(
        self, stream: Stream, event: Recorded, recorded: bool = True, call_ns: int = CALL_NS
    ) -> Planted:
        """Let a stream wait for an event: what is queued on it from now on starts no earlier."""
        call = self.call("cudaStreamWaitEvent", call_ns)
        stream.free = max(stream.free, event.done)
        if recorded:
            self._sync_row("Stream Wait Event", call, stream.number, _waited(event))
        return call

    def synchronize_event(self, event: Recorded, recorded: bool = True, call_ns: int = CALL_NS) -> Planted:
        """Wait for an event on the host."""
        call = self.call("cudaEventSynchronize", call_ns)
        self._prolong(call, event.done + RETURN_NS)
        if recorded:
            self._sync_row("Event Sync", call, -1, _waited(event))
        return call

    def load_data(self, ns: int) -> Planted:
        """Wait for a batch as a DataLoader does: its annotation, and in it the frame that waits."""
        with (
            self.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__") as planted,
            self.frame("torch/utils/data/dataloader.py(1482): _get_data"),
        ):
            self.spend(ns)
        return planted

    def collective(
        self,
        stream: Stream,
        dur: int,
        name: str = "allreduce",
        nelems: int = 1024,
        group: str = "0",
        at: int | None = None,
    ) -> Planted:
        """A collective of NCCL on a process group: the ops around it, and its kernel with the arguments; float32."""
        args = self._arguments(name, nelems, group)
        outer, inner, kernel = _COLLECTIVES[name]
        with self.op(outer), self.op("record_param_comms") as comms, self.annotation(inner):
            comms.args.update(args)
            return self.launch(stream, kernel, dur, "cudaLaunchKernelExC", at=at, **args)

    def issue(
        self, name: str, nelems: int = 1024, group: str = "0", peer: int | None = None, ns: int = 2_000
    ) -> Planted:
        """An op that is coalesced with others, as in `batch_isend_irecv`: it launches nothing; gives the arguments' op.

        Args:
            name: `send`, `recv`, `_allgather_base`, ...
            nelems: elements of float32.
            group: the process group.
            peer: the global rank that a send goes to, or a receive comes from; None: the trace does not say.
            ns: its duration.
        """
        outer, _, _ = _COLLECTIVES[name]
        with self.op(outer), self.op("record_param_comms", ns) as comms:
            comms.args.update(self._arguments(name, nelems, group))
            if peer is not None:
                ends = (self.scene.rank, peer) if name == "send" else (peer, self.scene.rank)
                comms.args |= dict(zip(("Src Rank", "Dst Rank"), ends, strict=True))
        return comms

    def close_group(
        self, stream: Stream, dur: int, kernel: str = _SEND_RECEIVE, at: int | None = None
    ) -> Planted:
        """End a group of coalesced ops: a launch in no op, whose kernel has no arguments."""
        return self.launch(stream, kernel, dur, "cudaLaunchKernelExC", at=at)

    def _arguments(self, name: str, nelems: int, group: str) -> Json:
        ranks = self.scene.groups[group]
        gathers = nelems * len(ranks) if name == "_allgather_base" else nelems
        return {
            "Collective name": name,
            "In msg nelems": nelems,
            "Out msg nelems": nelems // len(ranks) if name == "_reduce_scatter_base" else gathers,
            "Group size": len(ranks),
            "dtype": "Float",
            "In split size": "[]",
            "Out split size": "[]",
            "Global rank start": ranks[0],
            "Global rank stride": ranks[1] - ranks[0] if len(ranks) > 1 else 1,
            "Process Group Name": group,
            "Process Group Description": "default_pg" if group == "0" else "undefined",
            "Process Group Ranks": str(ranks),
            "Seq": self.scene.count(f"sequence of {group}"),
        }

    def _prolong(self, call: Planted, end: int) -> None:
        """Let the call that was made last end later."""
        self.until(end)
        call.dur = self.now - call.ts

    def _sync_row(self, kind: str, call: Planted, stream: int, waited: Json) -> Planted:
        args = {
            "cuda_sync_kind": kind,
            "stream": stream,
            "correlation": call.correlation,
            "device": 0,
            "context": 1,
        }
        if "External id" in call.args:
            args["External id"] = call.args["External id"]
        return self.scene.add(kind, SYNC, 0, stream, call.ts, call.dur, {**args, **waited})


_COLLECTIVES = {
    "allreduce": ("c10d::allreduce_", "nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "_allgather_base": ("c10d::_allgather_base_", "nccl:_all_gather_base", "ncclDevKernel_AllGather_RING_LL"),
    "_reduce_scatter_base": (
        "c10d::_reduce_scatter_base_",
        "nccl:_reduce_scatter_base",
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
    ),
    "broadcast": ("c10d::broadcast_", "nccl:broadcast", "ncclDevKernel_Broadcast_RING_LL"),
    "all_to_all": ("c10d::alltoall_base_", "nccl:all_to_all", "ncclDevKernel_SendRecv"),
    "barrier": ("c10d::barrier", "nccl:barrier", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "send": ("c10d::send", "nccl:send", "ncclDevKernel_SendRecv"),
    "recv": ("c10d::recv_", "nccl:recv", "ncclDevKernel_SendRecv"),
}


def _waited(event: Recorded) -> Json:
    return {
        "wait_on_stream": event.stream.number,
        "wait_on_cuda_event_record_corr_id": event.call.correlation,
        "wait_on_cuda_event_id": event.number,
    }
