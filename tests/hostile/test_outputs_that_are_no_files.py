"""Pipes, devices and standard output by its name are written to, never replaced, and never waited for without end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.hostile.every_command import Form, forms
from tests.integration.command import run
from tracebraid import output_streams
from tracebraid.files import write_whole

DIRECT = (
    "link",
    "chakra-converter",
    "chakra-jsonizer",
    "chakra json",
    "chakra convert",
    "analyze",
    "critical-path",
)
"""Commands that write into what is no file; others refuse it, as it is there already."""


def form_of(command: str) -> Form:
    return next(form for form in reversed([*forms(command)]) if form.suffix)


@pytest.mark.parametrize("command", [*DIRECT, "report", "export", "pack", "chakra show", "sql"])
def test_a_pipe_that_nobody_reads_is_not_waited_for(
    command: str, inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_streams, "_WAIT_FOR_READER_S", 0.05)
    form = form_of(command)
    out = tmp_path / f"out{form.suffix}"
    os.mkfifo(out)
    done = run(*form.line(inputs, out))
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(errors)) == (1, 1), done.stderr
    assert str(out) in errors[0]
    assert out.is_fifo()
    assert [*tmp_path.iterdir()] == [out]


def test_a_pipe_gets_what_a_file_gets(inputs: dict[str, Path], tmp_path: Path) -> None:
    form = form_of("chakra convert")
    pipe, file = tmp_path / "pipe.et", tmp_path / "file.et"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert run(*form.line(inputs, pipe)).returncode == 0
    reader.join(20)
    assert run(*form.line(inputs, file)).returncode == 0
    assert got == [file.read_bytes()]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_name_is_kept_with_what_it_holds(name: str, tmp_path: Path) -> None:
    """As root a rename to `/dev/stdout` would replace it for the whole machine."""
    code = (
        "import sys; from pathlib import Path; from tracebraid.files import write_whole\n"
        "for overwrite in (True, False): write_whole(Path(sys.argv[1]), [b'new'], overwrite)"
    )
    target = tmp_path / "redirected"
    with target.open("wb") as file:
        file.write(b"before ")
        file.flush()
        subprocess.run([sys.executable, "-c", code, name], stdout=file, check=True, timeout=60)
    assert target.read_bytes() == b"before newnew"
    assert Path("/dev/stdout").is_symlink()


def test_a_full_device_is_said(inputs: dict[str, Path]) -> None:
    done = run("chakra", "json", inputs["nodes"], "-o", "/dev/full")
    assert done.returncode == 1
    assert "/dev/full: it cannot be written (No space left on device). Free some space" in done.stderr
    assert write_whole(Path(os.devnull), [b"abc"], overwrite=False) == 3
