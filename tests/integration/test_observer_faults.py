"""What PyTorch's own observer gets wrong, and ours does not: over PyTorch's recorder, or over either."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import files_of
from tracebraid.errors import CaptureError, OutputError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

Observer = tracebraid.ExecutionTraceObserver
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


@either
@pytest.mark.parametrize("name", ["é", "名前", "plain", "[bold]", "</script>", "{}"])
def test_a_name_that_is_fine_stays_as_it_is(tmp_path: Path, name: str, ours: Any) -> None:
    nodes = json.loads(record(ours, tmp_path / "ours.json", annotated(name)))["nodes"]
    assert name in [node["name"] for node in nodes]
    assert files_of(tmp_path) == ["ours.json"]


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


def test_of_native_recorders_there_are_four_at_once(tmp_path: Path) -> None:
    four = [Native().register_callback(tmp_path / f"{number}.json") for number in range(4)]
    try:
        with pytest.raises(CaptureError, match="the native recorder cannot start"):
            Native().register_callback(tmp_path / "4.json")
    finally:
        for one in four:
            one.unregister_callback()
    record(Native, tmp_path / "4.json", lambda: torch.ones(2))
    assert files_of(tmp_path) == [f"{number}.json" for number in range(5)]


STILL_OPEN: list[Any] = []


def open_at_stop() -> None:
    STILL_OPEN.append(torch.profiler.record_function("open"))
    STILL_OPEN[-1].__enter__()
    torch.ones(2)


def raising() -> None:
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    torch.zeros(2)


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


@either
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_writes_nothing_into_its_parents_file(tmp_path: Path, ours: Any) -> None:
    def work() -> None:
        torch.ones(2)
        fork(lambda: [torch.zeros(2) for _ in range(500)])
        torch.ones(3)

    theirs = record(Theirs, tmp_path / "theirs.json", work)
    assert "aten::zeros" in theirs
    nodes = json.loads(record(ours, tmp_path / "ours.json", work))["nodes"]
    assert "aten::zeros" not in [node["name"] for node in nodes]
    assert len({node["id"] for node in nodes}) == len(nodes)


@either
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_may_record_for_itself(tmp_path: Path, ours: Any) -> None:
    def in_child() -> None:
        record(ours, tmp_path / "child.json", lambda: torch.zeros(2))

    def work() -> None:
        fork(in_child)
        torch.ones(3)

    parent = json.loads(record(ours, tmp_path / "parent.json", work))["nodes"]
    child = json.loads((tmp_path / "child.json").read_text())["nodes"]
    assert "aten::ones" in [node["name"] for node in parent]
    assert "aten::zeros" in [node["name"] for node in child]
    assert "aten::zeros" not in [node["name"] for node in parent]


@either
def test_workers_of_a_loader_stay_out(tmp_path: Path, ours: Any) -> None:
    data = torch.utils.data.TensorDataset(torch.ones(64, 2))

    def work() -> None:
        loader = torch.utils.data.DataLoader(
            data, batch_size=4, num_workers=2, multiprocessing_context="fork"
        )
        assert len(list(loader)) == 16

    nodes = json.loads(record(ours, tmp_path / "ours.json", work))["nodes"]
    assert len({node["id"] for node in nodes}) == len(nodes)
    assert dangling(nodes) == []
    assert "aten::stack" not in [node["name"] for node in nodes]


@either
@pytest.mark.parametrize("place", ["no/such/folder/et.json", "file/et.json", "x" * 300 + ".json"])
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path, place: str, ours: Any) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written|its folder is not there") as raised:
        ours().register_callback(tmp_path / place)
    assert raised.value.path == str(tmp_path / place)
    assert files_of(tmp_path) == ["file"]
    record(ours, tmp_path / "et.json", lambda: torch.ones(2))
