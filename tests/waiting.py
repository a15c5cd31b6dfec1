"""Waits of tests end on what happened; their limit is that of a hang, on a machine however busy."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_S = 600
"""After this a test gives up; what a test leaves running sleeps for `LONG_S` unless it is ended."""
LONG_S = 3600


def wait_for(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < until_s, "it did not happen"
        time.sleep(0.02)
