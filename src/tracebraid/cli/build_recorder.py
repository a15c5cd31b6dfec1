"""`tracebraid build-recorder`."""

from __future__ import annotations

import time

import typer

from tracebraid import api

__all__ = ["build_recorder"]


def build_recorder() -> None:
    """Build the native recorder ahead, as into a container image; else its first use does.

    It is built for the torch of this environment, in ~/.cache/tracebraid or the folder that TRACEBRAID_CACHE names.
    Needs a C++ compiler.
    """
    began_s = time.monotonic()
    path = api.build_recorder()
    typer.echo(f"{path}  ({time.monotonic() - began_s:.0f} s)")
