"""On programs that PyTorch's recorder gets right, the native one writes the same nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.native import (
    assert_whole,
    builtin,
    differences,
    merged_ids,
    native,
    nodes_of,
    ops_of,
    record_both,
    the,
)
from tests.integration.native_columns import assert_same_trace, record_in_both_forms
from tests.integration.running import run_script
from tests.integration.test_native_faults import KINDS
from tests.waiting import HANG_S
from tracebraid.errors import CaptureError
from tracebraid.model.op_schema import RECORDED_TABLES, member_of

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler, pytest.mark.filterwarnings("ignore")]

nn, functional = torch.nn, torch.nn.functional


def train(model: Any, data: Any, optimizer: Any, steps: int = 2) -> None:
    for _ in range(steps):
        with torch.profiler.record_function("step"):
            out = model(data)
            (out[0] if isinstance(out, tuple) else out).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def mlp() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
    train(model, torch.randn(4, 8), torch.optim.Adam(model.parameters(), lr=1e-3))


def mlp_foreach() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    for kind in (torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop):
        train(model, torch.randn(4, 8), kind(model.parameters(), lr=1e-3, foreach=True))
    train(model, torch.randn(4, 8), torch.optim.AdamW(model.parameters(), fused=True))


def convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    train(model, torch.randn(2, 3, 8, 8), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def transformer() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    train(model, torch.randn(2, 5, 8), torch.optim.SGD(model.parameters(), lr=0.1))
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 5, 8))


def embedding() -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4))
    train(model, torch.arange(6), torch.optim.SGD(model.parameters(), lr=0.1))
    nn.EmbeddingBag(10, 4, mode="sum")(torch.arange(6), torch.tensor([0, 3]))


def recurrent() -> None:
    for model in (nn.LSTM(4, 4, 2), nn.GRU(4, 4), nn.RNN(4, 4)):
        train(model, torch.randn(3, 2, 4), torch.optim.SGD(model.parameters(), lr=0.1), steps=1)


def autocast() -> None:
    weight = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.einsum("ij,jk->ik", torch.randn(2, 4), weight).sum().backward()


def odd_types() -> None:
    numbers = torch.randn(2) + 1j
    numbers * (1 + 2j)
    torch.fft.fft(numbers).abs()
    torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).dequantize()
    torch.tensor([True, False]).any()
    torch.empty(0, dtype=torch.int8).clone()
    torch.full((2,), float("inf"))
    torch.ones(3).to(torch.float8_e4m3fn)
    torch.empty(3, device="meta") + 1


def transforms() -> None:
    torch.func.vmap(lambda x: x * 2)(torch.ones(3, 2))
    torch.func.grad(lambda x: (x * x).sum())(torch.ones(3))
    torch.func.jacrev(lambda x: x.sin())(torch.ones(3))


def fake_tensors() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(3, requires_grad=True)
        (x + torch.ones(3)).sum().backward()


def views() -> None:
    x = torch.zeros(4, 6)
    y = x[1:3].t()
    y.add_(1)
    x.view(2, 12)[0].mul_(2)
    x.unfold(0, 2, 1).sum()
    x.as_strided((2, 2), (1, 2)).copy_(torch.ones(2, 2))
    torch.cat([x, x]).split([3, 5])
    torch.stack([*x.unbind()] * 3)


def double_backward() -> None:
    x = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    grad.sum().backward()
    torch.utils.checkpoint.checkpoint(lambda v: (v * v).sin(), x, use_reentrant=True).sum().backward()


def user_annotations() -> None:
    with torch.profiler.record_function("args", "some text"), torch.profiler.record_function("inner"):
        torch.ones(2)
    with torch._C._profiler._RecordFunctionFast("fast", [torch.ones(2), 3, 0.5, "x"]):
        torch.zeros(2)


def threads() -> None:
    def work() -> None:
        x = torch.ones(4, 4, requires_grad=True)
        torch.mm(x, x).sum().backward()

    for _ in range(3):
        one = threading.Thread(target=work)
        one.start()
        one.join()


def jit_script() -> None:
    def body(x: Any) -> Any:
        return (x * 2).relu() + 1

    traced = torch.jit.trace(body, torch.ones(3))
    for _ in range(3):
        traced(torch.ones(3))


def compiled() -> None:
    torch._dynamo.reset()
    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="aot_eager")
    train(model, torch.randn(2, 4), torch.optim.SGD(model.parameters(), lr=0.1))


def inductor() -> None:
    torch._dynamo.reset()
    torch.compile(lambda x: (x * 2).relu())(torch.ones(8))


CLEAN: list[Any] = [
    mlp,
    mlp_foreach,
    convolutions,
    transformer,
    embedding,
    recurrent,
    autocast,
    odd_types,
    transforms,
    fake_tensors,
    views,
    double_backward,
    user_annotations,
    threads,
    jit_script,
    pytest.param(compiled, marks=pytest.mark.slow),
    pytest.param(inductor, marks=pytest.mark.slow),
]


@pytest.mark.since_torch("2.8")
@pytest.mark.full(keep=1)
@pytest.mark.parametrize("program", CLEAN)
def test_both_recorders_and_both_forms_of_the_native_one_are_the_same_trace(
    tmp_path: Path, program: Callable[[], None]
) -> None:
    """And what has two ids for PyTorch's recorder never has one here."""
    with builtin(tmp_path / "theirs.json"):
        in_json, in_columns = record_in_both_forms(tmp_path, program)
    theirs, ours = nodes_of(tmp_path / "theirs.json"), assert_whole(tmp_path / "et.json")
    assert len(ops_of(ours)) > 1
    assert differences(theirs, ours)[:5] == []
    assert [merged_ids(theirs, ours, which)[:5] for which in (0, 1)] == [[], []]
    assert_same_trace(in_json, in_columns)


