"""Classes of tensors that raise wherever they can: in dispatch, functions, attributes and text.

One that raises when it is asked for its sizes is not among them: PyTorch's profiler then cuts its own record short,
leaves Python's error set, and can write no trace (docs/limits.md). The native recorder alone stands it:
`tests/integration/test_native_tensors.py`.
"""

from __future__ import annotations

from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


class _Throws(torch.Tensor):
    """Raises in each operator if it `fails`, and works as a wrapper of a tensor otherwise."""

    fails = False
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor, fails: bool, sizes: str | None) -> Any:
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
        if wrapped and not is_question and wrapped[0].fails:
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
                sizes = run.random.choice([None, "sizes", "strides"])
                run.note(_tried(_Throws(torch.ones(3), run.random.random() < 0.5, sizes)))
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


SCENARIO = Scenario("classes of tensors that raise in operators, functions, attributes, repr", work)
