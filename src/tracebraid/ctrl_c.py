"""Raises Ctrl-C where Python code can take it: not inside polars, and not where Python drops exceptions.

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

_AGAIN_AFTER_S = 0.001


@contextmanager
def raised_outside_polars(even_ignored: bool = False) -> Iterator[None]:
    """Let Ctrl-C wait until polars has returned; a handler that the program has set stays."""
    replaced = [signal.default_int_handler, *([signal.SIG_IGN] if even_ignored else [])]
    before = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or before not in replaced:
        yield
        return
    signal.signal(signal.SIGINT, _on_ctrl_c)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _on_ctrl_c:
            signal.signal(signal.SIGINT, before)


def take_back() -> None:
    """Make the handler of `raised_outside_polars` the system's again, where a library has put its own in its place.

    polars does so as it is imported, and calls the one before; one that did not would take Ctrl-C for good.
    """
    if _is_main_thread() and signal.getsignal(signal.SIGINT) is _on_ctrl_c:
        signal.signal(signal.SIGINT, _on_ctrl_c)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def send_again() -> None:
    """Send Ctrl-C once more, a millisecond later: to the main thread, whose system calls it ends."""
    # The handler may have come inside `threading.Thread.start`, whose lock it would take again.
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
