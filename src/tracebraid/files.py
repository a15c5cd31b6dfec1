"""Writes files atomically: whole or not at all, and never over another run's files unless that was asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from isal import igzip

from tracebraid.errors import OutputError
from tracebraid.output_streams import is_stream, open_stream

_CHOOSE = "Choose another path"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SYSTEM_ERROR = re.compile(r"\(os error (\d{1,9})\)")
"""Pattern of a system error in messages of Rust libraries."""
_NAME_MAX = 255
"""Bytes of a name: the limit of the usual file systems of Linux."""
_NAME_AT_MOST_BYTES = 160
"""Maximum bytes of a name in its temporary file's name: names have at most 255 bytes."""
_TOKEN_BYTES = 4
_COMPRESS_LEVEL = 2
"""igzip's level, of 0 (fastest) to 3 (smallest); 2 is its default."""


def is_there(path: str | Path) -> bool:
    """Return whether something is at a path; where that cannot be asked, as of too long a name, opening it says why."""
    return _known(Path(path).exists)


def is_folder(path: str | Path) -> bool:
    """Return whether a folder is at a path; as `is_there`."""
    return _known(Path(path).is_dir)


def is_file(path: str | Path) -> bool:
    """Return whether a regular file is at a path; as `is_there`."""
    return _known(Path(path).is_file)


def is_same(path: str | Path, other: str | Path) -> bool:
    """Return whether two paths are of the same file; of one that is not there, or cannot be seen, they are not."""
    return _known(lambda: Path(path).samefile(other))


def _known(ask: Callable[[], bool]) -> bool:
    try:
        return ask()
    except (OSError, ValueError):
        return False


def user_cache() -> Path | None:
    """Return this user's cache folder; None if the user has no home.

    A relative path is none: the working folder may hold anything.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - of a user without a home it stays as it is.
    for folder in (Path(os.environ.get("XDG_CACHE_HOME", "")), home / ".cache"):
        if folder.is_absolute():
            return folder
    return None


def make_folder(folder: Path) -> None:
    """Make a folder, and prove that files can be written there."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe_folder(folder)


def refuse_existing(paths: Iterable[Path]) -> None:
    """Reject where a file of a capture exists already."""
    for path in paths:
        if is_there(path):
            raise OutputError(
                str(path),
                "the file exists, from another run or another process of the same rank",
                "Choose another folder; or have a new one made inside (--new, new=True); or replace what is there "
                "(--overwrite, overwrite=True)",
            )


def refuse_inputs(target: Path, inputs: Iterable[str | Path]) -> None:
    """Reject an output that is one of the files which are read, by whatever name: a link to it is one, too."""
    with writing(target):
        for path in map(Path, inputs):
            if is_same(target, path):
                raise OutputError(str(target), "this is one of the traces to read", "Name another file")


def refuse_target(target: Path) -> None:
    """Reject a new file or folder that exists already or cannot be made, before work is done for it."""
    if os.path.lexists(target):
        what = "folder" if is_folder(target) else "file"
        raise OutputError(str(target), f"this {what} exists", "Name another, or delete it first")
    if not is_folder(target.parent):
        raise OutputError(str(target), "its folder does not exist", "Create it, or name another path")
    with writing(target):
        probe_folder(target.parent)


def probe_folder(folder: Path) -> None:
    """Prove that files can be written in a folder."""
    probe = part_beside(folder / "tracebraid", "probe")
    try:
        with new_file(probe) as file:
            file.write(b"1")
    finally:
        probe.unlink(missing_ok=True)


def new_file(path: Path) -> BinaryIO:
    """A file that is not there yet, opened for writing; a link that somebody put there is not followed."""
    return path.open("xb")


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """The path of a new file beside the target, which gets its name when the block ends.

    After an error none is left.
    """
    part = part_beside(target)
    try:
        with writing(target):
            with errors_named_as(part, target):
                yield part
            _take_name(part, target, overwrite=False)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder beside the target, which gets its name when the block ends; after an error nothing is left."""
    part = part_beside(target)
    try:
        with writing(target):
            part.mkdir()
            with errors_named_as(part, target):
                yield part
            if os.path.lexists(target):
                raise OutputError(str(target), "this exists", "Name another, or delete it first")
            part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def parts_folder(target: Path) -> Iterator[Path]:
    """A new hidden folder beside the target, for parts that are written apart; the end of the block removes it."""
    folder = part_beside(target, "parts")
    try:
        with writing(target):
            folder.mkdir()
        whole = folder.resolve()
        try:
            yield whole
        except OutputError as error:
            if whole not in (path := Path(error.path), *path.parents):
                raise
            raise OutputError(str(target), error.problem, error.advice) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder among the system's temporary files, which is removed when the block ends."""
    try:
        made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        problem = f"no temporary folder can be made ({error.strerror or error})"
        raise OutputError(_temporary_root(), problem, "Set TMPDIR to a folder that can be written") from None
    with made as name:
        try:
            yield Path(name)
        except OutputError as error:
            if Path(name) not in (path := Path(error.path), *path.parents):
                raise
            advice = "Free some space there, or set TMPDIR to another folder"
            raise OutputError(_temporary_root(), error.problem, advice) from None


