"""HTA's load of a trace, measured in an interpreter that has HTA: `python -m benchmarks.hta_load PATH`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from benchmarks.measure import Measured, Stopwatch

__all__: list[str] = []


def _load(path: str) -> Measured:
    from hta.trace_analysis import TraceAnalysis

    watch = Stopwatch()
    held = TraceAnalysis(trace_files={0: path}, trace_dir=".")
    measured = watch.stop()
    del held
    return measured


if __name__ == "__main__":
    print(json.dumps(asdict(_load(sys.argv[1]))))
