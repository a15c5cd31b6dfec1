"""`tracebraid.ExecutionTraceObserver`: what PyTorch's own tests ask of its observer holds for ours."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import files_of
from tests.integration.running import run_script
from tests.waiting import HANG_S
from tracebraid.errors import CaptureError, OutputError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

Observer = tracebraid.ExecutionTraceObserver
LOOP = "## LOOP ##"


@pytest.fixture(params=["native", "torch"])
def make(request: pytest.FixtureRequest) -> Callable[[], Any]:
    """Makes an observer over each recorder in turn."""
    return functools.partial(Observer, request.param)


@pytest.fixture
def observer(make: Callable[[], Any], tmp_path: Path) -> Iterator[Any]:
    """One that is registered for `et.json`."""
    one = make().register_callback(tmp_path / "et.json")
    yield one
    one.unregister_callback()


def work(name: str = LOOP) -> None:
    with torch.profiler.record_function(name):
        x = torch.ones(4, 4, requires_grad=True)
        torch.mm(x, x).sum().backward()


def nodes_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    nodes: list[dict[str, Any]] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["nodes"]
    return nodes


def names_of(path: Path) -> list[str]:
    return [node["name"] for node in nodes_of(path)]


def attr(node: dict[str, Any], name: str) -> Any:
    return next(one["value"] for one in node["attrs"] if one["name"] == name)


def is_root(node: dict[str, Any]) -> bool:
    return str(node["name"]).startswith("[pytorch|profiler|")


def inputs_of(path: Path, name: str) -> list[Any]:
    return [node["inputs"] for node in nodes_of(path) if node["name"] == name]


OTHER_NUMBERS = {"native": ["test_execution_trace_record_integral_tensor_data_cpu"], "torch": []}
"""Tests of PyTorch that know the number of a node, which the native recorder counts otherwise."""


@pytest.mark.full
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_pytorchs_own_tests_hold(backend: str, tmp_path: Path) -> None:
    theirs = os.environ.get("TRACEBRAID_PYTORCH_TESTS")
    if theirs is None:
        pytest.skip("needs PyTorch's test_execution_trace.py: name it in TRACEBRAID_PYTORCH_TESTS")
    pytest.importorskip("expecttest", reason="PyTorch's tests import expecttest")
    done = run_script("pytorch_tests.py", theirs, backend, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert [name for name, outcome in outcomes.items() if outcome == "failed"] == OTHER_NUMBERS[backend]
    assert list(outcomes.values()).count("passed") == 10 - len(OTHER_NUMBERS[backend])


def test_with_kineto_two_active_steps_give_two_loops_and_equal_ids(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    kineto = tmp_path / "kineto.json"
    observer = make().register_callback(tmp_path / "et.json")
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(skip_first=3, wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(kineto)),
        execution_trace_observer=observer,
        record_shapes=True,
    ) as profiler:
        for _ in range(10):
            work()
            profiler.step()
    assert not observer.is_registered
    assert names_of(tmp_path / "et.json").count(LOOP) == 2
    in_et = sorted(attr(node, "rf_id") for node in nodes_of(tmp_path / "et.json") if not is_root(node))
    events = json.loads(kineto.read_text())["traceEvents"]
    key = "Record function id"
    in_kineto = sorted(event["args"][key] for event in events if key in event.get("args", {}))
    assert in_et == in_kineto
    assert len(in_et) > 10


def test_alone(observer: Any, tmp_path: Path) -> None:
    observer.start()
    for _ in range(3):
        work()
    observer.stop()
    observer.unregister_callback()
    assert names_of(tmp_path / "et.json").count(LOOP) == 3


def test_start_and_stop_in_a_loop_record_only_what_lies_between(observer: Any, tmp_path: Path) -> None:
    for step in range(10):
        if step in (3, 8):
            observer.start()
        if step in (5, 9):
            observer.stop()
        assert observer.is_running() == observer._execution_trace_running == (step in (3, 4, 8))
        work(f"step {step}")
    observer.unregister_callback()
    steps = [name for name in names_of(tmp_path / "et.json") if name.startswith("step")]
    assert steps == ["step 3", "step 4", "step 8"]


def test_one_observer_for_each_iteration(make: Callable[[], Any], tmp_path: Path) -> None:
    for step in range(5):
        observer = make().register_callback(tmp_path / f"{step}.json")
        observer.start()
        work(f"step {step}")
        observer.stop()
        observer.unregister_callback()
    found = [[name for name in names_of(tmp_path / f"{n}.json") if "step" in name] for n in range(5)]
    assert found == [[f"step {n}"] for n in range(5)]


def test_registered_and_never_started_there_is_the_root_of_the_process(observer: Any, tmp_path: Path) -> None:
    work()
    observer.unregister_callback()
    (root,) = nodes_of(tmp_path / "et.json")
    assert (root["id"], root["ctrl_deps"]) == (1, 1)
    assert root["name"] == "[pytorch|profiler|execution_trace|process]"


def test_tensors_in_lists_have_all_six_fields(observer: Any, tmp_path: Path) -> None:
    observer.start()
    torch.stack([torch.ones(2), torch.zeros(2)])
    observer.unregister_callback()
    (inputs,) = inputs_of(tmp_path / "et.json", "aten::stack")
    assert inputs["types"][0] == "GenericList[Tensor(float),Tensor(float)]"
    assert [len(one) for one in inputs["values"][0]] == [6, 6]
    assert inputs["values"][0][0][3:] == [2, 4, "cpu"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested_tensors_leave_a_whole_file(observer: Any, tmp_path: Path, layout: str) -> None:
    observer.start()
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=getattr(torch, layout))
    torch.nn.functional.relu(nested)
    torch.ones(5)
    observer.unregister_callback()
    nodes = nodes_of(tmp_path / "et.json")
    assert "aten::ones" in [node["name"] for node in nodes]
    assert {node["ctrl_deps"] for node in nodes} <= {node["id"] for node in nodes}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compiled_code_and_the_modules_that_it_was_compiled_to(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    observer = make().register_callback(tmp_path / "et.json")
    observer.set_extra_resource_collection(True)
    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()))
    observer.start()
    model(torch.ones(2, 8)).sum().backward()
    observer.stop()
    observer.unregister_callback()
    assert any(name.startswith("Torch-Compiled Region") for name in names_of(tmp_path / "et.json"))
    folder = Path(observer.get_resources_dir() or "")
    assert folder == tmp_path / "et_resources"
    assert any("def call" in path.read_text() for path in folder.glob("*.py"))


@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize("collects", [True, False], ids=["collected", "not collected"])
def test_inputs_of_integers_of_named_operators_are_saved(
    make: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collects: bool
) -> None:
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_DATA", "aten::gather,aten::take")
    observer = make().register_callback(tmp_path / "et.json")
    observer.set_extra_resource_collection(collects)
    values, index = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[0, 0], [1, 0]])
    observer.start()
    torch.gather(values, 1, index)
    torch.gather(values.float(), 1, index)
    torch.mm(values, index)
    observer.stop()
    observer.unregister_callback()
    first, second = (node["id"] for node in nodes_of(tmp_path / "et.json") if node["name"] == "aten::gather")
    folder = tmp_path / "et_resources"
    saved = {path.name: list(memoryview(path.read_bytes()).cast("q")) for path in folder.glob("*.dat")}
    expected = {f"nid_{first}_tid_0.dat": [1, 2, 3, 4], f"nid_{first}_tid_1.dat": [0, 0, 1, 0]}
    assert saved == ({**expected, f"nid_{second}_tid_1.dat": [0, 0, 1, 0]} if collects else {})
    assert {path.name for path in tmp_path.iterdir()} == {"et.json", *([folder.name] if collects else [])}


def test_extra_resources_have_a_folder_beside_the_file(observer: Any, tmp_path: Path) -> None:
    assert observer.get_resources_dir() is None
    observer.set_extra_resource_collection(True)
    assert observer.get_resources_dir() == str(tmp_path / "et_resources")
    assert (tmp_path / "et_resources").is_dir()
    assert Observer.get_resources_dir_for_et_path(str(tmp_path / "et.json")) == str(tmp_path / "et_resources")
    assert Observer.get_resources_dir_for_et_path(str(tmp_path / "other.json")) is None


@pytest.mark.compiler
@pytest.mark.parametrize(("wanted", "extras"), [("1", "1"), ("1", "0"), ("0", "1"), (None, None)])
def test_the_environment_asks_for_an_observer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str | None, extras: str | None
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, value in (("", wanted), ("_EXTRAS", extras)):
        monkeypatch.delenv(f"ENABLE_PYTORCH_EXECUTION_TRACE{name}", raising=False)
        if value is not None:
            monkeypatch.setenv(f"ENABLE_PYTORCH_EXECUTION_TRACE{name}", value)
    observer = Observer.build_execution_trace_obs_from_env()
    assert (observer is not None) == (wanted == "1")
    if observer is None:
        return
    assert observer.extra_resources_collection == (extras == "1")
    path = Path(observer.get_output_file_path() or "")
    assert path.parent == tmp_path
    with torch.profiler.profile(execution_trace_observer=observer):
        work()
    assert LOOP in names_of(path)


def test_a_name_that_ends_in_gz_is_compressed(make: Callable[[], Any], tmp_path: Path) -> None:
    observer = make().register_callback(tmp_path / "et.json.gz")
    observer.start()
    work()
    assert not (tmp_path / "et.json.gz").exists()
    observer.cleanup()
    assert LOOP in names_of(tmp_path / "et.json.gz")
    assert files_of(tmp_path) == ["et.json.gz"]


def test_its_states(make: Callable[[], Any], tmp_path: Path) -> None:
    observer = make()
    states = [(observer.is_registered, observer.is_running(), observer.get_output_file_path())]
    observer.start()
    states.append((observer.is_registered, observer.is_running(), observer.get_output_file_path()))
    path = str(tmp_path / "et.json")
    assert observer.register_callback(path) is observer
    assert observer.register_callback("elsewhere.json") is observer
    states.append((observer.is_registered, observer.is_running(), observer.get_output_file_path()))
    observer.start()
    observer.start()
    states.append((observer.is_registered, observer.is_running(), observer.get_output_file_path()))
    observer.unregister_callback()
    observer.unregister_callback()
    observer.stop()
    states.append((observer.is_registered, observer.is_running(), observer.get_output_file_path()))
    assert states == [
        (False, False, None),
        (False, False, None),
        (True, False, path),
        (True, True, path),
        (False, False, path),
    ]


def test_it_has_all_that_pytorchs_has() -> None:
    theirs, ours = torch.profiler.ExecutionTraceObserver(), Observer()
    missing = {name for name in {*dir(theirs), *vars(theirs)} if not name.startswith("_")} - set(dir(ours))
    assert missing == set()
    assert ours._execution_trace_running == theirs._execution_trace_running


def test_deleting_it_finishes_the_file(make: Callable[[], Any], tmp_path: Path) -> None:
    observer = make().register_callback(tmp_path / "et.json")
    observer.start()
    work()
    del observer
    assert LOOP in names_of(tmp_path / "et.json")


@pytest.mark.full
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_the_end_of_the_process_finishes_the_file(tmp_path: Path, backend: str) -> None:
    code = (
        "import torch, tracebraid\n"
        f"observer = tracebraid.ExecutionTraceObserver('{backend}').register_callback('et.json')\n"
        "observer.start()\n"
        "torch.ones(3)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=HANG_S)
    assert "aten::ones" in names_of(tmp_path / "et.json")
    assert files_of(tmp_path) == ["et.json"]


def test_a_backend_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(tracebraid.ArgumentError, match="no backend 'nonsense'; there is auto, native, torch"):
        Observer(backend="nonsense")


@pytest.mark.parametrize(("asked", "used"), [("auto", "native"), ("native", "native"), ("torch", "torch")])
def test_once_it_is_registered_it_says_which_recorder_it_is(tmp_path: Path, asked: str, used: str) -> None:
    observer = Observer(asked)
    assert observer.backend == asked
    observer.register_callback(tmp_path / "et.json")
    assert observer.backend == used
    observer.discard()
    assert files_of(tmp_path) == []


def test_a_file_of_the_same_name_is_replaced_unless_that_is_not_wanted(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    for options in ({}, {"overwrite": True}):
        (tmp_path / "et.json").write_text("earlier")
        make(**options).register_callback(tmp_path / "et.json").cleanup()
        assert len(nodes_of(tmp_path / "et.json")) == 1
    (tmp_path / "et.json").write_text("earlier")
    observer = make(overwrite=False).register_callback(tmp_path / "et.json")
    with pytest.raises(tracebraid.errors.OutputError, match="the file exists"):
        observer.cleanup()
    assert (tmp_path / "et.json").read_text() == "earlier"
    assert files_of(tmp_path) == ["et.json"]


def test_what_is_discarded_leaves_no_file(observer: Any, tmp_path: Path) -> None:
    observer.start()
    work()
    observer.discard()
    assert not observer.is_registered
    observer.unregister_callback()
    assert files_of(tmp_path) == []


# --- What PyTorch's own observer gets wrong, and ours does not: over PyTorch's recorder, or ove ------


Native, Mended = functools.partial(Observer, "native"), functools.partial(Observer, "torch")
Theirs = torch.profiler.ExecutionTraceObserver
MISSING = "tracebraid_missing_parent"

either = pytest.mark.parametrize("ours", [Native, Mended], ids=["native", "mended"])


def record(kind: Any, path: Path, work: Callable[[], object]) -> str:
    """The text that an observer of a kind writes about some work."""
    observer = kind()
    observer.register_callback(str(path))
    observer.start()
    work()
    observer.stop()
    observer.unregister_callback()
    return path.read_text(errors="replace")


def annotated(name: str) -> Callable[[], None]:
    def work() -> None:
        with torch.profiler.record_function(name):
            torch.ones(2)

    return work


def has_name(text: str, name: str) -> bool:
    """Whether a file is valid and has a node of that name."""
    try:
        return name in [node["name"] for node in json.loads(text)["nodes"]]
    except ValueError:
        return False


def dangling(nodes: list[dict[str, Any]]) -> list[int]:
    known = {node["id"] for node in nodes}
    return [node["id"] for node in nodes if node["ctrl_deps"] not in known]


def marks(nodes: list[dict[str, Any]]) -> dict[str, int]:
    return {
        node["name"]: attr["value"] for node in nodes for attr in node["attrs"] if attr["name"] == MISSING
    }


@pytest.mark.parametrize("name", ['a "b"', "a\\b", "a\nb", "a\tb", "\x01", '"', "\\", '", "ctrl_deps": 9,'])
def test_a_name_that_would_be_lost_or_break_the_file_is_escaped(tmp_path: Path, name: str) -> None:
    assert not has_name(record(Theirs, tmp_path / "theirs.json", annotated(name)), name)
    nodes = json.loads(record(Mended, tmp_path / "ours.json", annotated(name)))["nodes"]
    assert name in [node["name"] for node in nodes]
    report = json.loads((tmp_path / "ours_report.json").read_text())
    assert [(one["code"], one["count"]) for one in report["findings"]] == [("name-escaped", 1)]


@pytest.mark.parametrize("name", ["é", "名前", "plain", "[bold]", "</script>", "{}"])
def test_a_name_that_is_fine_stays_as_it_is(tmp_path: Path, name: str) -> None:
    nodes = json.loads(record(Mended, tmp_path / "ours.json", annotated(name)))["nodes"]
    assert name in [node["name"] for node in nodes]
    assert files_of(tmp_path) == ["ours.json"]


@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize("first", [Mended, Theirs], ids=["mended", "theirs"])
def test_a_second_observer_of_pytorchs_is_refused_and_the_first_goes_on(tmp_path: Path, first: Any) -> None:
    one = first()
    one.register_callback(str(tmp_path / "first.json"))
    try:
        one.start()
        with pytest.raises(
            CaptureError, match="another ExecutionTraceObserver is registered in this process"
        ):
            Mended().register_callback(tmp_path / "second.json")
        torch.ones(2)
        one.stop()
    finally:
        one.unregister_callback()
    assert "aten::ones" in (tmp_path / "first.json").read_text()
    assert files_of(tmp_path) == ["first.json"]


def test_what_an_observer_of_the_programs_own_ended_is_whole_until_then_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PyTorch's functions crash where another observer has ended its one recorder."""
    ours = Mended()
    ours.register_callback(tmp_path / "ours.json")
    ours.start()
    torch.ones(2)
    theirs = Theirs().register_callback(str(tmp_path / "theirs.json"))
    theirs.start()
    torch.zeros(2)
    theirs.unregister_callback()
    torch.arange(2)
    ours.stop()
    ours.start()
    ours.unregister_callback()
    assert "another ExecutionTraceObserver of the program ended this recording" in caplog.text
    text = (tmp_path / "ours.json").read_text()
    assert has_name(text, "aten::ones")
    assert has_name(text, "aten::zeros")
    assert not has_name(text, "aten::arange")
    assert has_name(record(Mended, tmp_path / "next.json", lambda: torch.ones(2)), "aten::ones")


