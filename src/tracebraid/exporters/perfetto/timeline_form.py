"""`TimelineForm`: a format of timelines, in which the processes of a job are written one by one, wherever that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tracebraid.exporters.perfetto.content import Process

__all__ = ["TimelineForm"]


@dataclass(frozen=True)
class TimelineForm:
    """A format of timelines.

    Args:
        process: a process in chunks of bytes, which depend on no other process; its times are relative to a moment in
            ns. Equal processes give equal bytes.
        head: what a file begins with, by that moment.
        between: what stands between two processes.
        tail: what a file ends with.
    """

    process: Callable[[Process, int], Iterator[bytes]]
    head: Callable[[int], bytes] = lambda base_ns: b""
    between: bytes = b""
    tail: bytes = b""

    def chunks(self, processes: Iterable[Iterable[bytes]], base_ns: int) -> Iterator[bytes]:
        """A whole file in chunks of bytes.

        Args:
            processes: the chunks of each, which are taken one after the other, and released.
            base_ns: the moment that their times are relative to.
        """
        yield self.head(base_ns)
        between = b""
        for process in processes:
            yield between
            yield from process
            between = self.between
        yield self.tail
