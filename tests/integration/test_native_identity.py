"""Ids of tensors and storages: the same one for the same thing, and never again for another."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.integration.native import (
    Json,
    names_of,
    ops_of,
    record,
    record_both,
    record_builtin,
    tensors_of,
    the,
)

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

TENSOR, STORAGE = 0, 1


def ids(nodes: list[Json], name: str, side: str, which: int) -> list[int]:
    """One id of each tensor that the nodes of a name took or gave."""
    return [one[which] for node in nodes if node["name"] == name for one in tensors_of(node, side)]


def one_after_the_other() -> None:
    for number in range(200):
        made = torch.full((64,), float(number))
        torch.neg(made)
        del made


def test_memory_that_is_used_again_is_another_storage(tmp_path: Path) -> None:
    theirs, ours = record_both(tmp_path, one_after_the_other)
    assert len(set(ids(theirs, "aten::full", "outputs", STORAGE))) < 200
    made = ids(ours, "aten::full", "outputs", STORAGE)
    assert len(set(made)) == 200
    assert ids(ours, "aten::neg", "inputs", STORAGE) == made


def scattered() -> dict[float, set[float]]:
    """Makes tensors, uses and drops them in an order that mixes them up; what was truly added to which."""
    random = np.random.default_rng(3)
    living: dict[float, object] = {}
    added: dict[float, set[float]] = {}
    for number in range(2000):
        living[float(number)] = torch.full((int(random.integers(1, 40)),), float(number))
        chosen = float(random.choice(list(living)))
        marker = torch.tensor([number + 0.5])
        torch.add(living[chosen], marker)
        added.setdefault(chosen, set()).add(float(number))
        if len(living) > 10:
            del living[float(random.choice(list(living)))]
    return added


def test_what_consumes_is_linked_to_what_produced(tmp_path: Path) -> None:
    truth: list[dict[float, set[float]]] = []
    nodes = record(tmp_path / "et.json", lambda: truth.append(scattered()))
    made: dict[int, float] = {}
    numbered: dict[float, list[int]] = {}
    adds = [node for node in ops_of(nodes) if node["name"] == "aten::add"]
    fulls = [node for node in ops_of(nodes) if node["name"] == "aten::full"]
    for node in fulls:
        made[tensors_of(node, "outputs")[0][STORAGE]] = node["inputs"]["values"][1]
    assert len(made) == len(fulls) == 2000
    for number, node in enumerate(adds):
        numbered.setdefault(made[tensors_of(node, "inputs")[0][STORAGE]], []).append(number)
    assert {key: set(map(float, value)) for key, value in numbered.items()} == truth[0]


def test_views_are_other_tensors_of_the_same_storage(tmp_path: Path) -> None:
    def work() -> None:
        base = torch.zeros(12)
        rows = base.view(3, 4)
        row = rows[1]
        torch.stack([base[:4], rows[0], row, row.t()])

    nodes = record(tmp_path / "et.json", work)
    stacked = tensors_of(the(nodes, "aten::stack"), "inputs")
    assert {one[STORAGE] for one in stacked} == set(ids(nodes, "aten::zeros", "outputs", STORAGE))
    assert len({one[TENSOR] for one in stacked}) == 4
    assert [one[2] for one in stacked] == [0, 0, 4, 4]


def numpy_twice() -> None:
    array = np.ones(8, dtype=np.float32)
    torch.add(torch.from_numpy(array), torch.from_numpy(array))


def through_dlpack() -> None:
    tensor = torch.ones(8)
    torch.add(tensor, torch.from_dlpack(torch.utils.dlpack.to_dlpack(tensor)))


def set_to_another() -> None:
    tensor, other = torch.ones(8), torch.ones(4)
    tensor.set_(other)
    torch.add(tensor, other)


def given_data() -> None:
    parameter, other = torch.nn.Parameter(torch.ones(4)), torch.ones(4)
    parameter.data = other
    torch.add(parameter, other)


def from_another_thread() -> None:
    tensor, views = torch.ones(4), []
    thread = threading.Thread(target=lambda: views.append(tensor.view(2, 2)))
    thread.start()
    thread.join()
    torch.add(tensor, views[0].reshape(4))


@pytest.mark.parametrize(
    "work", [numpy_twice, through_dlpack, set_to_another, given_data, from_another_thread]
)
def test_the_same_memory_is_the_same_storage(tmp_path: Path, work: Callable[[], None]) -> None:
    added = tensors_of(the(record(tmp_path / "et.json", work), "aten::add"), "inputs")
    assert len({one[STORAGE] for one in added}) == 1
    assert len({one[TENSOR] for one in added}) == 2


def test_a_storage_that_grows_stays_the_same(tmp_path: Path) -> None:
    def work() -> None:
        tensor = torch.ones(4)
        for size in (40, 4000, 400000):
            tensor.resize_(size)
        torch.neg(tensor)

    ours = record(tmp_path / "ours.json", work)
    assert len(set(ids(ours, "aten::resize_", "outputs", STORAGE))) == 1
    assert ids(ours, "aten::neg", "inputs", STORAGE)[:1] == ids(ours, "aten::ones", "outputs", STORAGE)
    theirs = record_builtin(tmp_path / "theirs.json", work)
    assert len(set(ids(theirs, "aten::resize_", "outputs", STORAGE))) > 1


def test_a_tensor_keeps_its_id_as_long_as_it_lives(tmp_path: Path) -> None:
    def work() -> None:
        kept = torch.full((4,), 2.0)
        for _ in range(3000):
            kept.mul_(torch.rand(4))

    nodes = record(tmp_path / "et.json", work)
    ((tensor, storage),) = set(
        zip(
            ids(nodes, "aten::mul_", "outputs", TENSOR),
            ids(nodes, "aten::mul_", "outputs", STORAGE),
            strict=True,
        )
    )
    assert [tensor] == ids(nodes, "aten::full", "outputs", TENSOR)
    assert [storage] == ids(nodes, "aten::full", "outputs", STORAGE)
    factors = [
        tensors_of(node, "inputs")[1][TENSOR] for node in ops_of(nodes) if node["name"] == "aten::mul_"
    ]
    assert len(set(factors)) == 3000


def test_ids_of_tensors_storages_and_nodes_are_apart(tmp_path: Path) -> None:
    nodes = record(tmp_path / "et.json", one_after_the_other)
    tensors = {
        one[TENSOR] for node in nodes for side in ("inputs", "outputs") for one in tensors_of(node, side)
    }
    storages = {
        one[STORAGE] for node in nodes for side in ("inputs", "outputs") for one in tensors_of(node, side)
    }
    assert not tensors & storages
    assert not (tensors | storages) & {node["id"] for node in nodes}


def test_recording_keeps_no_memory_alive(tmp_path: Path) -> None:
    freed = []

    class Array(np.ndarray):
        def __del__(self) -> None:
            freed.append(1)

    def work() -> None:
        for _ in range(10):
            torch.from_numpy(np.ones(4, np.float32).view(Array)).neg()
        gc.collect()
        freed.append(len(freed))

    assert names_of(record(tmp_path / "et.json", work)).count("aten::neg") == 10
    assert freed[-1] >= 10