@pytest.mark.since_torch("2.8")
@pytest.mark.full
def test_ranges_of_integers_are_the_same(tmp_path: Path) -> None:
    switch = {"ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE": "1"}
    done = run_script("native_ranges.py", tmp_path, **switch)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-500:]
    theirs, ours = nodes_of(tmp_path / "theirs.json"), assert_whole(tmp_path / "ours.json")
    assert differences(theirs, ours)[:5] == []
    ranges = [node["at"]["tensor_range"] for node in ops_of(ours)]
    assert '{"0":[-3,5],"1":[7,7]}' in ranges
    assert len(set(ranges)) > 5


def launch_kernels() -> None:
    inputs = [torch.ones(2), 3]
    for told in (
        {"kernel_backend": "triton", "kernel_file": "/a/b.py", "stream": 3, "grid": "g"},
        {"kernel_backend": "triton", "kernel_file": "b.py", "stream": -1},
        {"kernel_backend": "other", "kernel_file": "/a/b.py", "stream": 3},
        {"kernel_file": "/a/b.py"},
        {},
    ):
        with torch._C._profiler._RecordFunctionFast("kernel", inputs, told):
            torch.ones(3)
    with torch._C._profiler._RecordFunctionFast(
        "lone", [], {"kernel_backend": "triton", "kernel_file": "/c.py", "stream": 7}
    ):
        pass


@pytest.mark.since_torch("2.8")
def test_generated_kernels_are_the_same(tmp_path: Path) -> None:
    # What a kernel is called with by name is recorded only where Kineto records too.
    def work() -> None:
        with torch.profiler.profile(record_shapes=True):
            launch_kernels()

    theirs, ours = record_both(tmp_path, work)
    # The stream is a value, a shape and a type there, and no stride.
    assert {one.split(":")[1] for one in differences(theirs, ours)} == {" inputs strides"}
    kernels = [node for node in ours if node["name"] == "kernel"]
    told = [[node["at"][f"kernel_{key}"] for key in ("backend", "file")] for node in kernels]
    assert told == [["triton", "b.py"], ["triton", "b.py"], ["other", ""], ["", ""], ["", ""]]
    assert [node["inputs"]["values"][1:] for node in kernels] == [[3, 3], [3, -1], [3], [3], [3]]
    assert the(ours, "lone")["inputs"] == {"values": [7], "shapes": [[]], "types": ["Int"], "strides": [[]]}
    assert_whole(tmp_path / "ours.json")


