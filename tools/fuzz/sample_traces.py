"""Traces of a rank to make samples of: made ones with device work, and parts of the demo's."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import Any

import tracebraid
from tests.builders import (
    Json,
    call,
    complete,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    process_node,
    tensor,
    thread_node,
)

_ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
_GROUPS = '[{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]}]'
_PER_SM: Json = {"blocks per SM": 0.5}
_BASE_NS = 1_700_000_000_000_000_000


@dataclass
class RankTraces:
    """The two traces of a rank."""

    nodes: list[Json] = field(default_factory=list)  # of its Execution Trace
    events: list[Json] = field(default_factory=list)  # of its Kineto trace
    header: Json = field(default_factory=dict)  # the members beside the events

    @property
    def et(self) -> bytes:
        """The Execution Trace in the layout of PyTorch."""
        return et_text(self.nodes).encode()

    @property
    def kineto(self) -> bytes:
        """The Kineto trace in the layout of Kineto."""
        return kineto_text(self.events, self.header).encode()


@dataclass
class _Rank:
    """A rank that is being made: time in µs, and the next numbers."""

    traces: RankTraces
    now: float = 100.0
    number: int = 3
    correlation: int = 1000

    def op(self, name: str, parent: int, dur: float, **attrs: Any) -> int:
        """A node and its event; returns the number of both."""
        self.number += 1
        x, y = (
            tensor(10 + self.number, 100, [4, 8], "float", "cuda:0"),
            tensor(11, 101, [8], "float", "cuda:0"),
        )
        inputs = [
            x,
            ("Int", 1, []),
            ("GenericList[Tensor(float),Tensor(float)]", [x[1], y[1]], [[4, 8], [8]]),
        ]
        self.traces.nodes.append(node(self.number, name, parent, inputs, [y], **attrs))
        args: Json = {"External_id": self.number, "Record_function_id": self.number, "Ev_Idx": self.number}
        shapes: Json = {
            "Input_Dims": [[4, 8], []],
            "Input_type": ["float", "Scalar"],
            "Concrete_Inputs": ["", "1"],
        }
        self.traces.events.append(op(name, self.now, dur, 1, **args, **shapes))
        return self.number

    def launch(self, name: str, kernel_name: str, dur: float, category: str = "kernel", **args: Any) -> None:
        """A runtime call within the last op, its device work, and the flow between them."""
        self.correlation += 1
        begin = self.now + 1
        made = [
            call(name, begin, 2, self.correlation),
            flow("s", self.correlation, begin),
            kernel(
                kernel_name, begin + 5, dur, self.correlation, cat=category, External_id=self.number, **args
            ),
            flow("f", self.correlation, begin + 5, pid=0, tid=7),
        ]
        self.traces.events += made


def gpu_rank(rank: int, steps: int = 2) -> RankTraces:
    """A rank of two, with kernels, copies, collectives, flows, memory, Python frames and waits."""
    info = {"backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 1, "pg_config": json.loads(_GROUPS)}
    device = {"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 8 << 30, "numSms": 108, "computeMajor": 8}
    header = {"deviceProperties": [device], "distributedInfo": info, "baseTimeNanoseconds": _BASE_NS}
    groups = node(3, "## process_group:init ##", 2, [("String", _GROUPS, [])])
    made = _Rank(RankTraces([process_node(), thread_node(), groups], [], header), now=100.0 + rank)
    made.traces.events += [
        {"ph": "M", "name": "process_name", "ts": 1, "pid": 1, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "ts": 1, "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
    ]
    for step in range(steps):
        _step(made, step)
    return made.traces


def _step(made: _Rank, step: int) -> None:
    begin = made.now
    whole = made.op(f"ProfilerStep#{step}", 2, 90, scope=1)
    _python(made, step, whole)
    made.now += 2
    _computes(made, step, whole)
    made.op("aten::copy_", whole, 6)
    made.launch("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", 3, "gpu_memcpy", bytes=4096)
    made.now += 15
    _communicates(made, step, whole)
    _waits(made, step)
    made.now = begin + 100


def _python(made: _Rank, step: int, whole: int) -> None:
    """Its annotations, and Python's own frames."""
    begin = made.now
    made.traces.events[-1]["cat"] = "user_annotation"
    python, module = {"Python id": 1, "Python thread": 0}, {"Python parent id": 1, "Python module id": 0}
    made.traces.events += [
        complete(f"ProfilerStep#{step}", "gpu_user_annotation", begin + 5, 80, 0, 7, {"External id": whole}),
        complete("train.py(1): step", "python_function", begin + 1, 80, 1, 1, python),
        complete("nn.Module: Linear_0", "python_function", begin + 2, 9, 1, 1, module),
    ]


