"""Tensors of every kind: nested, sparse, quantised, meta, complex, fake, without dimensions, of huge shapes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tools.stress.model import Scenario
from tools.stress.run import Run


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


def work(run: Run) -> None:
    """Some in each step."""
    with run.captured() as step:
        for _ in range(12):
            for kind in run.random.sample(KINDS, 5):
                run.note(*kind())  # type: ignore[misc]
            step()


SCENARIO = Scenario(
    "nested, sparse, quantised, meta, fake, complex, zero-dimensional, huge, odd storages", work
)
