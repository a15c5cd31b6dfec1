"""`tracebraid view`."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import tracebraid
from tracebraid.api.viewing import report_server
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import note, say
from tracebraid.cli.parameters import Option


@command(Group.LOOK, 7, Extra.REPORT)
@with_job_options
def view(
    path: TracePath,
    job_options: JobOptions,
    title: Annotated[str | None, Option("--title", help="Title of the page.")] = None,
    port: Annotated[
        int,
        Option(
            "--port",
            min=0,
            max=65_535,
            metavar="N",
            help="Port on 127.0.0.1, for example to forward with ssh; 0: any.",
        ),
    ] = 0,
    no_open: Annotated[bool, Option("--no-open", help="Only print the address.")] = False,
) -> None:
    """Open the report in a browser on this machine; its timeline opens in Perfetto. Ctrl-C stops it.

    The address contains a token, and the server listens on 127.0.0.1 only.
    """
    job = job_options.open(path, None)
    report = tracebraid.report(job, title=title)
    with (
        suppress(KeyboardInterrupt),
        ended_by_terminate(),
        report_server(job, report, port=port) as server,
    ):
        say(server.address)
        sys.stdout.flush()
        note("Ctrl-C ends it")
        if not no_open and _has_screen() and not webbrowser.open(server.opening_address):
            note("no browser was found; open the address yourself")
        server.serve_forever()


@contextmanager
def ended_by_terminate() -> Iterator[None]:
    """Make SIGTERM end the command as Ctrl-C does, so that the temporary folder is deleted."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _has_screen() -> bool:
    """Return whether a graphical browser can open; a text browser would take over the terminal."""
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
