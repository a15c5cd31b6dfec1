"""Very many operators in a window."""

from __future__ import annotations

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run

_MANY, _SOME = 10_000_000, 20_000


def work(run: Run) -> None:
    """Run them in the steps that may be recorded."""
    each = (_MANY if run.is_full else _SOME) // 8
    value = torch.zeros(4)
    with run.captured() as step:
        for number in range(12):
            for _ in range(each if 2 <= number < 10 else 10):
                value.add_(1)
            step()
    run.note(value)


SCENARIO = Scenario("10 million operators (20,000 in the short form)", work, limit_s=1800.0)
