"""The scenarios by topic; each names the function that a fresh process runs."""

from __future__ import annotations

from tools.stress.model import SCENARIOS
from tools.stress.scenarios import processes, profilers, python_code, signals, tensors

__all__ = ["SCENARIOS", "processes", "profilers", "python_code", "signals", "tensors"]
