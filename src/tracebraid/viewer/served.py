"""What a server hands out: a page, and the timeline beside it, which is written when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["TIMELINE", "Served"]

TIMELINE = "timeline.pftrace.gz"
"""The timeline's address, relative to the page's, and its name where it is saved."""


@dataclass(frozen=True, eq=False)
class Served:
    """What a server hands out.

    Args:
        page: the page as UTF-8.
        nonce: stands in the page's own scripts and styles; the browser runs no others.
        write_timeline: writes the timeline into a new file.
        folder: a folder for it, which others cannot read.
    """

    page: bytes
    nonce: str
    write_timeline: Callable[[Path], None]
    folder: Path
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def timeline(self) -> Path:
        """The file of the timeline; several readers at once wait for the same.

        Raises:
            TracebraidError: it cannot be written.
        """
        path = self.folder / TIMELINE
        with self._writing:
            if not path.exists():
                self.write_timeline(path)
        return path
