"""Every error that Tracebraid raises on purpose.

::

    TracebraidError
    ├── InputError            a file or folder that cannot be used, with the location of the problem
    │   ├── NotATraceError    the content is something else than a trace
    │   ├── WrongTraceError   a trace, but of the other kind than asked for
    │   ├── AloneError        an export in which most communication would be simulated alone
    │   ├── ProgramError      an Execution Trace of another program than the Kineto trace
    │   └── LostWorkerError   a rank whose worker was lost each time that it was tried
    ├── OutputError           a file or folder that cannot be written
    ├── QueryError            a query in SQL that cannot be answered, with the location of the problem
    ├── ArgumentError         an argument whose value makes no sense
    ├── EngineError           an engine that cannot work: no worker process or cluster can be had
    ├── CaptureError          a recorder that is used in a way that cannot work
    ├── MissingLibraryError   an optional library that is not installed; also an ImportError
    └── CoverageError         a link whose coverage is below the threshold that was asked for

    CaptureWarning            a capture that lost data, so as not to stop the program that it records
"""

from __future__ import annotations

__all__ = [
    "AloneError",
    "ArgumentError",
    "CaptureError",
    "CaptureWarning",
    "CoverageError",
    "EngineError",
    "InputError",
    "LostWorkerError",
    "MissingLibraryError",
    "NotATraceError",
    "OutputError",
    "ProgramError",
    "QueryError",
    "TracebraidError",
    "WrongTraceError",
]


def sentences(problem: str, advice: str) -> str:
    """Join a problem and its advice; one that ends with an advice of its own needs no further stop."""
    return f"{problem}{'' if problem.endswith(('.', '?', '!')) else '.'} {advice}"


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
        # A path may know more than its text, which no message needs.
        self.path = str(path)
        self.problem = problem
        self.advice = advice
        self.where = where
        location = f", {where}" if where else ""
        super().__init__(f"{path}{location}: {sentences(problem, advice)}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.problem, self.advice, self.where)


class NotATraceError(InputError):
    """The content is something else than a trace: a picture, another JSON file, nothing at all."""


class WrongTraceError(InputError):
    """An Execution Trace where a Kineto trace was expected, or the reverse."""


class ProgramError(InputError):
    """An Execution Trace of another program than the Kineto trace that it was to be linked with."""


class AloneError(InputError):
    """An export in which most communication would be simulated on its rank alone, without its other members."""


class LostWorkerError(InputError):
    """The worker on a rank was lost each time that the rank was tried: killed, or gone with its machine.

    It is an `InputError`: it is about a rank, which it names by its file, and the other ranks go on as they do
    beside a file that cannot be read.
    """

    @classmethod
    def of(cls, path: str, why: str, tries: int) -> LostWorkerError:
        """The error of a rank.

        Args:
            path: the rank's file.
            why: what happened to its worker, as a clause: `its worker was killed by signal 9`.
            tries: how often it was tried.
        """
        advice = "Is memory short? Free some, or take fewer ranks at once with --engine in-process"
        return cls(path, f"{why}, and so {tries} times", advice)


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
        super().__init__(f"{path}: {sentences(problem, advice)}")

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


class EngineError(TracebraidError):
    """An engine that cannot work: no worker process or cluster can be had, or what it returns cannot be understood."""


class CaptureError(TracebraidError):
    """A recorder that is used in a way that cannot work: two at once, a step outside the loop, a nested profiler."""


class MissingLibraryError(TracebraidError, ImportError):
    """An optional library that is not installed, and how to install it."""


class CaptureWarning(UserWarning):
    """A capture lost data, such as a window, so as not to stop the program that it records."""


class CoverageError(TracebraidError):
    """A link whose coverage is below the threshold that was asked for."""
