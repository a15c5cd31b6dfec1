"""Files that cannot grow any further: each output is whole or not there, and one line names it."""

from __future__ import annotations

import resource
import signal
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hostile.every_command import forms
from tests.integration.command import run
from tests.unit.validation.made import lay, shuffled

WRITERS = (
    "critical-path",
    "chakra-converter",
    "chakra-jsonizer",
    "chakra show",
    "chakra json",
    "chakra generate",
)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: a write behind it fails."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("command", [*WRITERS, "export"])
def test_a_write_that_fails_leaves_nothing(command: str, inputs: dict[str, Path], tmp_path: Path) -> None:
    writing = [form for form in forms(command) if form.suffix is not None]
    for form in writing[:4]:
        out = tmp_path / f"out{form.suffix}"
        for size_bytes in (0, 100):
            with files_of_at_most(size_bytes):
                done = run(*form.line(inputs, out))
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert (done.returncode, len(errors)) == (1, 1), (form, done.stderr)
            assert str(out) in errors[0]
            assert list(tmp_path.iterdir()) == []


def test_temporary_files_that_do_not_fit_are_said_with_their_folder(
    inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with files_of_at_most(100):
        done = run("sql", inputs["job"], "select * from kernels")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path}: it cannot be written")
    assert "TMPDIR" in done.stderr
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert "no temporary folder can be made" in run("sql", inputs["job"], "select * from kernels").stderr


def test_an_archive_that_does_not_fit_is_said(
    inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(inputs["job"], "job")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with files_of_at_most(100):
        done = run("summary", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{path}: there is no space for its members in {tmp_path}" in done.stderr


@pytest.mark.parametrize("size_bytes", [0, 100, 2000])
def test_a_repair_that_does_not_fit_leaves_the_traces_as_they_are(size_bytes: int, tmp_path: Path) -> None:
    lay(tmp_path, nodes=shuffled(13, 11))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with files_of_at_most(size_bytes):
        done = run("check", "--repair", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'torch_et_0.json'}")
    assert len(done.stderr.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_demo_that_does_not_fit_leaves_no_half_file(tmp_path: Path) -> None:
    with files_of_at_most(1000):
        done = run("demo", tmp_path / "demo")
    assert (done.returncode, done.stdout) == (1, "")
    assert [*(tmp_path / "demo").iterdir()] == []
