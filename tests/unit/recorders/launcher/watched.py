"""What tests of the watch do to torch, and what the watch changes in it."""

from __future__ import annotations

from typing import Any

import torch


def call(module: Any, times: int = 1) -> None:
    for _ in range(times):
        module(torch.ones(2, 3))


def of_torch() -> list[Any]:
    """What the watch changes."""
    optimizer = torch.optim.Optimizer
    run_backward = torch.autograd.graph._engine_run_backward
    assert torch.autograd._engine_run_backward is run_backward
    return [torch.nn.Module.__call__, optimizer.__init__, optimizer.profile_hook_step, run_backward]
