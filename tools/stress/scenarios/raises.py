"""Exceptions that go through operators, hooks, annotations and functions of autograd."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


class _Mistaken(torch.autograd.Function):
    """Raises in its backward pass."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        """The same again."""
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """Raise."""
        gradients[0].add(1)
        raise KeyError("backward")


def work(run: Run) -> None:
    """Several exceptions in each step, on this thread and on others."""
    causes: list[Callable[[], object]] = [
        _of_operator,
        _of_annotation,
        _of_hook,
        _of_backward,
        _of_module,
        _of_checks,
    ]
    with run.captured() as step:
        for _ in range(12):
            for cause in run.random.sample(causes, 3):
                run.note(_raised_by(cause))
            thread = threading.Thread(target=_raised_by, args=(run.random.choice(causes),))
            thread.start()
            step()
            thread.join()


def _raised_by(cause: Callable[[], object]) -> str:
    try:
        cause()
    except (RuntimeError, KeyError, ValueError, IndexError, TypeError) as error:
        return f"{type(error).__name__} {str(error)[:80]}"
    return "nothing"


def _of_operator() -> None:
    torch.mm(torch.ones(2, 3), torch.ones(2, 3))


def _of_annotation() -> None:
    with torch.profiler.record_function("outer"), torch.profiler.record_function("inner"):
        torch.ones(3)
        raise ValueError("in an annotation")


def _of_hook() -> None:
    value = torch.ones(3, requires_grad=True)

    def fail(gradient: torch.Tensor) -> None:
        gradient.add(1)
        raise ValueError("in a hook")

    value.register_hook(fail)
    (value * 2).sum().backward()


def _of_backward() -> None:
    _Mistaken.apply(torch.ones(3, requires_grad=True)).sum().backward()


def _of_module() -> None:
    # No random numbers: it may run beside a step of training, which draws some.
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 2, 2, bias=False)
    with suppress(ValueError):
        layer.register_forward_hook(lambda *_: (_ for _ in ()).throw(ValueError("forward hook")))
        layer(torch.ones(1, 2))
    layer(torch.ones(1, 3))


def _of_checks() -> None:
    torch.ones(3)[torch.tensor([7])]


SCENARIO = Scenario("exceptions through operators, hooks, annotations and autograd", work)
