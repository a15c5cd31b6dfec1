"""The capture that is active in this process: Kineto has one session per process, so there is one at a time."""

from __future__ import annotations

import os
from typing import Protocol

from tracebraid.errors import CaptureError

__all__ = ["active_capture", "become_active", "leave_active", "refuse_second"]


class _Guest(Protocol):
    """The interface of an active capture that is needed here."""

    is_guest: bool

    def give_way(self) -> None:
        """End, for another one."""


class _Active:
    """The active capture and its process: a forked child has none."""

    capture: _Guest | None = None
    pid = 0


def active_capture() -> _Guest | None:
    """The capture that is active in this process."""
    return _ACTIVE.capture if _ACTIVE.pid == os.getpid() else None


def become_active(capture: _Guest) -> None:
    """Make a capture the active one."""
    _ACTIVE.capture, _ACTIVE.pid = capture, os.getpid()


def leave_active() -> None:
    """Make no capture the active one."""
    _ACTIVE.capture = None


def refuse_second(capture: _Guest) -> None:
    """Have the capture that is active, if there is one, give way to another one.

    Raises:
        CaptureError: it is not one that gives way.
    """
    active = active_capture()
    if active is None:
        return
    if not active.is_guest or capture.is_guest:
        raise CaptureError("a capture is active in this process already. Leave that one first")
    active.give_way()


_ACTIVE = _Active()
