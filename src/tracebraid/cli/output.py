"""What all commands print with: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from tracebraid.api.checking import faults, is_note
from tracebraid.model.finding import Finding
from tracebraid.model.printable import encodable, printable, printable_json
from tracebraid.model.rank_files import RanksDone
from tracebraid.reports.bars import ascii_form, can_show
from tracebraid.reports.findings import alike, line_of_alike

__all__ = [
    "OfAll",
    "json_bytes",
    "note",
    "output_width",
    "progress",
    "say",
    "say_error",
    "say_findings",
    "say_json",
]

_SHOW_AFTER_S = 1.0
"""A command that ends sooner shows no progress bar."""
_WIDTH_OF_FILES = 160
"""Characters in a line of output that goes to a file or pipe: the widest table fits."""


def say(*parts: RenderableType, width: int | None = None) -> None:
    """Print results for people; into a file or pipe without colours and with room for wide tables.

    Args:
        parts: texts and tables.
        width: characters in a line; None: those of the terminal, or in a file or pipe so many that tables fit.
    """
    if width is None and not sys.stdout.isatty():
        width = _WIDTH_OF_FILES
    console = Console(highlight=False, emoji=False, width=width)
    has_bars = can_show(getattr(sys.stdout, "encoding", None))
    for part in parts:
        if isinstance(part, str):
            console.print(part if has_bars else ascii_form(part), soft_wrap=True)
        elif isinstance(part, Text):
            console.print(part if has_bars else Text(ascii_form(part.plain), part.style), soft_wrap=True)
        else:
            console.print(_Unpadded(part, has_bars), soft_wrap=True)
            console.print()


class _Unpadded:
    """A table or a group whose lines end where their text does: no spaces up to the width."""

    def __init__(self, part: RenderableType, has_bars: bool) -> None:
        self._part, self._has_bars = part, has_bars

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines without the spaces at their ends."""
        within = options.update(max_width=console.width, no_wrap=False, overflow="fold")
        for line in console.render_lines(self._part, within, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
            yield from line if self._has_bars else (_in_ascii(segment) for segment in line)
            yield Segment.line()


def _in_ascii(segment: Segment) -> Segment:
    return Segment(ascii_form(segment.text), segment.style, segment.control)


def output_width() -> int:
    """Characters in a line of results: those of the terminal; into a file or pipe those that COLUMNS states."""
    if sys.stdout.isatty():
        return Console().width
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else _WIDTH_OF_FILES


def say_json(data: Any) -> None:
    """Print results for machines: one JSON document."""
    sys.stdout.write(json_bytes(data).decode())


def json_bytes(data: Any) -> bytes:
    """Results for machines as one JSON document."""
    return printable_json(msgspec.json.format(msgspec.json.encode(_as_text(data)), indent=2)) + b"\n"


def _as_text(data: Any) -> Any:
    """The data, with undecodable bytes of paths escaped."""
    if isinstance(data, str):
        return encodable(data)
    if isinstance(data, dict):
        return {key: _as_text(value) for key, value in data.items()}
    return [_as_text(item) for item in data] if isinstance(data, list | tuple) else data


def say_error(text: str, *details: str) -> None:
    """Print an error, and below it the lines of its details."""
    note(f"error: {text}", *details)


def say_findings(findings: Iterable[Finding]) -> None:
    """Print what was noticed in the input, each fault once; what is the same in several files is a line."""
    for same in alike(faults(findings)):
        note(f"{'note' if is_note(same[0]) else 'warning'}: {line_of_alike(same)}")


def note(*lines: str) -> None:
    """Print something that is no result, on standard error; a line remains one, whatever a path or name holds."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print("\n".join(map(printable, lines)))


class OfAll:
    """Converts the progress of one of several files into that of all."""

    def __init__(self, update: Callable[[float], None], files: int) -> None:
        self._update, self._files, self._done = update, max(1, files), 0

    def __call__(self, fraction: float) -> None:
        """Report the progress of the current file, 0 to 1."""
        self._update((self._done + fraction) / self._files)

    def next(self) -> None:
        """Report that the current file is done."""
        self._done += 1
        self(0.0)


def _ranks_done(fraction: float) -> str:
    """How many of several ranks are done, where that is known."""
    if not isinstance(fraction, RanksDone) or fraction.ranks < 2:
        return ""
    return f"{fraction.done:,} of {fraction.ranks:,} ranks"


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on standard error that shows itself after a second, if that is a terminal; call with 0 to 1.

    It shows the share that is done, the ranks where it is called with a `RanksDone`, and the time left.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    share, ranks, left = TaskProgressColumn(), TextColumn("{task.fields[ranks]}"), TextColumn("left")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        share,
        ranks,
        TimeRemainingColumn(compact=True),
        left,
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=1.0, ranks="")
    began = time.monotonic()

    def update(fraction: float) -> None:
        if not bar.live.is_started and time.monotonic() - began > _SHOW_AFTER_S:
            bar.start()
        bar.update(task, completed=float(fraction), ranks=_ranks_done(fraction))

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
