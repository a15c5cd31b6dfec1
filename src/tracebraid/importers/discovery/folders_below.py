"""The folders inside a folder, which are searched where it has no traces itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tracebraid.errors import InputError
from tracebraid.filesystem.interface import Entry, FileSystem, Kind
from tracebraid.filesystem.paths import joined

__all__ = ["each_path", "folders_below"]

T = TypeVar("T")
A = TypeVar("A")

_DEPTH = 2
"""Levels of folders below a folder without traces that are searched: `<run>/<kind>/`."""


@dataclass(frozen=True)
class _Folder:
    path: str
    real_path: str
    inside: Iterable[Entry]


def folders_below(
    folder: str, inside: Iterable[Entry], files: FileSystem
) -> tuple[list[tuple[str, list[Entry]]], list[InputError]]:
    """The folders inside a folder and inside those, each with what lies in it, and why some could not be listed.

    Each is listed once: a link to one that is listed anyway is left out, so that no circle of links is followed.

    Args:
        folder: where they lie.
        inside: what lies in it.
        files: its file system.
    """
    level = [_Folder(folder, files.real_path(folder), inside)]
    seen = {level[0].real_path}
    found: list[tuple[str, list[Entry]]] = []
    errors: list[InputError] = []
    for _ in range(_DEPTH):
        # Folders before links to them.
        below = [*_new_folders(level, False, seen, files), *_new_folders(level, True, seen, files)]
        level = []
        for (path, real), listed in zip(
            below, each_path(lambda pair: _listed(pair[0], files), below, files), strict=True
        ):
            if isinstance(listed, InputError):
                errors.append(listed)
            else:
                found.append((path, listed))
                level.append(_Folder(path, real, listed))
    return sorted(found, key=lambda pair: pair[0].split("/")), errors


def each_path(question: Callable[[A], T], paths: Sequence[A], files: FileSystem) -> list[T]:
    """The answer for each path, in their order; several are asked at the same time where each has to be waited for."""
    if files.requests_at_once == 1 or len(paths) < 2:
        return [question(path) for path in paths]
    with ThreadPoolExecutor(files.requests_at_once) as executor:
        return list(executor.map(question, paths))


def _new_folders(
    level: Iterable[_Folder], links: bool, seen: set[str], files: FileSystem
) -> list[tuple[str, str]]:
    """The folders in folders, or what links there lead to, but for those seen: path, and path without links."""
    found = []
    for folder in level:
        for entry in folder.inside:
            if entry.kind is not Kind.FOLDER or entry.is_link != links or entry.name.startswith("."):
                continue
            path = joined(folder.path, entry.name)
            real = files.real_path(path) if links else joined(folder.real_path, entry.name)
            if real not in seen:
                seen.add(real)
                found.append((path, real))
    return found


def _listed(folder: str, files: FileSystem) -> list[Entry] | InputError:
    try:
        return files.entries(folder)
    except InputError as error:
        return error
