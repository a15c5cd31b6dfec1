"""Modules, call sites and annotations of real captures with stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.captured import assert_sound
from tracebraid.analysis.ops.annotations.user_annotations import user_annotations
from tracebraid.analysis.ops.modules.modules import modules
from tracebraid.analysis.ops.ops import ops
from tracebraid.analysis.ops.python_frames import python_frames
from tracebraid.model.answers import ModuleSource
from tracebraid.model.linked_trace import LinkedTrace

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
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
    assert users.str.contains(r"test_modules_real\.py\(\d+\): forward").sum() == 2
    assert not users.str.contains("torch/nn").any()


@pytest.mark.parametrize("reentrant", [False, True])
def test_modules_that_checkpointing_runs_again_are_the_same_modules(tmp_path: Path, reentrant: bool) -> None:
    linked = captured(tmp_path, net(checkpoint=True, reentrant=reentrant))
    assert classes(linked) == TREE
    found = modules(linked).filter(pl.col("path").is_not_null())
    again = found.filter(pl.col("path").str.contains(r"/Block_\d+"))
    assert set(again.get_column("calls")) == {2 * STEPS}
    assert (again.get_column("host_backward_total_ns") > 0).all()
    assert set(found.filter(~pl.col("path").str.contains(r"/Block_\d+")).get_column("calls")) == {STEPS}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_compiled_backward_pass_is_in_the_module_that_was_compiled(tmp_path: Path) -> None:
    linked = captured(tmp_path, torch.compile(net(checkpoint=False), backend="aot_eager"))
    found = ops(linked, by="name,module").filter(name="CompiledFunctionBackward")
    assert found.get_column("module").to_list() == ["OptimizedModule_0/Net_0"]
    row = by_path(linked)["OptimizedModule_0/Net_0"]
    assert (row["calls"], row["host_backward_self_ns"] > 0) == (STEPS, True)
