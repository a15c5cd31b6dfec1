"""What PyTorch's recorder gets wrong, and the native one does not: names, values, and nodes that end oddly."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.integration.native import (
    Json,
    assert_whole,
    names_of,
    native,
    nodes_of,
    ops_of,
    parent_of,
    problems,
    record,
    record_builtin,
    tensors_of,
    the,
)
from tests.integration.running import run_script

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.checkpoint")
pytestmark = [pytest.mark.torch, pytest.mark.compiler, pytest.mark.filterwarnings("ignore")]

note = torch.profiler.record_function


def is_right(record_it: Callable[[Path, Any], list[Json]], path: Path, work: Any) -> bool:
    """Whether a recorder's file is JSON, and its nodes are right in themselves."""
    try:
        return problems(record_it(path, work)) == []
    except ValueError:
        return False


@pytest.mark.parametrize(
    "name", ['a "b"', "a\\b", "a\nb", "\x01\x1f", '"', "\\", "\r\t\b\f", '", "ctrl_deps": 9,']
)
def test_names_are_escaped(tmp_path: Path, name: str) -> None:
    def work() -> None:
        with note(name):
            torch.ones(2)

    with contextlib.suppress(ValueError):
        assert name not in names_of(record_builtin(tmp_path / "theirs.json", work))
    assert name in names_of(record(tmp_path / "ours.json", work))
    assert_whole(tmp_path / "ours.json")


@pytest.mark.parametrize(
    "name", ["é", "名前", "😀🏳️‍🌈", "\x7f", "\x80", "\uffff", "plain", "", " ", "x" * 5000]
)
def test_names_that_need_no_escape_stay_as_they_are(tmp_path: Path, name: str) -> None:
    def work() -> None:
        with note(name, name):
            torch.ones(2)

    node = the(record(tmp_path / "ours.json", work), name)
    assert node["inputs"]["values"] == [name]
    assert_whole(tmp_path / "ours.json")


def test_a_text_after_a_zero_byte_is_lost_in_names_only(tmp_path: Path) -> None:
    def work() -> None:
        with note("a\0b", "c\0d"):
            torch.ones(2)

    nodes = record(tmp_path / "ours.json", work)
    (node,) = [node for node in nodes if node["name"] in ("a", "a\0b")]
    assert node["inputs"]["values"] == ["c\0d"]


OPEN: list[Any] = []


def open_at_the_end() -> None:
    OPEN.append(note("open"))
    OPEN[-1].__enter__()
    torch.ones(2)


def raising() -> None:
    with note("around"):
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        torch.zeros(2)
    torch.randn(2)


def checkpointed() -> None:
    # The forward pass is run again, and stopped early by an exception.
    x = torch.ones(3, requires_grad=True)
    torch.utils.checkpoint.checkpoint(lambda v: (v * v).sin(), x, use_reentrant=False).sum().backward()


def in_another_order() -> None:
    first, second = note("first"), note("second")
    first.__enter__()
    second.__enter__()
    torch.ones(2)
    first.__exit__(None, None, None)
    torch.zeros(2)
    second.__exit__(None, None, None)
    torch.randn(2)


def entered_before() -> None:
    OPEN.pop().__exit__(None, None, None)
    torch.ones(2)


def kernel_without_a_stream() -> None:
    told = {"kernel_backend": "triton", "kernel_file": "/a/b.py"}
    with (
        torch.profiler.profile(record_shapes=True),
        torch._C._profiler._RecordFunctionFast("kernel", [3], told),
    ):
        torch.ones(2)


@pytest.mark.parametrize(
    "work", [open_at_the_end, raising, checkpointed, in_another_order, kernel_without_a_stream]
)
def test_parents_are_there(tmp_path: Path, work: Callable[[], None]) -> None:
    assert is_right(record, tmp_path / "ours.json", work)
    assert_whole(tmp_path / "ours.json")


@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize("work", [open_at_the_end, raising, checkpointed, kernel_without_a_stream])
def test_parents_are_not_there_with_pytorchs_recorder(tmp_path: Path, work: Callable[[], None]) -> None:
    assert not is_right(record_builtin, tmp_path / "theirs.json", work)


def test_what_is_open_at_the_end_is_written_and_says_so(tmp_path: Path) -> None:
    nodes = record(tmp_path / "ours.json", open_at_the_end)
    assert "open" not in names_of(record_builtin(tmp_path / "theirs.json", open_at_the_end))
    node = the(nodes, "open")
    assert node["at"]["tracebraid_end"] == "open"
    assert parent_of(nodes, the(nodes, "aten::ones")) is node
    assert [one["name"] for one in nodes if "tracebraid_end" in one["at"]] == ["open"]


def test_what_raises_is_written_and_says_so(tmp_path: Path) -> None:
    nodes = record(tmp_path / "ours.json", raising)
    theirs = record_builtin(tmp_path / "theirs.json", raising)
    assert "aten::mm" not in names_of(theirs)
    node = the(nodes, "aten::mm")
    assert node["at"]["tracebraid_end"] == "raised"
    assert [len(node["inputs"]["values"]), node["outputs"]["values"]] == [2, []]
    assert parent_of(nodes, node)["name"] == "around"
    assert parent_of(nodes, the(nodes, "aten::zeros"))["name"] == "around"
    assert parent_of(nodes, the(nodes, "aten::randn"))["name"].endswith("|thread]")
    assert [one["name"] for one in nodes if "tracebraid_end" in one["at"]] == ["aten::mm"]


