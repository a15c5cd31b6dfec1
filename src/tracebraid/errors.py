"""Every error that Tracebraid raises on purpose.

::

    TracebraidError
    ├── InputError            a file or folder that cannot be used, and where it goes wrong
    │   ├── NotATraceError    the content is something else than a trace
    │   └── WrongTraceError   a trace, but of the other kind than asked for
    ├── ArgumentError         an argument whose value makes no sense
    └── CoverageError         a link whose coverage is below the threshold that was asked for
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CoverageError",
    "InputError",
    "NotATraceError",
    "TracebraidError",
    "WrongTraceError",
]


class TracebraidError(Exception):
    """The root of all errors that Tracebraid raises on purpose."""


class InputError(TracebraidError):
    """A file or folder that cannot be used.

    Args:
        path: the file or folder, as the caller named it.
        problem: what is wrong with it, in a few words.
        advice: what to do next.
        where: the place inside the file ("byte 120", "node 7"), where there is one.
    """

    def __init__(self, path: str, problem: str, advice: str, where: str = "") -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        self.where = where
        place = f", {where}" if where else ""
        super().__init__(f"{path}{place}: {problem}. {advice}")


class NotATraceError(InputError):
    """The content is something else than a trace: a picture, another JSON file, nothing at all."""


class WrongTraceError(InputError):
    """An Execution Trace where a Kineto trace was expected, or the reverse."""


class ArgumentError(TracebraidError):
    """An argument whose value makes no sense."""


class CoverageError(TracebraidError):
    """A link whose coverage is below the threshold that was asked for."""
