"""Sentences for codes in answers, and for answers without rows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tracebraid.model.answers.efficiency import Bound, CaptureMatch, Phase, PhaseEvidence, UnknownFlops
from tracebraid.model.answers.graph import SegmentKind
from tracebraid.model.answers.job import DiffChange, DiffSetting, HangState, LateCause, MetricLack
from tracebraid.model.answers.launches import HostWait, Launcher, SyncKind
from tracebraid.model.answers.memory import (
    AllocatorCall,
    CategoryRule,
    MemoryCategory,
    MemorySource,
    TrainingPhase,
)
from tracebraid.model.answers.ops import ModuleSource
from tracebraid.model.answers.time import FirstTimeWork, GapSize, HostActivity, IdleCause, StepPart, StreamGap
from tracebraid.model.category import Category
from tracebraid.model.collectives import TransferMethod
from tracebraid.model.device_peaks import Precision
from tracebraid.model.gaps import Gap
from tracebraid.model.kernel_family import KernelFamily

CODES_OF_COLUMNS: Mapping[str, tuple[type[Enum], ...]] = {
    "cause": (IdleCause, LateCause),
    "host_activity": (HostActivity,),
    "size": (GapSize,),
    "doubt": (Gap,),
    "state": (HangState,),
    "bound": (Bound,),
    "unknown_flops": (UnknownFlops,),
    "launcher": (Launcher,),
    "kind": (SyncKind, AllocatorCall, SegmentKind),
    "part": (StepPart,),
    "phase": (Phase, TrainingPhase),
    "released_in": (TrainingPhase,),
    "category": (Category, MemoryCategory, StreamGap),
    "op_category": (Category,),
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
"""Codes that a column may hold, by its name. Other values are shown as they are."""

CODE_NAMES: Mapping[Enum, str] = {
    Category.CPU_OP: "op",
    Category.USER_ANNOTATION: "annotation",
    IdleCause.HOST_LATE: "host was late",
    IdleCause.STREAM_WAIT: "waited for a stream",
    IdleCause.QUEUED: "between kernels",
    IdleCause.BLOCKED: "waited for something not in the trace",
    SegmentKind.MEMBER_WAIT: "waiting for other ranks",
    SegmentKind.STREAM_GAP: "between kernels",
    SegmentKind.HANDOVER: "hand-over",
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
    KernelFamily.GEMM: "matrix products (gemm)",
    KernelFamily.MOE: "mixture of experts (moe)",
    KernelFamily.TRITON: "Triton kernels",
    KernelFamily.ELEMENTWISE: "elementwise ops",
    KernelFamily.FFT: "FFT",
    KernelFamily.OTHER: "other kernels",
    Precision.VECTOR: "fp32 vector",
    PhaseEvidence.VLLM: "vLLM's annotation",
    PhaseEvidence.SGLANG: "SGLang's annotation",
    PhaseEvidence.ATOM: "ATOM's annotation",
    PhaseEvidence.TENSORRT_LLM: "TensorRT-LLM's annotation",
    PhaseEvidence.PATTERN: "own pattern",
    PhaseEvidence.WORD: "word in an annotation",
    DiffChange.SHAPES: "other shapes",
    DiffChange.TYPES: "other types",
    DiffChange.COUNT: "other count",
    DiffChange.DEVICE: "with or without kernels",
    DiffSetting.RECORD_SHAPES: "record_shapes",
    DiffSetting.WITH_STACK: "with_stack",
    DiffSetting.PROFILE_MEMORY: "profile_memory",
    DiffSetting.WITH_MODULES: "with_modules",
    DiffSetting.OVERHEAD: "the profiler's own events, per step",
}
"""Labels of codes that differ from the value with spaces."""

CODE_SENTENCES: Mapping[Enum, str] = {
    **{gap: gap.code.sentence for gap in Gap},
    IdleCause.HOST_LATE: "the device had finished all its work before the host began to launch more",
    IdleCause.GRAPH_LAUNCH: "the call that launches a graph had begun, but not the graph's first kernel",
    IdleCause.LAUNCH_LATENCY: "the launching call had begun on an empty queue, but not the kernel",
    IdleCause.STREAM_WAIT: "the next work was launched, but waited for another stream",
    IdleCause.QUEUED: "the next work was already queued: the delay of a stream between kernels",
    IdleCause.BLOCKED: "the next work was launched long before; the trace does not show the cause of its wait",
    IdleCause.NO_MORE_WORK: "no further work follows on the device",
    IdleCause.UNKNOWN: "the launch of the next work is not in the trace",
    HostActivity.WAITED_FOR_DATA: "the host waited for the DataLoader",
    HostActivity.SYNCHRONIZED: "the host was in a call that waits for the device; `tracebraid analyze syncs` names it",
    HostActivity.COMPUTED: "the host ran an op's own code; `tracebraid analyze idle_blame` names it",
    HostActivity.CALLED: "the host was in a runtime call that neither launches work nor waits for the device",
    HostActivity.PYTHON: "the host ran Python outside ops; `tracebraid analyze idle_blame` names the function",
    HostActivity.OUTSIDE_OF_OPS: "the host ran no op: it ran Python (capture with --stacks to see it) or was idle",
    LateCause.MORE_KERNELS: "it ran more kernels than other ranks, or different ones",
    LateCause.LONGER_HOST_OP: "a host op or call took longer than on other ranks, or ran only here",
    LateCause.HOST_WITHOUT_EVENTS: "the host slept, was not scheduled, or ran Python (capture with --stacks to see it)",
    LateCause.QUEUE_DELAY: "launched work did not start although the device was free",
    LateCause.LONGER_TRANSFER: "its collectives took longer to transfer than those of other ranks",
    LateCause.INHERITED: "it was late earlier, or had waited for another rank: `origin_rank` was late first",
    LateCause.BEFORE_RECORDING: "it was late when its trace began",
    LateCause.PIPELINE_ORDER: "the order of the pipeline makes a partner wait: no work took longer than on other ranks",
    HangState.NOT_ISSUED: "it did not issue it while it was recorded: it failed, left the loop, or took another branch",
    HangState.NOT_IN_TRACES: "the rank is not in the traces",
    LateCause.UNEXPLAINED: "no difference from other ranks explains a quarter of it",
    GapSize.MICRO: "in gaps of less than 100 µs",
    GapSize.MACRO: "in gaps of 100 µs or more",
    StreamGap.HOST_WAIT: "the next kernel was launched after the stream ran dry (HTA's rule)",
    StreamGap.KERNEL_WAIT: "the next kernel had been launched before, and started soon (HTA's rule)",
    Bound.COMPUTE: "limited by peak FLOP/s",
    Bound.MEMORY: "limited by memory bandwidth",
    Bound.LATENCY: "too small to fill the device",
    Bound.INTERCONNECT: "limited by links between devices",
    UnknownFlops.NO_FORMULA: "no formula is known for the op",
    UnknownFlops.INSIDE: "the ops inside it are counted",
    UnknownFlops.OPERANDS: "the trace does not say what the formula needs of its shapes, types or values",
    UnknownFlops.CACHED_KEYS: "shapes do not say how many cached keys each query meets",
    MemoryCategory.BEFORE_TRACE: "allocated before the trace began: only the sum is known",
    MemoryCategory.TEMPORARIES: "allocated and released in one pass",
    MemoryCategory.ACTIVATIONS: "allocated in forward and kept for backward",
    CaptureMatch.NO_CAPTURE: "the graph was captured before the trace: its ops are unknown",
    TransferMethod.LAST_ARRIVAL: "the transfer starts with the last arrival",
    TransferMethod.SHORTEST_MEMBER: "the transfer is the shortest duration of a rank: clocks are too uncertain",
    TransferMethod.DURATION: "an upper bound of the transfer: no other rank is known",
    HostWait.COMPLETE: "the call returns when the copy has ended",
    HostWait.STAGED: "the call returns when the host's memory has been read",
    SyncKind.QUERY: "polls without waiting",
    MetricLack.DOUBTFUL_STEPS: "every step is doubtful (`tracebraid analyze validity`); --with-doubtful counts them",
    MetricLack.NOTHING_TO_MEASURE: "the steps contain no data for it",
    MetricLack.SIZES_UNKNOWN: "the trace does not state the size of some collective",
    MetricLack.RANKS_MISSING: "the traces have no such collective with its size and all its ranks",
    MetricLack.PEAK_NOT_STATED: "no peak is given (--peak-bandwidth), or no bandwidth is known",
    MetricLack.METRIC_FAILED: "a user's metric failed",
}
"""Meanings of codes that their names do not convey."""


def code_name(code: Enum) -> str:
    """Return the label of a code."""
    return CODE_NAMES.get(code, str(code.value).replace("-", " ").replace("_", " "))
