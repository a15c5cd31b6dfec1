"""An output that is one of the files which are read is refused by whatever name, by every command that writes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hostile.every_command import BASES, Form, forms
from tests.hostile.plain_inputs import write_job
from tests.integration.command import run
from tests.unit.validation.made import lay, shuffled
from tests.waiting import HANG_S
from tracebraid import chakra, link, write_et_plus
from tracebraid.chakra.as_json import chakra_jsonizer
from tracebraid.chakra.graphs import visualize_chakra
from tracebraid.errors import OutputError
from tracebraid.files import write_whole

READ = ("et", "kineto", "plus", "nodes")


def aliases(file: Path, folder: Path, suffix: str) -> Iterator[Path]:
    """Names of a file."""
    yield file
    yield file.parent / ".." / file.parent.name / file.name
    hard, soft = folder / f"hard{suffix}", folder / f"soft{suffix}"
    hard.hardlink_to(file)
    soft.symlink_to(file)
    yield from (hard, soft)


@pytest.mark.parametrize("command", [name for name in BASES if name not in ("trace-link", "demo", "cache")])
def test_a_command_does_not_replace_what_it_reads(
    command: str, inputs: dict[str, Path], tmp_path: Path
) -> None:
    for form in forms(command):
        names = [name for name in READ if f"{{{name}}}" in form.arguments]
        if form.suffix is None or (not names and form is not first_that_writes(command)):
            continue
        for name in names or ["kineto"]:
            content = inputs[name].read_bytes()
            folder = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            for out in aliases(inputs[name], folder, form.suffix):
                done = run(*form.line(inputs, out))
                assert done.returncode in (1, 2), (form, out)
                assert inputs[name].read_bytes() == content
                assert out.exists()


def first_that_writes(command: str) -> object:
    return next((form for form in forms(command) if form.suffix is not None), None)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("plus", lambda read, out: chakra.convert(read, out, overwrite=True)),
        ("nodes", chakra_jsonizer),
        ("nodes", visualize_chakra),
        ("kineto", lambda read, out: write_et_plus(link(read.with_name("torch_et_0.json"), read), out)),
        ("et", lambda read, out: write_et_plus(link(read, read.with_name("kineto_trace_0.json")), out)),
    ],
)
def test_a_function_that_replaces_files_refuses_its_input(
    name: str, write: Callable[[Path, Path], object], inputs: dict[str, Path], tmp_path: Path
) -> None:
    content = inputs[name].read_bytes()
    for out in aliases(inputs[name], tmp_path, ".dot"):
        if write is visualize_chakra and out.suffix != ".dot":
            continue
        with pytest.raises(OutputError):
            write(inputs[name], out)
        assert inputs[name].read_bytes() == content


# --- Pipes, devices and standard output by its name are written to, never replaced, and never w ------


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


@pytest.mark.full(keep=2)
@pytest.mark.usefixtures("counted_clock")
@pytest.mark.parametrize("command", [*DIRECT, "report", "export", "pack", "chakra show", "sql"])
def test_a_pipe_that_nobody_reads_is_not_waited_for(
    command: str, inputs: dict[str, Path], tmp_path: Path
) -> None:
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
    reader.join(HANG_S)
    assert run(*form.line(inputs, file)).returncode == 0
    assert got == [file.read_bytes()]


@pytest.mark.full
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
        subprocess.run([sys.executable, "-c", code, name], stdout=file, check=True, timeout=HANG_S)
    assert target.read_bytes() == b"before newnew"
    assert Path("/dev/stdout").is_symlink()


def test_a_full_device_is_said(inputs: dict[str, Path]) -> None:
    done = run("chakra", "json", inputs["nodes"], "-o", "/dev/full")
    assert done.returncode == 1
    assert "/dev/full: it cannot be written (No space left on device). Free some space" in done.stderr
    assert write_whole(Path(os.devnull), [b"abc"], overwrite=False) == 3


# --- Files that cannot grow any further: each output is whole or not there, and one line names  ------


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


@pytest.mark.full
@pytest.mark.parametrize("command", [*WRITERS, "export"])
def test_a_write_that_fails_leaves_nothing(
    command: str, inputs: dict[str, Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    writing = [form for form in forms(command) if form.suffix is not None]
    for form in writing[:4]:
        run(*form.line(inputs, tmp_path_factory.mktemp("whole") / f"out{form.suffix}"))
        out = tmp_path / f"out{form.suffix}"
        for size_bytes in (0, 100):
            with files_of_at_most(size_bytes):
                done = run(*form.line(inputs, out))
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert (done.returncode, len(errors)) == (1, 1), (form, done.stderr)
            assert str(out) in errors[0]
            assert list(tmp_path.iterdir()) == []


@pytest.mark.full
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


# --- What is written has the rights that the user's umask leaves, no more and no less ----------------


@pytest.mark.full
@pytest.mark.parametrize("mask", [0o002])
def test_modes_are_those_of_the_umask(tmp_path: Path, mask: int) -> None:
    job, out = write_job(tmp_path / "job"), tmp_path / "out"
    out.mkdir()
    before = os.umask(mask)
    try:
        for line in (
            ("link", job, "-o", out / "linked"),
            ("pack", job, "-o", out / "job.tbstore"),
            ("export", job, "--to", "sqlite", "-o", out / "job.sqlite"),
            ("export", job, "--to", "chakra", "-o", out / "nodes"),
            ("analyze", "kernels", job, "-o", out / "kernels.csv"),
        ):
            assert run(*line).returncode == 0, line
    finally:
        os.umask(before)
    for path in out.rglob("*"):
        assert path.lstat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path
