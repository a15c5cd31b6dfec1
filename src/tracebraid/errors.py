"""Every error that Tracebraid raises on purpose.

::

    TracebraidError
    ├── InputError            a file or folder that cannot be used, with the location of the problem
    │   ├── NotATraceError    the content is something else than a trace
    │   ├── WrongTraceError   a trace, but of the other kind than asked for
    │   └── ProgramError      an Execution Trace of another program than the Kineto trace
    ├── OutputError           a file or folder that cannot be written
    ├── QueryError            a query in SQL that cannot be answered, with the location of the problem
    ├── ArgumentError         an argument whose value makes no sense
    ├── CaptureError          a recorder that is used in a way that cannot work
    ├── MissingLibraryError   an optional library that is not installed; also an ImportError
    └── CoverageError         a link whose coverage is below the threshold that was asked for

    CaptureWarning            a capture that lost data, so as not to stop the program that it records
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CaptureError",
    "CaptureWarning",
    "CoverageError",
    "InputError",
    "MissingLibraryError",
    "NotATraceError",
    "OutputError",
    "ProgramError",
    "QueryError",
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
        where: the location inside the file ("byte 120", "node 7"); "" where there is none.
    """

    def __init__(self, path: str, problem: str, advice: str, where: str = "") -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        self.where = where
        location = f", {where}" if where else ""
        super().__init__(f"{path}{location}: {problem}. {advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.problem, self.advice, self.where)


class NotATraceError(InputError):
    """The content is something else than a trace: a picture, another JSON file, nothing at all."""


class WrongTraceError(InputError):
    """An Execution Trace where a Kineto trace was expected, or the reverse."""


class ProgramError(InputError):
    """An Execution Trace of another program than the Kineto trace that it was to be linked with."""


class OutputError(TracebraidError):
    """A file or folder that cannot be written.

    Args:
        path: the file or folder.
        problem: why, in a few words.
        advice: what to do next.
    """

    def __init__(self, path: str, problem: str, advice: str) -> None:
        self.path = path
        self.problem = problem
        self.advice = advice
        super().__init__(f"{path}: {problem}. {advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.problem, self.advice)


class QueryError(TracebraidError):
    """A query in SQL that cannot be answered: it is wrong, asks for what it may not have, or needs too much.

    Args:
        problem: what is wrong with it, in a few words.
        advice: what to do next.
        where: the location in the query ("line 1, column 8"); "" where there is none.
    """

    def __init__(self, problem: str, advice: str, where: str = "") -> None:
        self.problem = problem
        self.advice = advice
        self.where = where
        location = f", {where}" if where else ""
        super().__init__(f"query{location}: {problem}. {advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem, self.advice, self.where)


class ArgumentError(TracebraidError):
    """An argument whose value makes no sense."""


class CaptureError(TracebraidError):
    """A recorder that is used in a way that cannot work: two at once, a step outside the loop, a nested profiler."""


class MissingLibraryError(TracebraidError, ImportError):
    """An optional library that is not installed, and how to install it."""


class CaptureWarning(UserWarning):
    """A capture lost data, such as a window, so as not to stop the program that it records."""


class CoverageError(TracebraidError):
    """A link whose coverage is below the threshold that was asked for."""
