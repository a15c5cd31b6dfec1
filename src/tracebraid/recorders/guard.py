"""Keeps exceptions of Tracebraid's code from stopping the program that it runs in."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import CodeType, TracebackType


class Guard:
    """A context that suppresses the exceptions of its block.

    Every exception is suppressed, SystemExit too, as no code of the program runs in the block, except its signal
    handlers: Python runs them between any two instructions. What they raise, and KeyboardInterrupt, is propagated.

    Args:
        on_failure: called with the exception; its own exceptions are dropped.
    """

    __slots__ = ("_on_failure",)

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Suppress the exception, unless it is the program's."""
        if error is None or isinstance(error, KeyboardInterrupt) or _raised_by_handler(trace):
            return False
        try:
            self._on_failure(error)
        except Exception as failure:
            # Reporting the failure has failed too: it is dropped.
            if _raised_by_handler(failure.__traceback__):
                raise
        return True


def _raised_by_handler(trace: TracebackType | None) -> bool:
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """The code of a function, a method, a partial function or an object that can be called."""
    handler = getattr(handler, "func", handler)
    for candidate in (handler, vars(type(handler)).get("__call__")):
        code = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
