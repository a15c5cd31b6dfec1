"""What a run of the fuzzer is made of: samples of formats, mutations of them, calls upon them, and failures."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

__all__ = [
    "Asked",
    "Call",
    "Failure",
    "FailureError",
    "FailureKind",
    "Files",
    "Format",
    "Mutant",
    "Mutation",
    "Outcome",
    "Sample",
    "Seed",
]

Files = dict[str, bytes]
"""The content of a folder: paths below it, and what the files hold."""

Mutation = Callable[[Files, random.Random], Files]
"""Changes a copy of the files; its name says how in reports. The same random numbers give the same bytes."""


@dataclass(frozen=True)
class Sample:
    """An undamaged input.

    Args:
        name: unique in its format.
        files: what it consists of.
    """

    name: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Call:
    """A public function or a command, with what it is asked.

    Args:
        name: what it is called in reports: `analyze breakdown`, `tracebraid.info`.
        ask: calls it on the folder of a mutant; random numbers choose its arguments. It writes below `folder/out` only.
            It returns nothing: what it finds wrong with an answer, it raises as `FailureError`.
        names_others: whether it names inputs beside the mutant's, which errors may be about then.
    """

    name: str
    ask: Callable[[Path, random.Random], object]
    names_others: bool = False


@dataclass(frozen=True)
class Format:
    """A kind of input.

    Args:
        name: what it is called on the command line of the fuzzer.
        samples: makes the samples; it may work in the folder that it is given, and is called once in a run.
        mutations: ways to change them.
        calls: what is asked of each mutant in every trial, in this order: reading, and what holds for all of it.
        chosen: of these, one or a few are drawn for each mutant.
    """

    name: str
    samples: Callable[[Path], Sequence[Sample]]
    mutations: Sequence[Mutation]
    calls: Sequence[Call]
    chosen: Sequence[Call] = ()


@dataclass(frozen=True)
class Seed:
    """What a mutant is made of: the same mutant, whatever formats there are beside its own.

    Args:
        format: the name of a format.
        number: which of its mutants.
    """

    format: str
    number: int

    def __str__(self) -> str:
        return f"{self.format}:{self.number}"

    @classmethod
    def of(cls, text: str) -> Seed:
        """The seed that is written `FORMAT:NUMBER`."""
        name, _, number = text.rpartition(":")
        return cls(name, int(number))


@dataclass(frozen=True)
class Mutant:
    """A changed sample, and how it came about."""

    seed: Seed
    sample: str
    mutations: tuple[str, ...]
    files: Mapping[str, bytes]


class FailureKind(Enum):
    """What must not happen, whatever a file holds."""

    FOREIGN_EXCEPTION = "foreign-exception"
    """An exception that is no `TracebraidError`, or a warning of a library."""
    UNLOCATED_ERROR = "unlocated-error"
    """An `InputError` about no file or folder of the mutant."""
    DIED = "died"
    """The process ended: a signal, an abort of a library."""
    HANG = "hang"
    """No answer within the limit of time."""
    MEMORY = "memory"
    """More memory than the limit."""
    INVALID_OUTPUT = "invalid-output"
    """Output that is not what it says it is: JSON that does not parse, a file that its reader refuses; or output past
    Python's streams, as a panic of a library prints it."""
    SILENT_LOSS = "silent-loss"
    """More events or nodes are missing than the findings say."""


class FailureError(Exception):
    """An answer that must not be, found by a call itself."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        self.kind = kind
        super().__init__(message)


@dataclass(frozen=True)
class Failure:
    """A failure of a mutant.

    Args:
        kind: what happened.
        call: the name of the call.
        message: of the exception, with its type.
        place: the innermost line of the package in the traceback: `importers/trace.py:120`; "" where there is none.
        traceback: all lines of it, where there is one.
    """

    kind: FailureKind
    call: str
    message: str
    place: str
    traceback: str = ""

    @property
    def identity(self) -> tuple[FailureKind, str]:
        """Failures of one kind in one place count as the same.

        Where there is no place, those of one call count so, and of those exceptions of one type.
        """
        if self.place or self.kind is not FailureKind.FOREIGN_EXCEPTION:
            return self.kind, self.place or self.call
        return self.kind, f"{self.call} {self.message.partition(':')[0]}"


class Outcome(Enum):
    """How a call ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """With an error of ours."""
    FAILED = "failed"


@dataclass(frozen=True)
class Asked:
    """A call upon a mutant, and how it ended.

    Args:
        call: its name.
        took_s: how long it took, in seconds of wall time.
        outcome: how it ended.
        message: of the error of ours that refused it.
        failure: where it failed.
    """

    call: str
    took_s: float
    outcome: Outcome
    message: str = ""
    failure: Failure | None = None
