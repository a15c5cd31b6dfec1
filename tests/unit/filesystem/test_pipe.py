from __future__ import annotations

import os
import select
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_S, CountedClock, let_others_run
from tracebraid.errors import InputError
from tracebraid.filesystem.local import LocalFiles
from tracebraid.importers.discovery import manifests_of


def test_a_writer_may_open_its_end_late_and_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted_clock: CountedClock
) -> None:
    path = tmp_path / "p.json"
    os.mkfifo(path)
    waits_for_a_writer, waits_for_more = threading.Event(), threading.Event()

    def on_pause() -> None:
        waits_for_a_writer.set()
        let_others_run()
        counted_clock.time_s = 0.0

    counted_clock.on_pause = on_pause
    plain = select.select

    def selected(*descriptors: Any) -> Any:
        waits_for_more.set()
        return plain(*descriptors)

    def write() -> None:
        waits_for_a_writer.wait(HANG_S)
        with path.open("wb", buffering=0) as file:
            file.write(b"a" * 100_000)
            waits_for_more.wait(HANG_S)
            file.write(b"b")

    monkeypatch.setattr(select, "select", selected)

    writer = threading.Thread(target=write)
    writer.start()
    file = LocalFiles().open(str(path))
    writer.join()
    assert file.read(0, file.size_bytes) == b"a" * 100_000 + b"b"


@pytest.mark.usefixtures("counted_clock")
def test_a_pipe_that_nobody_writes_into_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"p\.json: no process writes to this pipe"):
        LocalFiles().open(str(path))


def test_a_device_is_refused() -> None:
    with pytest.raises(InputError, match="/dev/zero: this is a device"):
        LocalFiles().open("/dev/zero")


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"]
)
def test_a_manifest_that_is_no_file_is_noticed_and_not_read(tmp_path: Path, make: object) -> None:
    make(tmp_path / "manifest_0.json")  # type: ignore[operator]
    manifests, findings = manifests_of(str(tmp_path))
    assert manifests == []
    assert len(findings) == 1
