"""Autograd at its most tangled: backward in hooks and in backward, checkpoints, double backward, on many threads."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tools.stress.model import Scenario
from tools.stress.run import Network, Run, digest_of


class _Reentrant(torch.autograd.Function):
    """Runs a backward pass within its own."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        """The same again."""
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """A gradient that comes of another backward pass."""
        with torch.enable_grad():
            inner = gradients[0].detach().clone().requires_grad_()
            inner.square().sum().backward()
        found: torch.Tensor = inner.grad
        return found


def work(run: Run) -> None:
    """All of it in each step."""
    network = Network().eval()
    with run.captured() as step:
        for number in range(12):
            value = torch.full((4,), float(number + 1), requires_grad=True)
            _Reentrant.apply(_Reentrant.apply(value)).sum().backward()
            run.note(value.grad, _hooked(number), _twice(number), *_on_threads(number))
            rows = torch.ones(2, 8, requires_grad=True)
            checkpoint(network, rows, use_reentrant=bool(number % 2)).sum().backward()
            run.note(rows.grad)
            step()


def _hooked(number: int) -> str:
    found: list[str] = []
    value = torch.full((3,), float(number), requires_grad=True)

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            inner = torch.ones(2, requires_grad=True)
            (inner * number).sum().backward()
        found.append(digest_of(inner.grad))
        return gradient * 2

    value.register_hook(hook)
    value.register_post_accumulate_grad_hook(lambda one: found.append(digest_of(one.grad)))
    value.sin().sum().backward()
    return "".join(found)


def _twice(number: int) -> torch.Tensor:
    value = torch.full((3,), float(number + 1), requires_grad=True)
    (first,) = torch.autograd.grad(value.pow(3).sum(), value, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), value)
    found: torch.Tensor = second
    return found


def _on_threads(number: int) -> list[str]:
    results = [""] * 4
    shared = torch.full((3,), float(number + 1))

    def backward(place: int) -> None:
        own = shared.clone().requires_grad_()
        (own * place).exp().sum().backward()
        results[place] = digest_of(own.grad)

    threads = [threading.Thread(target=backward, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


SCENARIO = Scenario("backward in hooks and in backward, checkpoints, double backward, threads", work)
