"""Modules, call sites and annotations of real captures with stacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.captured import assert_sound
from tracebraid.analysis.memory.memory_use import allocations, memory_at_peak, memory_peak
from tracebraid.analysis.ops.annotations import user_annotations
from tracebraid.analysis.ops.modules import modules
from tracebraid.analysis.ops.op_times import python_frames
from tracebraid.analysis.ops.ops import ops
from tracebraid.model.answers.memory import MemoryCategory
from tracebraid.model.answers.ops import ModuleSource
from tracebraid.model.linked_trace import LinkedTrace

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler]
STEPS = 3


def block_class() -> Any:
    """The class of blocks: made once, since the profiler counts instances by class."""

    class Block(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act = torch.nn.Linear(8, 8), torch.nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.act(self.first(x)) * 2

    return Block


def net(checkpoint: bool, reentrant: bool = False) -> Any:
    from torch.utils.checkpoint import checkpoint as again

    block = block_class()

    class Net(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList([block(), block()])
            self.head = torch.nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            for inner in self.blocks:
                x = again(inner, x, use_reentrant=reentrant) if checkpoint else inner(x)
            return self.head(x)

    return Net()


def captured(folder: Path, model: Any) -> LinkedTrace:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tracebraid.capture(folder, stacks=True) as cap:
        for _ in range(7 + STEPS):
            data = torch.ones(2, 8, requires_grad=True)
            with torch.profiler.record_function("forward pass"):
                loss = model(data).sum()
            with torch.profiler.record_function("backward pass"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            cap.step()
    (linked,) = assert_sound(folder)
    return linked


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> LinkedTrace:
    return captured(tmp_path_factory.mktemp("plain"), net(checkpoint=False))


def by_path(linked: LinkedTrace) -> dict[str | None, dict[str, Any]]:
    return {row["path"]: row for row in modules(linked).to_dicts()}


def classes(linked: LinkedTrace) -> list[str]:
    """The paths without the numbers of the instances, in the order of the tree."""
    paths = modules(linked).get_column("path").drop_nulls()
    return paths.str.replace_all(r"_\d+", "").to_list()


TREE = [
    "Net",
    "Net/Block",
    "Net/Block/Linear",
    "Net/Block/ReLU",
    "Net/Block",
    "Net/Block/Linear",
    "Net/Block/ReLU",
    "Net/Linear",
]


@pytest.mark.full
def test_the_tree_is_that_of_the_model(plain: LinkedTrace) -> None:
    assert classes(plain) == TREE
    rows = modules(plain).to_dicts()
    assert {row["calls"] for row in rows if row["path"]} == {STEPS}
    assert {row["source"] for row in rows} == {ModuleSource.MODULE_EVENTS.value}


def test_every_module_has_forward_and_backward_time_and_all_adds_up(plain: LinkedTrace) -> None:
    found = by_path(plain)
    of_modules = [row for path, row in found.items() if path]
    assert all(row["host_forward_self_ns"] > 0 for row in of_modules)
    assert all(row["host_backward_total_ns"] > 0 for row in of_modules)
    own = modules(plain).select(pl.col("^host_.*_self_ns$").sum()).row(0)
    assert sum(own) == plain.host_tree.get_column("exclusive_ns").sum()
    roots = [row for row in found.values() if not row["depth"]]
    assert sum(row["host_forward_total_ns"] + row["host_backward_total_ns"] for row in roots) == sum(own)


def test_backward_ops_are_in_the_modules_of_their_forward_ops(plain: LinkedTrace) -> None:
    found = ops(plain, by="name,module")
    for name, kind in (("AddmmBackward0", "Linear"), ("ReluBackward0", "ReLU"), ("MulBackward0", "Block")):
        rows = found.filter(pl.col("name") == name)
        assert set(rows.get_column("count")) == {STEPS}
        kinds = rows.get_column("module").str.split("/").list.last().str.replace(r"_\d+$", "")
        assert kinds.to_list() == [kind] * {"Linear": 3, "ReLU": 2, "Block": 2}[kind]


def test_the_call_site_of_an_op_is_in_this_file(plain: LinkedTrace) -> None:
    found = ops(plain, by="name,call_site").filter(
        pl.col("name").is_in(["aten::linear", "aten::mul", "aten::sum"])
    )
    functions = found.select(
        "name", pl.col("call_site").str.extract_groups(r"([^/\\]*)\(\d+\): (.*)").alias("frame")
    ).unnest("frame")
    assert set(functions.filter(pl.col("name") != "aten::sum").get_column("1")) == {Path(__file__).name}
    assert set(functions.filter(name="aten::linear").get_column("2")) == {"forward"}


def test_annotations_hold_the_ops_of_the_pass(plain: LinkedTrace) -> None:
    found = {row["name"]: row for row in user_annotations(plain).to_dicts()}
    assert (found["forward pass"]["count"], found["backward pass"]["count"]) == (STEPS, STEPS)
    by_annotation = ops(plain, by="name,annotation").filter(name="AddmmBackward0")
    assert by_annotation.get_column("annotation").to_list() == ["backward pass"]


def test_functions_add_up_and_the_users_own_are_among_them(plain: LinkedTrace) -> None:
    found = python_frames(plain)
    assert found.get_column("host_self_ns").sum() == plain.host_tree.get_column("exclusive_ns").sum()
    users = found.filter("is_user").get_column("name")
    assert users.str.contains(r"test_models_real\.py\(\d+\): forward").sum() == 2
    assert not users.str.contains("torch/nn").any()


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("reentrant", [False, True])
def test_modules_that_checkpointing_runs_again_are_the_same_modules(tmp_path: Path, reentrant: bool) -> None:
    linked = captured(tmp_path, net(checkpoint=True, reentrant=reentrant))
    assert classes(linked) == TREE
    found = modules(linked).filter(pl.col("path").is_not_null())
    again = found.filter(pl.col("path").str.contains(r"/Block_\d+"))
    assert set(again.get_column("calls")) == {2 * STEPS}
    assert (again.get_column("host_backward_total_ns") > 0).all()
    assert set(found.filter(~pl.col("path").str.contains(r"/Block_\d+")).get_column("calls")) == {STEPS}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_compiled_backward_pass_is_in_the_module_that_was_compiled(tmp_path: Path) -> None:
    linked = captured(tmp_path, torch.compile(net(checkpoint=False), backend="aot_eager"))
    found = ops(linked, by="name,module").filter(name="CompiledFunctionBackward")
    assert found.get_column("module").to_list() == ["OptimizedModule_0/Net_0"]
    row = by_path(linked)["OptimizedModule_0/Net_0"]
    assert (row["calls"], row["host_backward_self_ns"] > 0) == (STEPS, True)


# --- Memory of real training on the CPU: the allocator's peak, and the category of every tensor ------


TRAINED_STEPS = 4
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
        folder,
        warmup=0,
        wait=0,
        skip_first=0,
        active=TRAINED_STEPS,
        memory=True,
        recorder=recorder,
        check=False,
    ) as cap:
        for _ in range(TRAINED_STEPS):
            found.append(trainer.step())
            cap.step()
    return found


def pair(folder: Path) -> tuple[Path, Path]:
    return folder / "torch_et_0.json.gz", folder / "kineto_trace_0.json.gz"


def assert_categories(linked: LinkedTrace, expected: list[Addresses]) -> None:
    """At each step's end, the block at each address has the category; and each is there."""
    table = allocations(linked)
    ends = tracebraid.analyses.steps(linked).get_column("end_ns").to_list()
    assert len(ends) == len(expected)
    for end, of_step in zip(ends, expected, strict=True):
        alive = table.filter(
            pl.col("allocated_ns") < end, pl.col("released_ns").is_null() | (pl.col("released_ns") >= end)
        )
        for category, known in of_step.items():
            found = alive.filter(pl.col("address").is_in(list(known)))
            assert found.get_column("category").to_list() == [category.value] * len(known)


@pytest.mark.full(keep=1)
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
