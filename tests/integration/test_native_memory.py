"""How much memory a recording takes, and what happens when that is not enough."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.captured import files_of
from tests.integration.native import assert_whole, names_of, native, nodes_of
from tracebraid.recorders.native.recorder import NativeRecorder

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

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
