"""Mutations of files with certain names."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.fuzz.model import Files, Mutation

__all__ = ["among_files", "in_files", "whole_files"]


def in_files(suffix: str, change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    """A mutation of one file, chosen among those whose names end so; where there is none, nothing changes."""

    def mutate(files: Files, rng: random.Random) -> Files:
        paths = sorted(path for path in files if path.endswith(suffix))
        if not paths:
            return files
        path = rng.choice(paths)
        return {**files, path: change(files[path], rng)}

    mutate.__name__ = f"{change.__name__} of {suffix}"
    return mutate


def among_files(suffixes: tuple[str, ...], change: Mutation) -> Mutation:
    """A mutation that sees only the files whose names end so."""

    def mutate(files: Files, rng: random.Random) -> Files:
        seen = {path: data for path, data in files.items() if path.endswith(suffixes)}
        others = {path: data for path, data in files.items() if path not in seen}
        return {**others, **change(seen, rng)} if seen else files

    mutate.__name__ = f"{change.__name__} of {', '.join(suffixes)}"
    return mutate


def whole_files(files: Files, rng: random.Random) -> Files:
    """A file is missing, empty, has the content of another one, or is a folder's name."""
    path, other = rng.choice(sorted(files)), rng.choice(sorted(files))
    way = rng.randrange(4)
    if way == 0 and len(files) > 1:
        return {name: data for name, data in files.items() if name != path}
    if way == 1:
        return {**files, path: b""}
    if way == 2:
        return {**files, path: files[other]}
    return {**{name: data for name, data in files.items() if name != path}, f"{path}/inside": files[path]}
