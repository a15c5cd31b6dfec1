"""`tracebraid build-recorder`."""

from __future__ import annotations

import time

import tracebraid
from tracebraid.api.building import was_ready
from tracebraid.cli.commands import Group, command
from tracebraid.cli.output import say


@command(Group.RECORD, 2)
def build_recorder() -> None:
    """Build the native recorder ahead of time, for example in a container image.

    Otherwise the first capture builds it. It is built for the installed torch, in ~/.cache/tracebraid or in the folder
    that TRACEBRAID_CACHE names.
    Needs a C++ compiler, unless the package tracebraid-recorder has one that is ready for this torch.
    """
    began_s = time.monotonic()
    path = tracebraid.build_recorder()
    origin = "ready in tracebraid-recorder" if was_ready(path) else "compiled"
    say(f"{path}  ({origin}, {time.monotonic() - began_s:.0f} s)")
