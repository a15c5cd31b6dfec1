"""How the figures of each analysis are computed, in plain sentences; `docs/analyses` has them in full."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FORMULAS", "formula"]

_HTA = "as HTA defines it"
_PERCENTILES = "Percentiles are interpolated linearly; the standard deviation is that of a sample (n - 1)."

FORMULAS: Mapping[str, str] = {
    # Validity
    "validity": "A row for each step and doubt about it: events that are lost, without a usable duration, longer than "
    "the trace, far longer than all others, or at work while later work of their stream runs.",
    # Time
    "steps": "Start and end of the step's annotation on the host.",
    "step_times": "span: length of the step's annotation on the host. compute: some compute runs on the device. "
    "Exposed comm: communication runs and no compute. Exposed memory: copies or fills run, and neither of both. "
    "idle: the rest. The four add up to the span. Warm-up: steps before the later half up to the first that takes no "
    "more than m + max(5 * 1.4826 * d, 0.2 * m), m and d being the median and the median absolute deviation of the "
    "later half.",
    "step_spread": "Over the steps without warm-up and doubtful ones: mean, median, standard deviation, least, most; "
    "variation = standard deviation / mean. " + _PERCENTILES,
    "breakdown": "With P, C and M the moments in which some compute, communication or memory event runs on any stream "
    "of the device: compute = |P|, exposed comm = |C without P|, exposed memory = |M without P and C|, idle = span - "
    "|P or C or M|. The four add up to the span, to the nanosecond. Without a device ops of the host stand for it.",
    "overlap": "With C the moments in which some of the collectives runs and P all compute of the device: comm = |C|, "
    "overlap = |C and P|, exposed = |C without P|, overlap share = overlap / comm.",
    "exposed_collectives": "A moment in which a device communicates and computes nothing counts once, for the "
    "collective that began first; the rows of a step add up to its exposed communication.",
    "idle_causes": "A device is idle when nothing runs on any of its streams. The first event behind a gap, and the "
    "call that launched it, decide the cause: before the call begins the host is late; a call on an empty queue is "
    "launch latency; work that was in its queue when the gap began was queued, or waited for another stream. The rows "
    "add up to the idle time of the breakdown.",
    "idle_blame": "Of the time in which the host was late: what its launching thread did in each nanosecond of the "
    "gap. The rows add up to the cause 'host late'.",
    "idle_gaps": "Each part of a gap in which no stream of the device has work, by its cause, with what the host did "
    "most of it.",
    "stream_idle": "The gap before each work of a stream: the host is waited for where the launching call began after "
    "all earlier work had ended; else the next kernel where the gap is below 30 µs (HTA's threshold).",
    # Kernels
    "kernels": "Durations of device events by kind and name, added up: work on two streams at once counts twice. "
    "share: of the sum of all durations. Means leave out doubtful steps. " + _PERCENTILES,
    "kernel_families": "Durations of device events by the sort of their work, which the kind, the launching op or the "
    "kernel's name tells, in this order.",
    "kernels_by_op": "Durations of device events by the innermost op or annotation around the call that launched them.",
    "launchers": "Durations of device events by what launched them, the first that fits: a graph, an op, an "
    "annotation, a call outside of both; unknown where no launch is in the trace.",
    "graph_replays": "A replay is a call that launches a graph, with all device events of its correlation.",
    # Ops
    "ops": "host self: the op's duration without ops inside it. host total: with them, of the ops that are in no other "
    "of the row. device self and total: durations of what was launched in the op, without and with ops inside it.",
    "user_annotations": "host total: durations of the annotations that are in no other of their name. device total: "
    "durations of what was launched in them, on any stream; device busy: length of the union of their intervals.",
    "modules": "Forward: own time of host events, and durations of what they launched, whose nearest mark is the "
    "module's call. Backward: those whose nearest mark is a backward op of the module. Totals: with the modules "
    "inside.",
    "python_frames": "host self: time in the function and in no Python function inside it. Device times: durations of "
    "what was launched there.",
    # Launches
    "launches": "host: duration of the launching call. delay: from its end to the start of its first work, 0 where "
    "that starts earlier (HTA's launch delay); it holds the time in the queue. short: launches whose work takes less "
    "time than the call.",
    "launch_bound": "Stretches of at least 3 launches whose work found its stream empty. idle: gaps between the "
    "events; gain: the part of them in which all other streams are idle, too: what a graph or fusion saves at most.",
    "queue_lengths": f"A device event is in its stream's queue from the start of its call to its own start, {_HTA}. "
    "Means over the changes, and weighted by time.",
    "queue_series": f"A device event is in its stream's queue from the start of its call to its own start, {_HTA}.",
    "full_queue": "full: the time in which at least 1,024 launches wait (CUDA's limit). blocked: what launches took "
    "beyond the median of their call while the queue was full.",
    "copies": "bandwidth = bytes / time, over the copies that have both. host wait: what the API documents for such a "
    "copy; awaited: calls that returned at the copy's end or later.",
    "copy_bandwidth": "Over the changes of the sum of bandwidths of the copies of a sort that run at a moment, "
    f"{_HTA}: not weighted by time. What a link achieves is in `copies`.",
    "syncs": "blocked: from the start of the call to the end of the work that it waited for, at most its own end. "
    "Waits of several threads at once add up.",
    # Efficiency
    "op_costs": "FLOPs and least bytes from shapes, by rules that agree with PyTorch's FlopCounterMode; rates = FLOPs "
    "or bytes / device time. Of nested ops with rules the outermost counts.",
    "roofline": "least = max(FLOPs / peak FLOP/s, bytes / peak bandwidth); of roofline = least / device time; lost = "
    "device time - least (Williams, Waterman and Patterson: 'Roofline', CACM 2009).",
    "mfu": "MFU = model FLOPs / (span * peak); HFU = hardware FLOPs, with those computed again, / (span * peak) "
    "(Chowdhery et al.: 'PaLM', appendix B).",
    # Memory
    "memory_timeline": "What the allocator reports with each allocation and release; without allocations in the trace "
    "the storages of the Execution Trace, from the op that makes each to the last that uses it: a lower bound.",
    "memory_peak": "The first moment at which the allocated memory is largest.",
    "memory_at_peak": "What is alive then; the rows add up to the peak, to the byte. Categories follow from how ops "
    "use an allocation: see docs/analyses/memory.",
    "memory_growth": "Allocated at the start and the end of each step; slope: least-squares line through the ends "
    "from the second step on.",
    "activations": "Made in forward and taken by backward. byte seconds: size * lifetime, added up; saved: the part "
    "between the last forward and the first backward use.",
    "allocations": "An allocation and the next release at its address on its device.",
    # Inference
    "inference_phases": "An iteration is a forward pass of a batch, by the engine's annotation or by shapes; its span "
    "ends with the last device work that was launched in it.",
    "token_times": "per token = union of the iterations' spans / tokens; tokens per second is the inverse.",
    # Collectives
    "collectives": "transfer: from the last arrival to the last end, or the shortest member's duration where clocks "
    "are not known well enough. waiting: from a member's arrival to that of the last rank it receives from. "
    "Algorithm bandwidth = size / transfer; bus bandwidth = that times the factor of nccl-tests.",
    "collective_totals": "duration = transfer + waiting + rest, over the members of a rank. caused: what other ranks "
    "waited for this one.",
    "collective_bandwidth": "Algorithm bandwidth = size / median transfer; bus bandwidth = factor * that, with 2 (n - "
    "1) / n for an all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all (nccl-tests, PERFORMANCE.md).",
    "collective_fit": "Hockney's model, time = alpha + size / beta, fitted to the transfers with relative errors and "
    "Huber's weights.",
    "collective_imbalance": "Most bytes that a rank gets, or gives, over the mean of all ranks.",
    "matched_groups": "Members of all ranks are matched by communicator, sequence number, order or time, the best "
    "first; members = matched + unmatched.",
    # Ranks
    "clocks": "Offset and drift from the ends of the collectives that ranks share; the interval from the fact that "
    "none ends before all have begun.",
    "rank_steps": "waiting: time in which at least one collective of the rank waits. caused: what others waited for "
    "this rank.",
    "rank_waits": "From a rank's arrival at a collective until the last rank it receives from has arrived: that rank "
    "is the one waited for.",
    "late_arrivals": "lateness: the rank's arrival after the median of the others'. The cause is what took it longer "
    "than the others since the group's last collective.",
    "stragglers": "Of the steps in which some rank was late by its own cause, in how many this rank was the latest; "
    "p = min(1, N * P(X >= W)) with X ~ Binomial(steps, 1 / N). Systematic: p below 0.01, and late for 0.5 % of the "
    "time.",
    # Dependency graph
    "critical_path": "Back from the latest end of a step over what each moment waited for the longest; its segments "
    "and residuals add up to the step's time.",
    "sweep": "The dependency graph is replayed with 10, 50 and 100 % of a group's work gone; the gain is by how much "
    "the steps become shorter. Groups overlap, so gains do not add up.",
    "advice": "What each item saves at most in a step: the time that its occurrences cost, of which none counts twice.",
}
"""By the name of the analysis."""


def formula(name: str) -> str:
    """The formula of an analysis, and its name, by which `tracebraid analyze` has all rows; empty for other names."""
    text = FORMULAS.get(name)
    return "" if text is None else f"{text} (tracebraid analyze {name})"
