"""Raises Ctrl-C where Python code can take it: not inside of polars, and not where Python drops exceptions.

polars runs Python code here and there: categories, NumPy's interface, types of columns. Where that raises, as a handler
of Ctrl-C does, polars panics: a backtrace of Rust on standard error, and an exception that nobody expects.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["raised_outside_polars", "send_again"]

_AGAIN_AFTER_S = 0.001


@contextmanager
def raised_outside_polars() -> Iterator[None]:
    """Let Ctrl-C wait until polars has returned; a handler that the program has set stays."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _on_ctrl_c)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _on_ctrl_c:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def send_again() -> None:
    """Send Ctrl-C once more, a millisecond later: to the main thread, whose system calls it ends."""
    # The handler may have come inside of `threading.Thread.start`, whose lock it would take again.
    _thread.start_new_thread(_send, ())


def _send() -> None:
    time.sleep(_AGAIN_AFTER_S)
    main = threading.main_thread().ident
    assert main is not None, "it runs"
    signal.pthread_kill(main, signal.SIGINT)


def _on_ctrl_c(_number: int, frame: FrameType | None) -> None:
    if _is_in_polars(frame):
        send_again()
    else:
        raise KeyboardInterrupt


def _is_in_polars(frame: FrameType | None) -> bool:
    polars = sys.modules.get("polars")
    folder = os.path.dirname(getattr(polars, "__file__", None) or "")  # noqa: PTH120 - Without an import in a handler.
    while folder and frame is not None:
        if frame.f_code.co_filename.startswith(folder):
            return True
        frame = frame.f_back
    return False
