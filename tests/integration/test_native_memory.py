"""How much memory a recording takes, and what happens when that is not enough."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.captured import files_of
from tests.integration.native import (
    Json,
    assert_whole,
    names_of,
    native,
    nodes_of,
    ops_of,
    parent_of,
    record,
    record_builtin,
    tensors_of,
    the,
)
from tests.integration.running import run_script
from tracebraid.recorders.native.recorder import NativeRecorder

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler]

MEBI = 1 << 20
CHUNK = 1 << 16


def recorder(path: Path, memory_bytes: int) -> Any:
    opened = NativeRecorder(path, memory_bytes)
    opened.open()
    opened.start()
    return opened


def operators(count: int) -> None:
    one = torch.ones(2)
    for _ in range(count):
        one.add_(1)


@pytest.mark.full
@pytest.mark.parametrize("memory", [0, CHUNK, 4 * CHUNK])
def test_what_does_not_fit_is_spilled_and_nothing_is_lost(tmp_path: Path, memory: int) -> None:
    recording = recorder(tmp_path / "et.json", memory)
    operators(10_000)
    # Without a name: it goes with the process, however that ends.
    assert files_of(tmp_path) == []
    recording.close()
    counts = recording.counts
    assert counts.recorded_bytes > 8 * CHUNK
    assert counts.spilled_bytes > counts.recorded_bytes - 4 * CHUNK
    assert (counts.lost_bytes, counts.open, counts.raised) == (0, 0, 0)
    assert counts.peak_bytes <= max(memory, CHUNK)
    names = names_of(assert_whole(tmp_path / "et.json"))
    assert counts.nodes == len(names)
    assert names.count("aten::add_") == 10_000


@pytest.mark.full
def test_threads_share_little_memory(tmp_path: Path) -> None:
    recording = recorder(tmp_path / "et.json", 2 * CHUNK)
    threads = [threading.Thread(target=operators, args=(1000,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recording.close()
    assert names_of(assert_whole(tmp_path / "et.json")).count("aten::add_") == 8000
    # Each thread holds a chunk, whatever the limit says.
    assert recording.counts.peak_bytes <= 9 * CHUNK


def test_what_fits_into_memory_is_not_spilled(tmp_path: Path) -> None:
    recording = recorder(tmp_path / "et.json", 64 * MEBI)
    operators(10_000)
    recording.close()
    assert recording.counts.spilled_bytes == 0
    # The first 4 MiB are there from the beginning.
    assert recording.counts.peak_bytes == 4 * MEBI


def test_an_operator_may_take_any_size(tmp_path: Path) -> None:
    names = ["x" * size for size in (CHUNK - 40, CHUNK, 5 * CHUNK, 20 * MEBI)]
    recording = recorder(tmp_path / "et.json", MEBI)
    for name in names:
        with torch.profiler.record_function(name):
            torch.ones(1)
    torch.stack([torch.ones(1)] * 20_000)
    recording.close()
    assert [name for name in names_of(nodes_of(tmp_path / "et.json")) if name[0] == "x"] == names


def test_files_of_every_size_are_whole(tmp_path: Path) -> None:
    # A file is written a mebibyte at a time: also where that is full just at the end.
    for size in range(MEBI - 2600, MEBI, 200):
        recording = recorder(tmp_path / "et.json", 8 * MEBI)
        with torch.profiler.record_function("x" * size):
            pass
        recording.close()
        nodes = nodes_of(tmp_path / "et.json")
        assert [len(name) for name in names_of(nodes)] == [size]
        assert len(nodes) == 3


def test_many_names_are_all_kept(tmp_path: Path) -> None:
    with native(tmp_path / "et.json"):
        for number in range(5000):
            with torch.profiler.record_function(f"name {number}"):
                pass
    assert names_of(assert_whole(tmp_path / "et.json")) == [f"name {number}" for number in range(5000)]


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    recording = recorder(tmp_path / "et.json", MEBI)
    operators(30_000)
    recording.discard()
    assert not recording.is_open
    recording.close()
    assert files_of(tmp_path) == []


def test_a_recording_without_operators(tmp_path: Path) -> None:
    recording = recorder(tmp_path / "et.json", MEBI)
    recording.stop()
    recording.close()
    assert recording.counts.nodes == 0
    (process,) = nodes_of(tmp_path / "et.json")
    assert process["name"] == "[pytorch|profiler|execution_trace|process]"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.full
def test_recordings_one_after_the_other_leak_nothing(tmp_path: Path) -> None:
    def one() -> None:
        recording = recorder(tmp_path / "et.json", MEBI)
        thread = threading.Thread(target=operators, args=(500,))
        thread.start()
        operators(8_000)
        thread.join()
        recording.close()

    for _ in range(5):
        one()
    before, threads = resident_bytes(), len(list(Path("/proc/self/task").iterdir()))
    files = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(30):
        one()
    assert resident_bytes() - before < 8 * MEBI
    assert len(list(Path("/proc/self/task").iterdir())) == threads
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_memory_of_tensors_that_were_seen_is_given_back(tmp_path: Path) -> None:
    with native(tmp_path / "et.json"):
        torch.ones(MEBI)
        before = resident_bytes()
        for _ in range(100):
            torch.ones(MEBI)
        assert resident_bytes() - before < 128 * MEBI


# --- Forked children stay out of their parent's file, and can record for themselves ------------------


KINDS = [
    "exit",
    "os-exit",
    "own",
    "again",
    "thread",
    "thread-forks",
    "multiprocessing",
    "silent",
    "busy",
    "unregister",
]
FOLLOWED = ["exit", "own", "thread", "multiprocessing", "again", "os-exit", "loader"]


def recorded(folder: Path, kinds: list[str], *more: str) -> Path:
    """A folder for each kind, of one process."""
    done = run_script("native_fork.py", folder, ",".join(kinds), *more)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["done"]), done.stderr[-800:]
    return folder


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left where children are not followed."""
    return recorded(tmp_path_factory.mktemp("left"), [*KINDS, "loader"])


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("followed"), FOLLOWED, "follow")