# --- A recording in columns is the same Execution Trace as in JSON -----------------------------------


def odd_names() -> None:
    for name in ('"quotes" \\ and \n lines', "\x00\x07", "\udcff no UTF-8", "häß 🧵", "", "x" * 3000):
        with torch.profiler.record_function(name.encode("utf-8", "surrogateescape").decode("latin-1")):
            torch.ones(1)


def lists_of_tensors() -> None:
    parts = torch.ones(6, 2).split([1, 2, 3])
    torch.cat([*parts, torch.zeros(0, 2)])
    torch.stack([torch.ones(2), torch.zeros(2)])
    torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))


def ends_badly() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    torch.profiler.record_function("never ended").__enter__()


def many_nodes() -> None:
    one = torch.ones(2)
    for _ in range(70_000):
        torch.neg(one)


WORK: list[Any] = [
    *KINDS,
    launch_kernels,
    odd_names,
    lists_of_tensors,
    ends_badly,
    pytest.param(many_nodes, marks=pytest.mark.slow),
    pytest.param(lambda: None, id="nothing"),
]


@pytest.mark.full
@pytest.mark.parametrize("work", WORK)
def test_both_forms_are_the_same_trace(tmp_path: Path, work: Any) -> None:
    in_json, in_columns = record_in_both_forms(tmp_path, work)
    assert_same_trace(in_json, in_columns)


@pytest.mark.full
def test_ranges_of_integers_are_the_same_in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE", "1")
    in_json, in_columns = record_in_both_forms(tmp_path, lambda: torch.arange(5) + torch.arange(5))
    assert_same_trace(in_json, in_columns)
    assert in_columns.extra_attrs.filter(pl.col("value").str.contains("[0,4]", literal=True)).height > 0


@pytest.mark.full
def test_its_tables_can_be_read_by_anybody(tmp_path: Path) -> None:
    with native(tmp_path / "et.arrow.zip"):
        torch.ones(3)
    with zipfile.ZipFile(tmp_path / "et.arrow.zip") as archive:
        for table in RECORDED_TABLES:
            with archive.open(member_of(table)) as member:
                assert list(pl.read_ipc(member.read()).schema) == [column.name for column in table.columns]


def test_pytorchs_recorder_writes_no_columns(tmp_path: Path) -> None:
    observer = tracebraid.ExecutionTraceObserver("torch")
    with pytest.raises(CaptureError, match=r"PyTorch's recorder writes .json or .json.gz, and no .arrow.zip"):
        observer.register_callback(tmp_path / "et.arrow.zip")
    assert not observer.is_registered
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_what_cannot_be_written_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "et.arrow.zip"
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(target)
    target.mkdir()
    (target / "x").touch()
    with pytest.raises(tracebraid.errors.OutputError, match=r"et\.arrow\.zip"):
        observer.unregister_callback()
    assert [one.name for one in tmp_path.iterdir()] == [target.name]


FORKS = """
import os, sys, torch, tracebraid
observer = tracebraid.ExecutionTraceObserver("native", follow_forks=True)
observer.register_callback(sys.argv[1] + "/et.arrow.zip")
observer.start()
torch.ones(2)
child = os.fork()
if child == 0:
    torch.zeros(2)
    sys.exit()
os.waitpid(child, 0)
observer.unregister_callback()
"""


@pytest.mark.full
def test_the_process_and_its_forks_write_one_each(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    names = [set(tracebraid.read_execution_trace(file).op_nodes.get_column("name")) for file in files]
    assert "aten::ones" in names[0] - names[1]
    assert "aten::zeros" in names[1] - names[0]
    assert files[1].name.startswith("et_pid")
    assert files[1].name.endswith(".arrow.zip")
