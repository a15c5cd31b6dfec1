"""Shared printing of all commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from tracebraid import clock
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode, Severity
from tracebraid.model.printable import encodable, printable, printable_json
from tracebraid.model.rank_files import RanksDone
from tracebraid.reports.breakdown_bars import ascii_form, can_show
from tracebraid.reports.findings import alike, gap_lines, line_of_alike, without_worst_gap
from tracebraid.reports.fitted_table import WIDEST
from tracebraid.reports.machine import finding_data


def say(*parts: RenderableType, width: int | None = None) -> None:
    """Print results for people; to a file or pipe without colours, with wide tables and unwrapped text.

    Args:
        parts: texts and tables.
        width: characters in a line; None: `output_width`.
    """
    console = Console(highlight=False, emoji=False, width=output_width() if width is None else width)
    unwrapped = not sys.stdout.isatty() and _stated_width() is None
    has_bars = can_show(getattr(sys.stdout, "encoding", None))
    for part in parts:
        if isinstance(part, str):
            console.print(part if has_bars else ascii_form(part), soft_wrap=unwrapped)
        elif isinstance(part, Text):
            console.print(part if has_bars else Text(ascii_form(part.plain), part.style), soft_wrap=unwrapped)
        else:
            console.print(_Unpadded(part, has_bars), soft_wrap=True)
            console.print()


class _Unpadded:
    """A table or group printed without trailing spaces."""

    def __init__(self, part: RenderableType, has_bars: bool) -> None:
        self._part, self._has_bars = part, has_bars

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines without trailing spaces."""
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
    """Width of a line of results: the terminal's; for a file or pipe, that of COLUMNS."""
    if sys.stdout.isatty():
        return Console().width
    return _stated_width() or WIDEST


def _stated_width() -> int | None:
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else None


def say_json(data: Any) -> None:
    """Print results for machines: one JSON document."""
    sys.stdout.write(json_bytes(data).decode())


def json_bytes(data: Any) -> bytes:
    """Encode results as one JSON document."""
    return printable_json(msgspec.json.format(msgspec.json.encode(_as_text(data)), indent=2)) + b"\n"


def _as_text(data: Any) -> Any:
    """Escape undecodable bytes of paths."""
    if isinstance(data, str):
        return encodable(data)
    if isinstance(data, dict):
        return {key: _as_text(value) for key, value in data.items()}
    return [_as_text(item) for item in data] if isinstance(data, list | tuple) else data


def say_error(text: str, *details: str) -> None:
    """Print an error, and below it the lines of its details."""
    note(f"error: {text}", *details)


def say_findings(findings: Iterable[Finding]) -> None:
    """Print findings once each; equal findings of several files share a line."""
    known = list(findings)
    if not known:
        return
    from tracebraid.validation.advice import diagnosis_of, without_consequences

    for same in alike(without_consequences(known)):
        note(
            f"{'note' if diagnosis_of(same[0]).severity is Severity.NOTE else 'warning'}: {line_of_alike(same)}"
        )


def say_worst_gap(findings: Iterable[Finding]) -> list[Finding]:
    """Print before an answer the worst gap of the traces, if there is one; returns the other findings."""
    say(*map(Text, gap_lines(findings)))
    return without_worst_gap(findings)


def findings_data(findings: Iterable[Finding]) -> dict[str, object]:
    """Findings for a JSON answer."""
    return {"findings": [finding_data(finding) for finding in findings]}


def end(findings: Iterable[Finding]) -> None:
    """Print the findings; exit with 1 if a rank could not be read."""
    say_findings(findings)
    exit_if_unreadable(findings)


def exit_if_unreadable(findings: Iterable[Finding]) -> None:
    """Exit with 1 if a rank could not be read."""
    if any(finding.code is FindingCode.RANK_UNREADABLE for finding in findings):
        raise SystemExit(1)


def note(*lines: str) -> None:
    """Print a note on standard error, as one line whatever a path or name contains."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print("\n".join(map(printable, lines)))


class OfAll:
    """Converts the progress of one of several files to overall progress."""

    def __init__(self, update: Callable[[float], None], files: int) -> None:
        self._update, self._files, self._done = update, max(1, files), 0

    def __call__(self, fraction: float) -> None:
        """Report the progress of the current file, 0 to 1."""
        self._update((self._done + fraction) / self._files)

    def next(self) -> None:
        """Report that the current file is done."""
        self._done += 1
        self(0.0)


def _ranks_done(fraction: float, elapsed_s: float) -> str:
    """Format the number of finished ranks and the remaining time: ranks are alike, the work on one is not."""
    if not isinstance(fraction, RanksDone) or fraction.ranks < 2:
        return ""
    left = f", {timedelta(seconds=round(elapsed_s / fraction - elapsed_s))} left" if fraction else ""
    return f"{fraction.done:,} of {fraction.ranks:,} ranks{left}"


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error, if it is a terminal; call it with 0 to 1.

    It shows the share and the elapsed time; if called with a `RanksDone` of several ranks, their number and the
    remaining time.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    ranks_and_time_left = TextColumn("{task.fields[ranks]}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        ranks_and_time_left,
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, began_s = bar.add_task(label, total=1.0, ranks=""), clock.now_s()

        def update(fraction: float) -> None:
            nonlocal began_s
            if fraction < bar.tasks[task].completed:  # The next pass over the ranks.
                began_s = clock.now_s()
            done = _ranks_done(fraction, clock.now_s() - began_s)
            bar.update(task, completed=float(fraction), ranks=done)

        yield update
