from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tracebraid.errors import InputError
from tracebraid.filesystem import local as pipe
from tracebraid.filesystem.local import LocalFiles
from tracebraid.importers.discovery import manifests_of


def test_a_writer_may_open_its_end_late_and_pause(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    os.mkfifo(path)

    def write() -> None:
        time.sleep(0.1)
        with path.open("wb", buffering=0) as file:
            file.write(b"a" * 100_000)
            time.sleep(0.1)
            file.write(b"b")

    writer = threading.Thread(target=write)
    writer.start()
    file = LocalFiles().open(str(path))
    writer.join()
    assert file.read(0, file.size_bytes) == b"a" * 100_000 + b"b"


def test_a_pipe_that_nobody_writes_into_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "_WAIT_FOR_WRITER_S", 0.1)
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