def nodes_of_parent(folder: Path) -> list[Json]:
    nodes = assert_whole(folder / "et.json")
    assert "aten::zeros" not in names_of(nodes)
    assert parent_of(nodes, the(nodes, "aten::randn"))["name"] == "around"
    return nodes


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_stays_out_and_leaves_no_file(left: Path, kind: str) -> None:
    nodes = nodes_of_parent(left / kind)
    if kind != "busy":
        assert names_of(nodes).count("aten::ones") == 1 + (kind == "thread-forks")
    own = ["own.json"] if kind == "own" else []
    assert files_of(left / kind) == ["et.json", *own]
    for name in own:
        names = names_of(assert_whole(left / kind / name))
        assert "aten::full" in names
        assert not {"aten::ones", "aten::zeros", "around"} & set(names)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["exit", "own", "thread", "multiprocessing"])
def test_a_child_that_is_followed_has_a_file_of_its_own(followed: Path, kind: str) -> None:
    nodes_of_parent(followed / kind)
    (file,) = [name for name in files_of(followed / kind) if name not in ("et.json", "own.json")]
    assert re.fullmatch(r"et_pid\d+\.json", file)
    nodes = assert_whole(followed / kind / file)
    assert {"aten::zeros"} <= set(names_of(nodes)) <= {"aten::zeros", *INSIDE}
    assert names_of(nodes).count("aten::zeros") == 2 + kind.startswith("thread")


INSIDE = {"aten::empty", "aten::zero_", "aten::fill_", "aten::full"}


@pytest.mark.full
def test_children_of_children_are_followed_too(followed: Path) -> None:
    folder = followed / "again"
    files = [name for name in files_of(folder) if name != "et.json"]
    assert len(files) == 2
    assert sorted(names_of(assert_whole(folder / name)).count("aten::zeros") for name in files) == [1, 2]


@pytest.mark.full
def test_a_child_that_ends_at_once_leaves_no_file_even_if_followed(followed: Path) -> None:
    assert files_of(followed / "os-exit") == ["et.json"]


@pytest.mark.full
@pytest.mark.parametrize("is_followed", [False, True])
def test_workers_of_a_loader(left: Path, followed: Path, is_followed: bool) -> None:
    folder = (followed if is_followed else left) / "loader"
    assert "aten::stack" not in names_of(nodes_of_parent(folder))
    workers = [name for name in files_of(folder) if name != "et.json"]
    assert len(workers) == 2 * is_followed
    counts = [names_of(assert_whole(folder / name)).count("aten::stack") for name in workers]
    assert sum(counts) == 16 * is_followed


# --- Ids of tensors and storages: the same one for the same thing, and never again for another -------


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
    ours = record(tmp_path / "ours.json", one_after_the_other)
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
