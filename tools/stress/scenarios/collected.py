"""Captures and models that are dropped, collected, copied and entered again; weak references and finalizers."""

from __future__ import annotations

import gc
import weakref

import torch

from tools.stress.model import Scenario
from tools.stress.run import Network, Run


class _Finalized:
    """Runs operators when it is collected."""

    def __init__(self) -> None:
        self.myself = self

    def __del__(self) -> None:
        torch.ones(2).add(1)


def work(run: Run) -> None:
    """Objects with operators in their finalizers die in every step; models and optimizers come and go."""
    died: list[int] = []
    with run.captured() as step:
        for number in range(14):
            for _ in range(3):
                _Finalized()
            network = Network().eval()
            optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
            weakref.finalize(network, died.append, number)
            network(torch.ones(1, 8)).sum().backward()
            if run.random.random() < 0.2:
                optimizer.step()
            del network, optimizer
            if run.random.random() < 0.5:
                gc.collect(run.random.randrange(3))
            step()
    gc.collect()
    run.note(sorted(died))


SCENARIO = Scenario("finalizers that run operators, models and optimizers that die", work)
