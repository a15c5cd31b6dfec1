"""`tracebraid demo`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.link import link
from tracebraid.cli.output import say
from tracebraid.cli.summary import summary
from tracebraid.errors import InputError

__all__ = ["demo"]


def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Copy the traces there and write ET+ beside them.")
    ] = None,
) -> None:
    """Link and summarise the bundled traces: a small transformer, trained on two CPU ranks with DDP over gloo."""
    traces = api.demo_path()
    if folder is not None:
        try:
            shutil.copytree(traces, folder, dirs_exist_ok=True)
        except OSError as error:
            raise InputError(
                str(folder), f"it cannot be written ({error.strerror})", "Choose another place"
            ) from None
        traces = folder
        say(f"The traces and their ET+ (et_plus_<rank>.json) are in {folder}.\n")
    link([traces], out=folder)
    say("")
    summary(traces, top=5)