@pytest.mark.compiler
@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize("first", [Native, Mended, Theirs], ids=["native", "mended", "theirs"])
def test_the_native_recorder_goes_beside_any_other(tmp_path: Path, first: Any) -> None:
    def work() -> None:
        torch.ones(2)
        text = record(Native, tmp_path / "second.json", lambda: torch.zeros(2))
        assert has_name(text, "aten::zeros")
        assert not has_name(text, "aten::ones")

    text = record(first, tmp_path / "first.json", work)
    assert has_name(text, "aten::ones")
    assert has_name(text, "aten::zeros")
    assert files_of(tmp_path) == ["first.json", "second.json"]


STILL_OPEN: list[Any] = []


def open_at_stop() -> None:
    STILL_OPEN.append(torch.profiler.record_function("open"))
    STILL_OPEN[-1].__enter__()
    torch.ones(2)


def raising() -> None:
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    torch.zeros(2)


@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize(("work", "name"), [(open_at_stop, "aten::ones"), (raising, "aten::zeros")])
def test_what_hangs_under_a_node_that_is_never_written_is_hung_up_and_marked(
    tmp_path: Path, work: Callable[[], None], name: str
) -> None:
    assert dangling(json.loads(record(Theirs, tmp_path / "theirs.json", work))["nodes"])
    nodes = json.loads(record(Mended, tmp_path / "ours.json", work))["nodes"]
    assert dangling(nodes) == []
    marked = marks(nodes)
    assert list(marked) == [name]
    assert marked[name] not in {node["id"] for node in nodes}
    root = next(node["id"] for node in nodes if node["name"].endswith("|thread]"))
    assert next(node["ctrl_deps"] for node in nodes if node["name"] == name) == root
    report = json.loads((tmp_path / "ours_report.json").read_text())
    assert [one["code"] for one in report["findings"]] == ["parent-never-written"]