def _temporary_root() -> str:
    return tempfile.tempdir or os.environ.get("TMPDIR") or "temporary folder"


def part_beside(target: Path, label: str = "whole") -> Path:
    """A path for a temporary file that is renamed to the target: hidden, in the same folder, another each time.

    Nobody can know it before and put a link there.
    """
    if not target.name:
        raise OutputError(str(target), "this folder exists", "Name a new file or folder")
    whole = target.name.encode("utf-8", "replace")
    # One that no file can have stays as it is: then there can be no temporary file either.
    name = whole[:_NAME_AT_MOST_BYTES].decode("utf-8", "ignore") if len(whole) <= _NAME_MAX else target.name
    return target.with_name(f".{name}.{os.getpid()}-{secrets.token_hex(_TOKEN_BYTES)}.{label}.part")


@contextmanager
def errors_named_as(part: Path, target: Path) -> Iterator[None]:
    """Name in errors the target, and not the temporary file or folder that becomes it, which is gone by then."""
    try:
        yield
    except OutputError as error:
        path = Path(error.path)
        if path != part and part not in path.parents:
            raise
        raise OutputError(str(target / path.relative_to(part)), error.problem, error.advice) from None


def write_whole(target: Path, chunks: Iterable[bytes | memoryview], overwrite: bool) -> int:
    """Write chunks to a file, as gzip where its name ends in `.gz`; the same chunks give the same bytes.

    A target that is no file, such as a terminal, a pipe or `/dev/stdout`, is written to directly.
    """
    with writing(target):
        if is_stream(target):
            with open_stream(target) as file:
                return _write_chunks(file, chunks, target.suffix == ".gz")
        part = part_beside(target)
        try:
            with new_file(part) as file:
                _write_chunks(file, chunks, target.suffix == ".gz")
                os.fsync(file.fileno())
            size_bytes = part.stat().st_size
            _take_name(part, target, overwrite)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    return size_bytes


def keep_broken(target: Path, chunks: Iterable[bytes | memoryview], problem: str) -> OutputError:
    """Write invalid content to `<target>.broken`, a name that no reader takes for a trace."""
    broken = target.with_name(target.name + ".broken")
    write_whole(broken, chunks, overwrite=True)
    return OutputError(str(target), problem, f"The partial result is in {broken.name}; is the disk full?")


@contextmanager
def writing(path: Path, advice: str = _CHOOSE) -> Iterator[None]:
    """Convert an OSError of the block into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error, advice) from None


def _unwritable(path: Path, error: OSError, advice: str) -> OutputError:
    text = error.strerror or str(error)
    stated = _SYSTEM_ERROR.search(text)
    number = int(stated[1]) if error.errno is None and stated else error.errno
    if number == errno.ENOENT and not is_folder(path.parent):
        return OutputError(str(path), "its folder does not exist", "Create it, or name another path")
    cause = os.strerror(number) if stated and number is not None else text
    problem = f"it cannot be written ({cause})"
    return OutputError(str(path), problem, "Free some space" if number in _FULL else advice)


def _write_chunks(file: BinaryIO, chunks: Iterable[bytes | memoryview], compress: bool) -> int:
    size_bytes = 0
    with (
        igzip.IGzipFile("", "wb", _COMPRESS_LEVEL, file, mtime=0) if compress else nullcontext(file) as stream
    ):
        for chunk in chunks:
            size_bytes += stream.write(chunk)
    file.flush()
    return size_bytes


def _take_name(part: Path, target: Path, overwrite: bool) -> None:
    """Rename the part to the target; without `overwrite` this fails if the target exists, even if created just now."""
    if overwrite:
        part.replace(target)
        return
    try:
        os.link(part, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:
        # A file system without hard links: create the target exclusively, then replace it in one rename.
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise _exists(target) from None
        part.replace(target)


def _exists(path: Path) -> OutputError:
    return OutputError(str(path), "the file exists", "Name another, or delete it first")
