"""Scenarios with unusual tensors and operators."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from tools.stress.model import SCENARIOS, Scenario
from tools.stress.run import Network, Run, digest_of


def _nested() -> object:
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    return (ragged * 2).to_padded_tensor(0.0), (jagged + 1).values(), ragged.unbind()[1]


def _sparse() -> object:
    dense = torch.eye(4).add_(0)
    compressed = [dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2))]
    return dense.to_sparse() @ dense, *(one.to_dense() for one in compressed), compressed[0] @ dense


def _quantised() -> object:
    quantised = torch.quantize_per_tensor(torch.arange(6.0), 0.1, 3, torch.quint8)
    channels = torch.quantize_per_channel(torch.ones(2, 3), torch.ones(2), torch.zeros(2), 0, torch.qint8)
    return quantised.dequantize(), (quantised.int_repr() + 1), channels.dequantize()


def _meta() -> object:
    huge = torch.empty(2**30, 2**20, device="meta")
    return tuple((huge @ huge.t()).shape), tuple(huge.sum(0).shape)


def _fake() -> object:
    with FakeTensorMode() as mode:
        fake = torch.ones(3, 4) @ torch.ones(4, 5)
        return tuple(fake.shape), tuple(mode.from_tensor(torch.ones(2)).add(1).shape)


def _complex() -> object:
    value = torch.arange(4, dtype=torch.float64).to(torch.complex128) * 1j
    return torch.view_as_real(torch.fft.fft(value)), value.conj().abs(), value.conj().imag


def _dimensionless() -> object:
    return (
        torch.tensor(3.5) * torch.tensor(2),
        torch.empty(0, 5, 0).sum(),
        torch.empty(()).fill_(float("nan")).isnan(),
    )


def _shapes() -> object:
    expanded = torch.ones(1).expand(2**40)
    deep = torch.ones([1] * 60)
    return expanded[:3] + 1, deep.sum(), torch.as_strided(torch.arange(4.0), (3, 3), (0, 1))


def _types() -> object:
    whole = [
        torch.ones(3).to(kind)
        for kind in (torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.uint8)
    ]
    eighth = torch.ones(3).to(torch.float8_e4m3fn)
    return *(one.float() for one in whole), eighth.float(), torch.ones(2, dtype=torch.uint16).int()


def _values() -> object:
    infinite = torch.tensor([float("inf"), float("-inf"), float("nan"), -0.0, 5e-324], dtype=torch.float64)
    return (
        torch.clamp(infinite, float("-inf"), float("inf")),
        torch.nan_to_num(infinite, 1e308),
        infinite * float("nan"),
    )


def _storages() -> object:
    value = torch.ones(8)
    value.untyped_storage().resize_(0)
    value.untyped_storage().resize_(64)
    other = torch.empty(0).set_(torch.arange(4.0).untyped_storage())
    return (
        value.fill_(2),
        other + 1,
        torch.from_numpy(other.numpy()).add(1),
        torch.utils.dlpack.from_dlpack(other),
    )


KINDS: tuple[Callable[[], object], ...] = (
    _nested, _sparse, _quantised, _meta, _fake, _complex, _dimensionless, _shapes, _types, _values, _storages,
)  # fmt: skip


def layouts(run: Run) -> None:
    """Some in each step."""
    with run.captured() as step:
        for _ in range(12):
            for kind in run.random.sample(KINDS, 5):
                run.note(*kind())  # type: ignore[misc]
            step()


SCENARIOS["layouts"] = Scenario(
    "nested, sparse, quantised, meta, fake, complex, zero-dimensional, huge, odd storages", layouts
)


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


def throwing_tensors(run: Run) -> None:
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


SCENARIOS["throwing_tensors"] = Scenario(
    "classes of tensors that raise in operators, functions, attributes, repr", throwing_tensors
)


def _square(value: torch.Tensor) -> torch.Tensor:
    return (value * value).sum()


def transforms(run: Run) -> None:
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


SCENARIOS["transforms"] = Scenario("vmap, grad, jvp, vjp, hessian, functionalize", transforms)


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


def autograd(run: Run) -> None:
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


SCENARIOS["autograd"] = Scenario(
    "backward in hooks and in backward, checkpoints, double backward, threads", autograd
)


_MANY, _SOME = 100_000, 4_000
_HOSTILE = (
    '"', "\\", "\n", "\x00", "\x7f", "\u0080", "\u202e", "\ud800", "\U0001f600", "</script>", "=cmd()", "x" * 100_000,
    "a\x00b", "", " ", "\x1b[2J", "null", "{}", "é" * 3_000, "ProfilerStep#1", "[pytorch|profiler]",
)  # fmt: skip


def names(run: Run) -> None:
    """Annotate with them, nested and not."""
    each = (_MANY if run.is_full else _SOME) // 4
    with run.captured() as step:
        for number in range(12):
            for count in range(each if number in (3, 4, 5, 6) else 10):
                with torch.profiler.record_function(f"name {number} {count}"):
                    pass
            for name in run.random.sample(_HOSTILE, 8):
                try:
                    with torch.profiler.record_function(name, name[:10]):
                        torch.ones(2)
                except RuntimeError:
                    # Half of a pair of surrogates is no text for PyTorch.
                    run.note("refused")
            step()


SCENARIOS["names"] = Scenario(
    "100,000 names of annotations (4,000 in the short form), and hostile names", names
)


_MANY_OPERATORS, _SOME_OPERATORS = 10_000_000, 20_000


def operators(run: Run) -> None:
    """Run them in the steps that may be recorded."""
    each = (_MANY_OPERATORS if run.is_full else _SOME_OPERATORS) // 8
    value = torch.zeros(4)
    with run.captured() as step:
        for number in range(12):
            for _ in range(each if 2 <= number < 10 else 10):
                value.add_(1)
            step()
    run.note(value)


SCENARIOS["operators"] = Scenario(
    "10 million operators (20,000 in the short form)", operators, limit_s=1800.0
)


def long_operator(run: Run) -> None:
    """Sort on a thread while steps go by, and on this one."""
    came: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
    size = 20_000_000 if run.is_full else 3_000_000
    data = torch.rand(size)
    long = threading.Thread(target=lambda: data.sort())
    with run.captured() as step:
        for number in range(12):
            if number == run.seed % 5:
                long.start()
            if number == 5:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                run.note(data.sort().values[::100_000])
            step()
            time.sleep(0.005)
    long.join()
    run.note(came)


SCENARIOS["long_operator"] = Scenario(
    "an operator of a second, across windows, with a signal inside", long_operator
)


def deep(run: Run) -> None:
    """Go deep in some of the steps."""
    depth = 20_000 if run.is_full else 2_000
    with run.captured() as step:
        for number in range(12):
            if number in (3, 6, 7):
                with ExitStack() as open_ones:
                    for level in range(depth):
                        open_ones.enter_context(torch.profiler.record_function(f"level {level % 7}"))
                    run.note(torch.ones(3).sum())
                    if number == 7:
                        step()
                value = torch.ones(2, requires_grad=True)
                long = value
                for _ in range(depth):
                    long = long + 1
                long.sum().backward()
                run.note(value.grad, _recurse(0))
                run.note(torch.stack([torch.ones(1)] * depth).sum())
            step()


def _recurse(level: int) -> int:
    try:
        with torch.profiler.record_function("recursion"):
            torch.ones(1)
            return _recurse(level + 1) if level < sys.getrecursionlimit() else level
    except RecursionError:
        return 0


SCENARIOS["deep"] = Scenario("annotations and autograd graphs 2,000 deep (20,000), RecursionError", deep)
