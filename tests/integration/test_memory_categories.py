"""Memory of real training on the CPU: the allocator's peak, and the category of every tensor whose address is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tracebraid.analysis.memory.allocations import allocations
from tracebraid.analysis.memory.memory_at_peak import memory_at_peak
from tracebraid.analysis.memory.memory_peak import memory_peak
from tracebraid.model.answers import MemoryCategory
from tracebraid.model.linked_trace import LinkedTrace

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

STEPS = 4
Addresses = dict[MemoryCategory, set[int]]


class Net(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Layers of several kinds, of which the last is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 48)
        self.norm = torch.nn.BatchNorm1d(48)
        self.second = torch.nn.Linear(48, 8)
        self.frozen = torch.nn.Linear(8, 8).requires_grad_(False)

    def forward(self, x: Any) -> Any:
        return self.frozen(self.second(torch.relu(self.norm(self.first(x)))))


def adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=1e-3, foreach=True)


def fused(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, fused=True)


def momentum(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False)


class Trainer:
    """Builds the model in the trace's first step, so that the trace sees the allocation of each parameter."""

    def __init__(self, optimizer: Callable[[Any], Any], microbatches: int, set_to_none: bool) -> None:
        self.make, self.microbatches, self.set_to_none = optimizer, microbatches, set_to_none
        self.model: Any = None

    def step(self) -> Addresses:
        """A step; gives the addresses of what is alive at its end."""
        if self.model is None:
            self.model = Net()
            self.optimizer = self.make([p for p in self.model.parameters() if p.requires_grad])
        self.inputs = [torch.randn(16, 32), torch.randn(16, 8)]
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        for _ in range(self.microbatches):
            torch.nn.functional.mse_loss(self.model(self.inputs[0]), self.inputs[1]).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        held = [*self.model.parameters(), *self.model.buffers()]
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        state = [v for of in self.optimizer.state.values() for v in of.values() if v is not None]
        return {
            MemoryCategory.PARAMETERS: addresses(held),
            MemoryCategory.GRADIENTS: addresses(gradients),
            MemoryCategory.OPTIMIZER_STATE: addresses(state),
            MemoryCategory.INPUTS: addresses(self.inputs),
        }


def addresses(tensors: list[Any]) -> set[int]:
    return {tensor.data_ptr() for tensor in tensors}


def run(folder: Path, trainer: Trainer, recorder: str) -> list[Addresses]:
    found = []
    with tracebraid.capture(
        folder, warmup=0, wait=0, skip_first=0, active=STEPS, memory=True, recorder=recorder, check=False
    ) as cap:
        for _ in range(STEPS):
            found.append(trainer.step())
            cap.step()
    return found


def pair(folder: Path) -> tuple[Path, Path]:
    return folder / "torch_et_0.json.gz", folder / "kineto_trace_0.json.gz"


def assert_categories(linked: LinkedTrace, expected: list[Addresses]) -> None:
    """At each step's end, the block at each address has the category; and each is there."""
    table = allocations(linked)
    ends = tracebraid.steps(linked).get_column("end_ns").to_list()
    assert len(ends) == len(expected)
    for end, of_step in zip(ends, expected, strict=True):
        alive = table.filter(
            pl.col("allocated_ns") < end, pl.col("released_ns").is_null() | (pl.col("released_ns") >= end)
        )
        for category, known in of_step.items():
            found = alive.filter(pl.col("address").is_in(list(known)))
            assert found.get_column("category").to_list() == [category.value] * len(known)


@pytest.mark.parametrize("recorder", ["torch", "native"])
@pytest.mark.parametrize(
    ("optimizer", "microbatches", "set_to_none"),
    [(adam, 1, True), (fused, 2, True), (momentum, 1, False)],
    ids=["adam", "fused-accumulating", "momentum-zeroing"],
)
def test_every_parameter_gradient_state_and_input_has_its_category(
    tmp_path: Path,
    recorder: str,
    optimizer: Callable[[Any], Any],
    microbatches: int,
    set_to_none: bool,
) -> None:
    expected = run(tmp_path, Trainer(optimizer, microbatches, set_to_none), recorder)
    et, kineto = pair(tmp_path)
    assert_categories(tracebraid.link(et, kineto), expected)
    assert_categories(tracebraid.link(None, kineto), expected)


def test_the_peak_is_what_the_allocator_says_to_the_byte(tmp_path: Path) -> None:
    run(tmp_path, Trainer(adam, 1, True), "torch")
    linked = tracebraid.link(*pair(tmp_path))
    totals = linked.timeline.tables["memory"].get_column("total_allocated_bytes")
    peak = memory_peak(linked).get_column("peak_bytes").to_list()
    assert peak == [totals.max()]
    assert memory_at_peak(linked).get_column("bytes").sum() == peak[0]


def test_the_peak_is_the_sum_of_the_tensors_that_are_alive(tmp_path: Path) -> None:
    """Sizes that the test knows: four blocks, of which two at most are alive at once."""
    with tracebraid.capture(
        tmp_path, warmup=0, wait=0, skip_first=0, active=1, memory=True, recorder="torch", check=False
    ) as cap:
        kept = torch.empty(1000)
        for size in (3000, 5000, 2000):
            torch.empty(size)
        cap.step()
    linked = tracebraid.link(*pair(tmp_path))
    assert kept.numel() == 1000
    assert memory_peak(linked).get_column("in_trace_bytes").to_list() == [4 * (1000 + 5000)]
    of_trace = memory_at_peak(linked).filter(pl.col("category") != "before-trace")
    assert sorted(of_trace.get_column("bytes")) == [4 * 1000, 4 * 5000]


def test_storages_alone_find_the_same_parameters_and_gradients(tmp_path: Path) -> None:
    """Without instants, by the bytes of each category; of the recorder that uses no storage's id again."""
    trainer = Trainer(adam, 1, True)
    trainer.step()
    with tracebraid.capture(
        tmp_path, warmup=0, wait=0, skip_first=0, active=2, recorder="native", check=False
    ) as cap:
        for _ in range(2):
            trainer.step()
            cap.step()
    linked = tracebraid.link(*pair(tmp_path))
    before = allocations(linked).filter(pl.col("allocated_ns").is_null())
    sizes = {p.nbytes for p in trainer.model.parameters()}
    held = [*trainer.model.parameters(), *trainer.model.buffers()]
    in_float = [tensor for tensor in held if tensor.is_floating_point()]
    parameters = before.filter(category="parameters").get_column("size_bytes")
    assert parameters.sum() == sum(tensor.nbytes for tensor in in_float)
    gradients = allocations(linked).filter(category="gradients").get_column("size_bytes")
    assert gradients.sum() == 2 * sum(p.grad.nbytes for p in trainer.model.parameters() if p.grad is not None)
    assert set(gradients) <= sizes
