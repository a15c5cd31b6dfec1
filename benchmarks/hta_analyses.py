"""HTA's answers on one trace, measured in an interpreter that has HTA: `python -m benchmarks.hta_analyses PATH`.

The parts are the seconds of each function; those that fail on the trace are left out. Its load does not count.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from benchmarks.measure import Measured, Stopwatch

__all__: list[str] = []

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
"""What it answers of one rank, without its plots."""


def _analyses(path: str) -> Measured:
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
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


if __name__ == "__main__":
    print(json.dumps(asdict(_analyses(sys.argv[1]))))
