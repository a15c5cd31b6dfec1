"""Tensors that PyTorch's recorder stumbles over: nested, sparse, and without numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.native import (
    Json,
    assert_whole,
    names_of,
    nodes_of,
    ops_of,
    problems,
    record,
    record_builtin,
    tensors_of,
)
from tests.integration.running import run_script

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def nested(layout: Any) -> None:
    one = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout, requires_grad=True)
    (one * 2).sin()
    torch.nn.functional.relu(one)
    torch.nested.to_padded_tensor(one, 0.0).sum().backward()


def strided() -> None:
    nested(torch.strided)


def jagged() -> None:
    nested(torch.jagged)


def coo() -> None:
    one = torch.eye(3).to_sparse().requires_grad_()
    torch.sparse.mm(one, torch.ones(3, 3)).sum().backward()
    (one * 2).coalesce().to_dense()


def csr() -> None:
    one = torch.eye(4).to_sparse_csr()
    one @ torch.ones(4, 2)
    one.to_sparse_csc().to_dense()
    torch.eye(4).to_sparse_bsr((2, 2)).to_dense()


def mkldnn() -> None:
    torch.ones(2, 2).to_mkldnn().to_dense()


def undefined() -> None:
    torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), None)
    torch.ops.aten.native_layer_norm_backward(
        torch.ones(2, 3),
        torch.ones(2, 3),
        [3],
        torch.ones(2, 1),
        torch.ones(2, 1),
        None,
        None,
        [True, False, False],
    )


class Refuses(Tensor):
    """Tells nothing of itself."""

    @staticmethod
    def __new__(cls) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (2,), dispatch_sizes_strides_policy="sizes")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.sin.default:
            return Refuses()
        raise ValueError("not told")


def refusing() -> None:
    # Asked when the operator ends, too: what it throws must not be raised by whatever runs next.
    torch.sin(Refuses())


KINDS: list[Any] = [strided, jagged, coo, csr, mkldnn, undefined, refusing]


@pytest.mark.parametrize("work", KINDS)
def test_no_tensor_breaks_the_file_or_loses_a_node(tmp_path: Path, work: Callable[[], None]) -> None:
    def and_more() -> None:
        work()
        torch.randn(7)

    nodes = record(tmp_path / "ours.json", and_more)
    assert_whole(tmp_path / "ours.json")
    assert names_of(nodes).count("aten::randn") == 1
    assert all(node["at"].get("tracebraid_end") != "open" for node in nodes)
    for node in ops_of(nodes):
        for side in ("inputs", "outputs"):
            assert len({len(node[side][key]) for key in ("values", "shapes", "types", "strides")}) == 1


@pytest.mark.parametrize("work", KINDS)
def test_recording_changes_no_result(tmp_path: Path, work: Callable[[], None]) -> None:
    outcomes = []
    for run in (work, lambda: record(tmp_path / "et.json", work)):
        try:
            run()
            outcomes.append("fine")
        except Exception as error:  # noqa: BLE001
            outcomes.append(repr(error))
    assert outcomes[0] == outcomes[1]


def sparse_uses(nodes: list[Json], name: str) -> list[Any]:
    return [one for node in nodes if node["name"] == name for one in tensors_of(node, "inputs")]


def test_nested_tensors_have_their_storage_and_no_shape(tmp_path: Path) -> None:
    def work() -> None:
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]) * 2

    nodes = record(tmp_path / "ours.json", work)
    # The inner one is of the buffer, which is a tensor like others.
    node = [node for node in nodes if node["name"] == "aten::mul"][-1]
    assert (node["inputs"]["shapes"][0], node["inputs"]["strides"][0]) == ([], [])
    (tensor, *_) = tensors_of(node, "inputs")
    assert tensor[1] > 0
    assert tensor[2:] == [0, 18, 4, "cpu"]


def test_sparse_tensors_have_an_id_and_no_storage(tmp_path: Path) -> None:
    kept = torch.eye(3).to_sparse()

    def work() -> None:
        kept.coalesce()
        kept._values()
        torch.eye(3).to_sparse()._values()

    nodes = record(tmp_path / "ours.json", work)
    tensors = sparse_uses(nodes, "aten::_values")
    assert [one[1:] for one in tensors] == [[0, 0, 0, 0, ""]] * 2
    assert tensors[0][0] != tensors[1][0]


@pytest.mark.parametrize("work", [strided, csr])
def test_pytorchs_recorder_crashes_or_loses_parents(tmp_path: Path, work: Callable[[], None]) -> None:
    done = run_script("native_theirs.py", tmp_path / "theirs.json", __name__, work.__name__)
    assert done.returncode < 0 or problems(nodes_of(tmp_path / "theirs.json"))


def test_lists_are_cut_where_pytorchs_recorder_cuts_them(tmp_path: Path) -> None:
    def work() -> None:
        torch.zeros(5000).split([1] * 5000)

    for record_it in (record, record_builtin):
        nodes = record_it(tmp_path / f"{record_it.__name__}.json", work)
        (node,) = [node for node in nodes if node["name"] == "aten::split_with_sizes"]
        assert len(node["inputs"]["values"][1]) == 4097
        assert len(node["outputs"]["values"][0]) == 4097
