"""`tracebraid build-recorder`."""

from __future__ import annotations

import time

import tracebraid
from tracebraid.cli.commands import Group, command
from tracebraid.cli.output import say


@command(Group.RECORD, 2)
def build_recorder() -> None:
    """Build the native recorder ahead of time, for example in a container image.

    Otherwise the first capture builds it. It is built for the installed torch, in ~/.cache/tracebraid or in the folder
    that TRACEBRAID_CACHE names.
    Needs a C++ compiler.
    """
    began_s = time.monotonic()
    path = tracebraid.build_recorder()
    say(f"{path}  ({time.monotonic() - began_s:.0f} s)")