def _computes(made: _Rank, step: int, whole: int) -> None:
    """A product on the device, and memory taken or given back."""
    made.op("aten::mm", whole, 10, seq_id=step, op_schema=_ADD_)
    made.launch("cudaLaunchKernel", "sgemm_128x64", 8, grid=[1, 2, 3], block=[32, 1, 1], **_PER_SM)
    made.traces.events.append(flow("s", step + 1, made.now, cat="fwdbwd"))
    memory = {
        "Total Allocated": 1024,
        "Addr": 4096,
        "Bytes": 512 * (1 - 2 * (step % 2)),
        "Device Id": 0,
        "Device Type": 1,
    }
    instant = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": 1, "tid": 1}
    made.traces.events.append({**instant, "ts": made.now + 3, "args": memory})
    made.now += 15


def _communicates(made: _Rank, step: int, whole: int) -> None:
    """A collective on the host and on the device."""
    comms = {
        "pg_name": "0",
        "pg_size": 2,
        "collective_name": "allreduce",
        "dtype": "Float",
        "in_msg_nelems": 64,
    }
    made.op("record_param_comms", whole, 9, **comms, out_msg_nelems=64)
    known: Json = {
        "Collective name": "allreduce",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
        "Group size": 2,
    }
    sizes: Json = {"In msg nelems": 64, "Out msg nelems": 64, "dtype": "Float", "Seq": step}
    made.launch("cudaLaunchKernelExC", "ncclDevKernel_AllReduce_Sum_f32", 20, stream=20, **known, **sizes)
    made.now += 40


def _waits(made: _Rank, step: int) -> None:
    """The host waits for the device."""
    waited = {"stream": 7, "correlation": 5000 + step, "device": 0}
    made.traces.events += [
        call("cudaDeviceSynchronize", made.now, 8, 5000 + step),
        complete("Context Sync", "cuda_sync", made.now, 8, 0, 7, waited),
        {"ph": "C", "name": "GPU 0 Utilization", "ts": made.now, "pid": 0, "tid": 0, "args": {"util": 5}},
        flow("f", step + 1, made.now, cat="fwdbwd"),
    ]


def demo_rank(rank: int, nodes: int = 40) -> RankTraces:
    """A part of a rank of the demo: so many nodes from the middle on, with those above them, and their events."""
    et, kineto = (
        json.loads(gzip.decompress((tracebraid.demo_path() / f"{name}_{rank}.json.gz").read_bytes()))
        for name in ("torch_et", "kineto_trace")
    )
    known = {one["id"]: one for one in et["nodes"]}
    ids = sorted(known)[1000 : 1000 + nodes]
    kept = {3, *ids}
    for one in ids:
        while one in known and (one := known[one]["ctrl_deps"]) not in kept:
            kept.add(one)
    chosen = [one for one in et["nodes"] if one["id"] in kept]
    rf_ids = {attr["value"] for one in chosen for attr in one["attrs"] if attr["name"] == "rf_id"}
    events = [event for event in kineto["traceEvents"] if _is_of(event, rf_ids)]
    header = {key: value for key, value in kineto.items() if key != "traceEvents"}
    return RankTraces(chosen, events, header)


def misled_nodes(nodes: list[Json]) -> list[Json]:
    """The nodes, where copies hang under the op before them, which had ended: what a repair mends."""
    before = {one["id"] + 1: one["id"] for one in nodes}
    return [{**one, "ctrl_deps": before[one["id"]]} if one["name"] == "aten::copy_" else one for one in nodes]


def _is_of(event: Json, rf_ids: set[int]) -> bool:
    return event["ph"] == "M" or event.get("args", {}).get("Record function id") in rf_ids


def without_metadata(events: list[Json]) -> int:
    """Count the events that tables have to hold."""
    return sum(event["ph"] != "M" for event in events)
