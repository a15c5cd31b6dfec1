"""The capture that is active in this process: Kineto has one session per process, so there is one at a time."""

from __future__ import annotations

from typing import Protocol

from tracebraid.errors import CaptureError
from tracebraid.recorders.own_process import getpid


class _Replaceable(Protocol):
    """The interface of an active capture that is needed here."""

    is_guest: bool

    def stop_for_other(self) -> None:
        """End, for another one."""


class _Active:
    """The active capture and its process: a forked child has none."""

    capture: _Replaceable | None = None
    pid = 0


def active_capture() -> _Replaceable | None:
    """The capture that is active in this process."""
    return _ACTIVE.capture if _ACTIVE.pid == getpid() else None


def become_active(capture: _Replaceable) -> None:
    """Make a capture the active one."""
    _ACTIVE.capture, _ACTIVE.pid = capture, getpid()


def leave_active() -> None:
    """Make no capture the active one."""
    _ACTIVE.capture = None


def refuse_second(capture: _Replaceable) -> None:
    """Have the capture that is active, if there is one, give way to another one."""
    active = active_capture()
    if active is None:
        return
    if not active.is_guest or capture.is_guest:
        raise CaptureError("a capture is already active in this process. End it first")
    active.stop_for_other()


_ACTIVE = _Active()
