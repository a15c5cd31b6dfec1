"""The clock of all that waits, retries, gives up or refreshes. Tests put a counted one in its place."""

from __future__ import annotations

import time


def now_s() -> float:
    """Seconds since some moment; they never go back."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Let other threads and processes go on for so long."""
    time.sleep(seconds)
