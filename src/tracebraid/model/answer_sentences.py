"""What codes in answers mean, and what it means that an answer has no rows, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tracebraid.model.answers import (
    AllocatorCall,
    Bound,
    CaptureMatch,
    CategoryRule,
    Doubt,
    FirstTimeWork,
    GapSize,
    HostActivity,
    HostWait,
    IdleCause,
    Launcher,
    MemoryCategory,
    MemorySource,
    ModuleSource,
    Phase,
    PhaseEvidence,
    StepPart,
    StreamGap,
    SyncKind,
    TrainingPhase,
)
from tracebraid.model.device_peaks import Precision
from tracebraid.model.kernel_family_rules import KernelFamily
from tracebraid.model.transfer_method import TransferMethod

__all__ = ["CODES_OF_COLUMNS", "CODE_NAMES", "CODE_SENTENCES", "NO_ROWS_SENTENCES", "code_name"]

CODES_OF_COLUMNS: Mapping[str, tuple[type[Enum], ...]] = {
    "cause": (IdleCause,),
    "host_activity": (HostActivity,),
    "size": (GapSize,),
    "doubt": (Doubt,),
    "bound": (Bound,),
    "launcher": (Launcher,),
    "kind": (SyncKind, AllocatorCall),
    "part": (StepPart,),
    "phase": (Phase, TrainingPhase),
    "released_in": (TrainingPhase,),
    "category": (MemoryCategory, StreamGap),
    "rule": (CategoryRule,),
    "family": (KernelFamily,),
    "precision": (Precision,),
    "host_wait": (HostWait,),
    "source": (MemorySource, ModuleSource),
    "method": (CaptureMatch,),
    "evidence": (PhaseEvidence,),
    "first_time_work": (FirstTimeWork,),
    "transfer_method": (TransferMethod,),
}
"""The codes that a column may hold, by its name. A value that is none of them is shown as it is."""

CODE_NAMES: Mapping[Enum, str] = {
    IdleCause.HOST_LATE: "host was late",
    IdleCause.STREAM_WAIT: "waited for a stream",
    IdleCause.QUEUED: "between kernels",
    HostActivity.WAITED_FOR_DATA: "waited for data",
    HostActivity.COMPUTED: "in an op",
    HostActivity.PYTHON: "in Python",
    HostActivity.LAUNCHED: "in a launch",
    HostActivity.CALLED: "in a runtime call",
    HostActivity.SYNCHRONIZED: "synchronised",
    HostActivity.OUTSIDE_OF_OPS: "outside of ops",
    GapSize.MICRO: "short",
    GapSize.MACRO: "long",
    StreamGap.HOST_WAIT: "host",
    StreamGap.KERNEL_WAIT: "next kernel",
    StepPart.GAP: "gap to the next",
    FirstTimeWork.DEVICE_MALLOC: "device memory allocated",
    FirstTimeWork.MODULE_LOAD: "kernels loaded",
    FirstTimeWork.COMPILE: "compilation",
    MemoryCategory.BEFORE_TRACE: "from before the trace",
    MemoryCategory.COLLECTIVE_BUFFERS: "buffers of collectives",
    Launcher.GRAPH: "graph launches",
    Launcher.OP: "ops",
    Launcher.ANNOTATION: "annotations outside of ops",
    Launcher.CALL: "calls outside of both",
    Launcher.UNKNOWN: "no launch in the trace",
    KernelFamily.GEMM: "GEMM",
    Precision.VECTOR: "fp32 vector",
    PhaseEvidence.VLLM: "vLLM's annotation",
    PhaseEvidence.SGLANG: "SGLang's annotation",
    PhaseEvidence.ATOM: "ATOM's annotation",
    PhaseEvidence.TENSORRT_LLM: "TensorRT-LLM's annotation",
    PhaseEvidence.WORD: "word in an annotation",
}
"""How people call a code, where that is not its value with spaces."""

CODE_SENTENCES: Mapping[Enum, str] = {
    IdleCause.HOST_LATE: "the device had done all its work before the host began to launch more",
    IdleCause.GRAPH_LAUNCH: "the call that launches a graph had begun, and the graph's first kernel had not",
    IdleCause.LAUNCH_LATENCY: "the launching call had begun on an empty queue, and the kernel had not",
    IdleCause.STREAM_WAIT: "the next work was launched, and waited for work of another stream",
    IdleCause.QUEUED: "the next work was in the queue already: what a stream takes from a kernel to the next",
    IdleCause.BLOCKED: "the next work was launched long before; the trace does not show what it waited for",
    IdleCause.NO_MORE_WORK: "nothing follows on the device",
    IdleCause.UNKNOWN: "the launch of the next work is not in the trace",
    HostActivity.WAITED_FOR_DATA: "the host waited for the DataLoader",
    HostActivity.SYNCHRONIZED: "the host was in a call that waits for the device; `tracebraid analyze syncs` names it",
    HostActivity.COMPUTED: "the host ran an op's own code; `tracebraid analyze idle_blame` names it",
    HostActivity.CALLED: "the host was in a call of the runtime that neither launches nor waits for the device",
    HostActivity.PYTHON: "the host ran Python outside of ops; `tracebraid analyze idle_blame` names the function",
    HostActivity.OUTSIDE_OF_OPS: "the host ran no op: Python (capture with --stacks to see it), or nothing",
    GapSize.MICRO: "in gaps of less than 100 µs",
    GapSize.MACRO: "in gaps of 100 µs or more",
    StreamGap.HOST_WAIT: "the next kernel was launched after the stream ran dry (HTA's rule)",
    StreamGap.KERNEL_WAIT: "the next kernel had been launched before (HTA's rule), and came soon",
    Doubt.DEVICE_EVENTS_MISSING: "lost events: most launches have no work, or far less than in steps with the same ops",
    Doubt.LAUNCH_WITHOUT_WORK: "launches whose work is not in the trace",
    Doubt.DURATION_OVERFLOWS: "durations in the file that are negative, huge, missing or no number",
    Doubt.OUTLASTS_TRACE: "work on the device far outside of the time in which the trace was taken",
    Doubt.EVENT_DOMINATES: "a single event, unlike all others, makes nearly all device time",
    Doubt.STREAM_OVERLAPS: "work that overlaps later work of its stream in a way that no device runs",
    Bound.COMPUTE: "at best limited by the peak of FLOP/s",
    Bound.MEMORY: "at best limited by memory bandwidth",
    Bound.LATENCY: "too small to fill the device",
    Bound.INTERCONNECT: "limited by links between devices",
    MemoryCategory.BEFORE_TRACE: "allocated before the trace began: nothing is known of it but the sum",
    MemoryCategory.TEMPORARIES: "made and released in one pass",
    MemoryCategory.ACTIVATIONS: "made in forward and held for backward",
    CaptureMatch.NO_CAPTURE: "the graph was captured before the trace: its ops are not known",
    TransferMethod.LAST_ARRIVAL: "transfer is from the last arrival on",
    TransferMethod.SHORTEST_MEMBER: "transfer is the shortest duration of a rank: clocks are not known well enough",
    TransferMethod.DURATION: "transfer is at most that long: no rank is there for which it could wait",
    HostWait.COMPLETE: "the call returns when the copy has ended",
    HostWait.STAGED: "the call returns when the host's memory has been read",
    SyncKind.QUERY: "asks and does not wait",
}
"""What codes mean, in words, where their names alone do not say it."""

NO_ROWS_SENTENCES: Mapping[str, str] = {
    "validity": "nothing speaks against the figures of any step",
    "idle_causes": "no device is ever idle",
    "idle_blame": "no device ever waits for the host",
    "idle_gaps": "no device is ever idle",
    "stream_idle": "no stream has two pieces of work, and so none has a gap",
    "exposed_collectives": "no collective is in the steps",
    "collective_imbalance": "no all-to-all of known size is in the traces",
    "collective_fit": "no collective of known size is in the traces",
    "short_kernels": "no kernel is shorter than the threshold (--set max_ns=...)",
    "kernel_pace": "no kernel runs twice on a stream",
    "kernel_sequences": "no sequence of kernels comes back",
    "op_kernel_sequences": "no op launches work of its own",
    "launch_bound": "no stream runs dry before several launches in a row",
    "launches": "no call in the trace is known to launch work",
    "launch_events": "no call in the trace is known to launch work",
    "queue_lengths": "no call in the trace is known to launch work",
    "queue_series": "no call in the trace is known to launch work",
    "full_queue": "no call in the trace is known to launch work",
    "copies": "nothing is copied or filled on a device",
    "copy_bandwidth": "no copy or fill has a size and a duration",
    "copy_bandwidth_series": "no copy or fill has a size and a duration",
    "syncs": "no call of the host waits for a device",
    "sync_calls": "no call of the host waits for a device",
    "roofline": "of no op are both its least time and its device time known",
    "recomputation": "nothing is computed again in a backward pass",
    "memory_peak": "nothing is allocated in the trace",
    "memory_at_peak": "nothing is allocated in the trace",
    "activations": "nothing is made in a forward pass and held for backward",
    "memory_kept": "no step leaves allocated what other steps leave as well: nothing seems to leak",
    "allocator_calls": "the allocator asks no device for memory",
}
"""What it means that an analysis that could be answered has no rows, by its name."""


def code_name(code: Enum) -> str:
    """What people call a code."""
    return CODE_NAMES.get(code, str(code.value).replace("-", " ").replace("_", " "))
