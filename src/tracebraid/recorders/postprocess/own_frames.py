"""Removes this package's frames from the Python stacks that Kineto writes.

Kineto traces every Python function of its threads, so these frames cannot be excluded while recording. What they
call stays, as called by the enclosing function of the program.
"""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tracebraid.recorders.postprocess.escape_names import Edit

__all__ = ["merged", "own_files", "own_frames"]

_FRAME = re.compile(
    rb'\{\s*"ph": "X",\s*"cat": "python_function",\s*"name": "(?P<name>[^\n]*)",\s*"pid": [^{}]*"args": \{[^{}]*?'
    rb'"Python parent id": (?P<parent>\d+|null),[^{}]*?"Python id": (?P<id>\d+)[^{}]*\}\s*\}(?P<next>,\s*)?'
)
_LINE = re.compile(rb"\(\d+\): ")


def own_files() -> frozenset[bytes]:
    """The files of this package, as they appear in names of frames: PyTorch strips the folders of `sys.path`."""
    package = Path(__file__).parents[2]
    folders = {Path(entry).absolute() for entry in sys.path}
    return frozenset(
        name.encode()
        for file in package.rglob("*.py")
        for name in (
            str(file),
            *(str(file.relative_to(folder)) for folder in folders if folder in package.parents),
        )
    )


def own_frames(text: bytes | mmap.mmap, files: Iterable[bytes]) -> list[Edit]:
    """The edits that remove the frames of some files, and attach what they call to their callers.

    Args:
        text: a Kineto trace as Kineto writes it.
        files: as `own_files` gives them.
    """
    known = frozenset(files)
    frames = list(_FRAME.finditer(text))
    callers: dict[bytes, bytes] = {}
    for frame in frames:
        line = _LINE.search(frame["name"])
        if line and frame["next"] and frame["name"][: line.start()] in known:
            callers[frame["id"]] = frame["parent"]
    if not callers:
        return []
    edits = []
    for frame in frames:
        if frame["id"] in callers:
            edits.append(Edit(frame.start(), frame.end(), b""))
        elif frame["parent"] in callers:
            caller = frame["parent"]
            while caller in callers:
                caller = callers[caller]
            edits.append(Edit(*frame.span("parent"), caller))
    return edits


def merged(edits: Iterable[Edit], removals: Iterable[Edit]) -> list[Edit]:
    """Both kinds of edits in order, without those inside of what is removed."""
    found: list[Edit] = []
    for edit in sorted((*edits, *removals), key=lambda edit: (edit.start, -edit.stop)):
        if not found or edit.start >= found[-1].stop:
            found.append(edit)
    return found
