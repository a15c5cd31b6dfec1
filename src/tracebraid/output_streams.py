"""Outputs that are no files: standard output by its name, pipes, devices. They are written to, never replaced."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from tracebraid import clock
from tracebraid.errors import OutputError

_DESCRIPTOR = re.compile(r"/dev/std(?P<name>out|err)|(?:/dev/fd|/proc/self/fd)/(?P<number>\d{1,9})")
_STANDARD = {"out": 1, "err": 2}
_WAIT_FOR_READER_S = 5.0
"""Time for a reader of a pipe to open its end, as for its writer (`filesystem.pipe`)."""
_POLL_S = 0.02


def is_stream(target: Path) -> bool:
    """Return whether a path is neither a file nor a folder, or names an open file of this process."""
    if _descriptor_of(target) is not None:
        return True
    try:
        mode = target.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_stream(target: Path) -> BinaryIO:
    """Open what `is_stream` is true of for writing; what was written to an open file before is kept."""
    descriptor = _descriptor_of(target)
    if descriptor is not None:
        return os.fdopen(os.dup(descriptor), "wb")
    if not stat.S_ISFIFO(target.stat().st_mode):
        return target.open("wb")
    give_up = clock.now_s() + _WAIT_FOR_READER_S
    while True:
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        else:
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "wb")
        if clock.now_s() > give_up:
            raise OutputError(
                str(target), "no process reads from this pipe", "Start its reader first, or name a file"
            )
        clock.pause(_POLL_S)


def _descriptor_of(target: Path) -> int | None:
    found = _DESCRIPTOR.fullmatch(str(target))
    if found is None:
        return None
    return _STANDARD[found["name"]] if found["name"] else int(found["number"])
