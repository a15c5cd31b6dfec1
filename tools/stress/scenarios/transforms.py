"""torch.func: vmap, grad, jvp, jacobians, nested in each other and on threads."""

from __future__ import annotations

import threading

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run, digest_of


def _square(value: torch.Tensor) -> torch.Tensor:
    return (value * value).sum()


def work(run: Run) -> None:
    """Transform in each step."""
    func = torch.func
    kinds = [
        lambda value: func.grad(_square)(value),
        lambda value: func.vmap(func.grad(_square))(value.expand(3, -1)),
        lambda value: func.hessian(_square)(value),
        lambda value: func.jvp(torch.sin, (value,), (value,))[1],
        lambda value: func.vmap(func.vmap(torch.outer))(value.expand(2, 2, -1), value.expand(2, 2, -1)),
        lambda value: func.vjp(torch.cos, value)[1](value)[0],
        lambda value: func.functionalize(lambda one: one.clone().add_(1))(value),
        lambda value: func.vmap(lambda one: one + torch.rand(()), randomness="same")(value.expand(2, -1)),
    ]
    with run.captured() as step:
        for number in range(12):
            value = torch.full((4,), float(number))
            run.note(*(kind(value) for kind in run.random.sample(kinds, 5)))
            results: list[str] = []
            thread = threading.Thread(
                target=lambda found=results, one=value: found.append(digest_of(kinds[1](one)))
            )
            thread.start()
            thread.join()
            run.note(*results)
            step()


SCENARIO = Scenario("vmap, grad, jvp, vjp, hessian, functionalize", work)
