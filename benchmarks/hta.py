"""HTA's load and answers, measured in an interpreter that has HTA."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.measure import Measured, Stopwatch, silenced


def hta_load(path: str) -> Measured:
    """Load a trace."""
    from hta.trace_analysis import TraceAnalysis

    watch = Stopwatch()
    held = TraceAnalysis(trace_files={0: path}, trace_dir=".")
    measured = watch.stop()
    del held
    return measured


_FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

_QUESTIONS: dict[str, Callable[[Any], object]] = {
    "get_temporal_breakdown": lambda hta: hta.get_temporal_breakdown(visualize=False),
    "get_gpu_kernel_breakdown": lambda hta: hta.get_gpu_kernel_breakdown(visualize=False),
    "get_idle_time_breakdown": lambda hta: hta.get_idle_time_breakdown(
        ranks=[0], visualize=False, visualize_pctg=False, show_idle_interval_stats=True
    ),
    "get_comm_comp_overlap": lambda hta: hta.get_comm_comp_overlap(visualize=False),
    "get_cuda_kernel_launch_stats": lambda hta: hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False),
    "get_queue_length_summary": lambda hta: hta.get_queue_length_summary(ranks=[0]),
    "get_queue_length_time_series": lambda hta: hta.get_queue_length_time_series(ranks=[0]),
    "get_memory_bw_summary": lambda hta: hta.get_memory_bw_summary(ranks=[0]),
    "get_memory_bw_time_series": lambda hta: hta.get_memory_bw_time_series(ranks=[0]),
    "get_aten_op_kernels_and_delay": lambda hta: hta.get_aten_op_kernels_and_delay(ranks=[0]),
    "get_gpu_user_annotation_breakdown": lambda hta: hta.get_gpu_user_annotation_breakdown(visualize=False),
    "get_gpu_kernels_with_user_annotations": lambda hta: hta.get_gpu_kernels_with_user_annotations(rank=0),
}
"""Its answers about one rank, without its plots."""


def hta_analyses(path: str) -> Measured:
    """Ask for each answer."""
    from hta.trace_analysis import TraceAnalysis

    with silenced():
        hta = TraceAnalysis(trace_files={0: path}, trace_dir=".")
        whole, parts = Stopwatch(), {}
        for name, ask in _QUESTIONS.items():
            watch = Stopwatch()
            try:
                held = ask(hta)
            except _FAILURES as error:
                print(f"  {name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            parts[name] = watch.stop().seconds
            del held
    return replace(whole.stop(), parts=parts)
