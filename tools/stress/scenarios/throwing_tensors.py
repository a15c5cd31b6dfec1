"""Classes of tensors that raise wherever they can: in their sizes, dispatch, attributes and text."""

from __future__ import annotations

from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


class _Throws(torch.Tensor):
    """Raises in what is named by `fails`, and works as a wrapper of a tensor otherwise."""

    fails: frozenset[str] = frozenset()
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor, fails: frozenset[str], sizes: str | None) -> Any:
        """A wrapper; `sizes` has PyTorch ask it for its sizes, or for these and strides."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, dispatch_sizes_strides_policy=sizes
        )
        made.inner, made.fails = inner, fails
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise, or do it to what is wrapped."""
        name = str(function)
        wrapped = [one for one in args if isinstance(one, _Throws)]
        is_question = any(word in name for word in ("size", "stride", "numel", "dim", "offset"))
        if wrapped and ("sizes" if is_question else "dispatch") in wrapped[0].fails:
            raise RuntimeError(f"{name} of a class that throws")
        return function(*(one.inner if isinstance(one, _Throws) else one for one in args), **(kwargs or {}))

    def __repr__(self, **_: Any) -> str:
        """Raise."""
        raise ValueError("repr")

    def __getattr__(self, name: str) -> Any:
        """Raise what is no AttributeError."""
        raise KeyError(name)


class _Function(torch.Tensor):
    """Raises in `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise."""
        raise ZeroDivisionError("function")


def work(run: Run) -> None:
    """Give them to operators."""
    with run.captured() as step:
        for _ in range(12):
            for _ in range(6):
                fails = frozenset(name for name in ("sizes", "dispatch") if run.random.random() < 0.5)
                sizes = run.random.choice([None, "sizes", "strides"])
                run.note(_tried(_Throws(torch.ones(3), fails, sizes)))
            run.note(_tried(torch.ones(3).as_subclass(_Function)))
            step()


def _tried(value: torch.Tensor) -> list[str]:
    told = []
    for action in (
        lambda: torch.add(value, 1),
        lambda: torch.stack([value, value]),
        lambda: value.sum(),
        lambda: torch.nn.functional.linear(value, torch.ones(2, 3)),
        lambda: repr(value),
    ):
        try:
            action()
            told.append("fine")
        except (RuntimeError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            told.append(type(error).__name__)
    return told


SCENARIO = Scenario("classes of tensors that raise in sizes, dispatch, attributes, repr", work)