@either
def test_a_report_of_an_earlier_file_goes_when_there_is_nothing_to_say(tmp_path: Path, ours: Any) -> None:
    record(Mended, tmp_path / "et.json", raising)
    assert files_of(tmp_path) == ["et.json", "et_report.json"]
    record(ours, tmp_path / "et.json", annotated("plain"))
    assert files_of(tmp_path) == ["et.json"]


def fork(work: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_writes_nothing_into_its_parents_file(tmp_path: Path) -> None:
    def work() -> None:
        torch.ones(2)
        fork(lambda: [torch.zeros(2) for _ in range(500)])
        torch.ones(3)

    theirs = record(Theirs, tmp_path / "theirs.json", work)
    assert "aten::zeros" in theirs
    nodes = json.loads(record(Mended, tmp_path / "ours.json", work))["nodes"]
    assert "aten::zeros" not in [node["name"] for node in nodes]
    assert len({node["id"] for node in nodes}) == len(nodes)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_may_record_for_itself(tmp_path: Path) -> None:
    def in_child() -> None:
        record(Mended, tmp_path / "child.json", lambda: torch.zeros(2))

    def work() -> None:
        fork(in_child)
        torch.ones(3)

    parent = json.loads(record(Mended, tmp_path / "parent.json", work))["nodes"]
    child = json.loads((tmp_path / "child.json").read_text())["nodes"]
    assert "aten::ones" in [node["name"] for node in parent]
    assert "aten::zeros" in [node["name"] for node in child]
    assert "aten::zeros" not in [node["name"] for node in parent]


@pytest.mark.full
def test_workers_of_a_loader_stay_out(tmp_path: Path) -> None:
    data = torch.utils.data.TensorDataset(torch.ones(64, 2))

    def work() -> None:
        loader = torch.utils.data.DataLoader(
            data, batch_size=4, num_workers=2, multiprocessing_context="fork"
        )
        assert len(list(loader)) == 16

    nodes = json.loads(record(Mended, tmp_path / "ours.json", work))["nodes"]
    assert len({node["id"] for node in nodes}) == len(nodes)
    assert dangling(nodes) == []
    assert "aten::stack" not in [node["name"] for node in nodes]


@either
def test_a_trace_that_can_no_longer_be_written_is_one_error_with_its_path_once(
    tmp_path: Path, ours: Any
) -> None:
    """As on a full disk; no hidden file of the recorder is named."""
    target = tmp_path / "folder" / "et.json"
    target.parent.mkdir()
    observer = ours().register_callback(target)
    observer.start()
    torch.ones(2)
    observer.stop()
    shutil.rmtree(target.parent)
    with pytest.raises(OutputError) as raised:
        observer.unregister_callback()
    assert str(raised.value).count(str(tmp_path)) == 1
    assert raised.value.path == str(target)


@either
@pytest.mark.parametrize("place", ["no/such/folder/et.json", "file/et.json", "x" * 300 + ".json"])
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path, place: str, ours: Any) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written|its folder does not exist") as raised:
        ours().register_callback(tmp_path / place)
    assert raised.value.path == str(tmp_path / place)
    assert files_of(tmp_path) == ["file"]
    record(ours, tmp_path / "et.json", lambda: torch.ones(2))
