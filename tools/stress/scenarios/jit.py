"""TorchScript: scripted and traced functions and modules, forked tasks, interpreters on threads."""

from __future__ import annotations

import threading

import torch

from tools.stress.model import Scenario
from tools.stress.run import Network, Run, digest_of


def _branching(value: torch.Tensor, times: int) -> torch.Tensor:
    for count in range(times):
        value = value.sin() + 1 if bool(value.sum() > count) else value * value
    return value


def _twice(value: torch.Tensor) -> torch.Tensor:
    futures = [torch.jit.fork(torch.neg, value), torch.jit.fork(torch.cos, value)]
    return torch.jit.wait(futures[0]) + torch.jit.wait(futures[1])


def work(run: Run) -> None:
    """Call them in each step."""
    scripted = torch.jit.script(_branching)
    twice = torch.jit.script(_twice)
    network = Network().eval()
    traced = torch.jit.trace(network, torch.ones(2, 8))
    with run.captured() as step:
        for number in range(12):
            value = torch.full((4,), number / 4, requires_grad=True)
            scripted(value, 5).sum().backward()
            run.note(value.grad, twice(value), traced(torch.ones(3, 8)))
            results: list[str] = []
            thread = threading.Thread(
                target=lambda found=results: found.append(digest_of(scripted(torch.ones(3), 4)))
            )
            thread.start()
            thread.join()
            run.note(*results)
            if number == 6:
                run.note(torch.jit.freeze(traced)(torch.ones(1, 8)))
            step()


SCENARIO = Scenario("TorchScript: script, trace, freeze, fork", work)
