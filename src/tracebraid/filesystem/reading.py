"""Errors of the file system while something is read, as errors of the input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracebraid.errors import InputError

__all__ = ["reading"]


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Convert an OSError of the block into an `InputError` that names the file or folder.

    Raises:
        InputError: it is not there, or cannot be read.
    """
    try:
        yield
    except FileNotFoundError:
        raise InputError(str(path), "there is no such file", "Check the path") from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(path), problem, "Check the file and its rights") from None
