"""`tracebraid view`."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.api.viewing import report_server
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import note, say
from tracebraid.model.step import PROFILER_STEP

__all__ = ["ended_by_terminate", "view"]


@with_job_options
def view(
    path: TracePath,
    job_options: JobOptions,
    title: Annotated[str | None, typer.Option("--title", help="What stands on top of the page.")] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65_535, metavar="N", help="Port of 127.0.0.1, such as for ssh; 0: any."
        ),
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
) -> None:
    """Show the report in a browser of this machine, from where the timeline opens in Perfetto; Ctrl-C ends it.

    Nobody else can read it: the address holds a token, and only 127.0.0.1 answers.
    """
    job = job_options.open(path)
    report = api.report(job, title=title, annotation=annotation)
    with (
        suppress(KeyboardInterrupt),
        ended_by_terminate(),
        report_server(job, report, annotation=annotation, port=port) as server,
    ):
        say(server.address)
        sys.stdout.flush()
        note("Ctrl-C ends it")
        if not no_open and _has_screen() and not webbrowser.open(server.opening_address):
            note("no browser was found: open the address in yours")
        server.serve_forever()


@contextmanager
def ended_by_terminate() -> Iterator[None]:
    """Within it, SIGTERM ends the command as Ctrl-C does, so that the temporary folder goes."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _has_screen() -> bool:
    """Whether a browser can show itself: on a terminal alone, a text browser would take it over."""
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