def test_annotations_that_end_in_another_order_keep_true_parents(tmp_path: Path) -> None:
    def parents(nodes: list[Json]) -> list[str]:
        names = ("second", "aten::ones", "aten::zeros", "aten::randn")
        return [parent_of(nodes, the(nodes, name))["name"].split("|")[-1] for name in names]

    right = ["first", "second", "second", "thread]"]
    assert parents(record(tmp_path / "ours.json", in_another_order)) == right
    assert parents(record_builtin(tmp_path / "theirs.json", in_another_order)) != right


def test_what_was_entered_before_the_start_leaves_no_trace(tmp_path: Path) -> None:
    with note("before"):
        OPEN.append(note("open"))
        OPEN[-1].__enter__()
        nodes = record(tmp_path / "ours.json", entered_before)
    assert not {"before", "open"} & set(names_of(nodes))
    assert_whole(tmp_path / "ours.json")


def test_what_ends_after_the_stop_is_whole(tmp_path: Path) -> None:
    with native(tmp_path / "ours.json") as observer:
        with note("over the end"):
            torch.ones(2)
            observer.stop()
            torch.zeros(2)
        torch.randn(2)
    nodes = assert_whole(tmp_path / "ours.json")
    assert "tracebraid_end" not in the(nodes, "over the end")["at"]
    assert not {"aten::zeros", "aten::randn"} & set(names_of(nodes))


def test_stopped_and_started_it_goes_on_in_the_same_file(tmp_path: Path) -> None:
    with native(tmp_path / "ours.json") as observer, note("around"):
        torch.ones(2)
        for _ in range(3):
            observer.stop()
            torch.zeros(2)
            observer.start()
        torch.randn(2)
    nodes = assert_whole(tmp_path / "ours.json")
    assert "aten::zeros" not in names_of(nodes)
    assert {parent_of(nodes, the(nodes, f"aten::{name}"))["name"] for name in ("ones", "randn")} == {"around"}


DOUBLES = [1e-12, 0.1, 1e300, 5e-324, 123456789.123456789, 1 / 3, -0.0, 3.0, 1e22, 0.30000000000000004]


def doubles_of(nodes: list[Json]) -> list[Any]:
    return [node["inputs"]["values"][1] for node in nodes if "mul.Scalar" in node["at"]["op_schema"]]


def multiply(values: list[float]) -> None:
    for value in values:
        torch.ops.aten.mul.Scalar(torch.ones(1, dtype=torch.float64), value)


def test_doubles_are_written_in_full(tmp_path: Path) -> None:
    theirs = doubles_of(record_builtin(tmp_path / "theirs.json", lambda: multiply(DOUBLES)))
    ours = doubles_of(record(tmp_path / "ours.json", lambda: multiply(DOUBLES)))
    assert (ours, theirs[0]) == (DOUBLES, 0)
    assert [type(one) for one in ours] == [float] * len(DOUBLES)
    assert math.copysign(1, ours[6]) == -1


def test_what_is_no_number_is_text(tmp_path: Path) -> None:
    odd = [math.inf, -math.inf, math.nan]
    for record_it in (record, record_builtin):
        assert doubles_of(record_it(tmp_path / "et.json", lambda: multiply(odd))) == ["inf", "-inf", "nan"]


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1, 127, 128, 2**32])
def test_integers_are_written_in_full(tmp_path: Path, number: int) -> None:
    x = torch.ones(1, dtype=torch.int64)
    nodes = record(tmp_path / "ours.json", lambda: torch.ops.aten.bitwise_and.Scalar(x, number))
    (node,) = [node for node in nodes if "and.Scalar" in node["at"]["op_schema"]]
    assert node["inputs"]["values"][1] == number


def test_the_file_is_what_json_says(tmp_path: Path) -> None:
    record(tmp_path / "ours.json", raising)
    trace = json.loads((tmp_path / "ours.json").read_text(encoding="utf-8"))
    assert list(trace) == ["schema", "pid", "time", "start_ts", "nodes", "finish_ts"]
    assert trace["schema"] == "1.1.1-chakra.0.0.4"
    assert trace["finish_ts"] >= trace["start_ts"]
    assert nodes_of(tmp_path / "ours.json")[-1]["name"] == "[pytorch|profiler|execution_trace|process]"


# --- Tensors that PyTorch's recorder stumbles over: nested, sparse, and without numbers --------------


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


KINDS: list[Any] = [
    strided,
    pytest.param(jagged, marks=pytest.mark.since_torch("2.8")),
    coo,
    csr,
    mkldnn,
    undefined,
    refusing,
]


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


@pytest.mark.since_torch("2.8")
@pytest.mark.full
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
        # PyTorch's recorder says on standard error alone that it cut them.
        assert node["at"].get("tracebraid_cut", 2 * 903) == 2 * 903


def test_lists_within_lists_are_cut_where_the_record_is_long_and_the_rest_is_counted(tmp_path: Path) -> None:
    library = torch.library.Library("tracebraid_lists", "DEF")
    library.define("lists(int[] a, Tensor[] b, int[] c) -> Tensor")
    library.impl("lists", lambda *_: torch.ones(1), "CompositeExplicitAutograd")
    nested = [list(range(4000))] * 250

    def work() -> None:
        torch.ops.tracebraid_lists.lists([1] * 200_000, [torch.ones(1)] * 20_000, [1] * 10)
        note = torch.autograd._record_function_with_args_enter("nested", nested, 7)
        torch.autograd._record_function_with_args_exit(note)

    path = tmp_path / "ours.json"
    nodes = {node["name"]: node for node in record(path, work)}
    cut = nodes["tracebraid_lists::lists"]["at"]["tracebraid_cut"]
    assert cut == 200_000 - 4097 + 20_000 - 4097
    written = nodes["nested"]["inputs"]["values"][0]
    assert len(written) < 250
    assert path.stat().st_size < 16 << 20
