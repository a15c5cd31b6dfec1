"""Formats with their samples, mutations and calls; mutants of them; and what a call upon a mutant came to."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

Files = dict[str, bytes]
"""The content of a folder: paths below it, and the bytes of each file."""

Mutation = Callable[[Files, random.Random], Files]
"""Changes a copy of the files; the same random numbers give the same bytes. Its name stands in reports."""


@dataclass(frozen=True)
class Sample:
    """An undamaged input; its name is unique in its format."""

    name: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Call:
    """A public function or a command, made on the folder of a mutant.

    It writes below `folder/out` only, random numbers choose its arguments, and it raises `FailureError` for a wrong
    answer.
    """

    name: str
    ask: Callable[[Path, random.Random], object]
    names_others: bool = False  # inputs beside the mutant's, which its errors may be about


@dataclass(frozen=True)
class Format:
    """A kind of input: samples made in a folder, mutations, calls made on each mutant, and calls that are drawn."""

    name: str
    samples: Callable[[Path], Sequence[Sample]]
    mutations: Sequence[Mutation]
    calls: Sequence[Call]
    chosen: Sequence[Call] = ()

    @property
    def all_calls(self) -> list[Call]:
        """The calls by their numbers."""
        return [*self.calls, *self.chosen]


@dataclass(frozen=True)
class Mutant:
    """A changed sample and the calls made on it, all by number, written `FORMAT:SAMPLE:CHANGES:CALLS:SEED`.

    A change is a mutation and the seed of its random numbers, `17.255`; `seed` is that of the arguments of calls.
    """

    format: str
    sample: int
    changes: tuple[tuple[int, int], ...]
    calls: tuple[int, ...]
    seed: int = 0

    def __str__(self) -> str:
        changes = ",".join(f"{mutation}.{seed}" for mutation, seed in self.changes)
        return f"{self.format}:{self.sample}:{changes}:{','.join(map(str, self.calls))}:{self.seed}"

    @classmethod
    def of(cls, text: str) -> Mutant:
        """The mutant of its text."""
        name, sample, changes, calls, seed = text.split(":")
        pairs = (change.partition(".") for change in changes.split(",") if change)
        return cls(
            name,
            int(sample),
            tuple((int(mutation), int(number)) for mutation, _, number in pairs),
            tuple(int(call) for call in calls.split(",") if call),
            int(seed),
        )


class FailureKind(Enum):
    """Kinds of failure, whatever a file holds."""

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
    """Output of another form than it claims: JSON that does not parse, a file that its reader refuses; or output past
    Python's streams, as a panic of a library prints it."""
    SILENT_LOSS = "silent-loss"
    """More events or nodes are missing than the findings say."""
    OTHER_MEANING = "other-meaning"
    """Another answer to traces that mean the same."""


class FailureError(Exception):
    """A wrong answer, found by a call itself."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        self.kind = kind
        super().__init__(message)


@dataclass(frozen=True)
class Failure:
    """A failure of a call; `place` is the innermost line of the package in the traceback, or ""."""

    kind: FailureKind
    call: str
    message: str
    place: str
    traceback: str = ""

    @property
    def identity(self) -> tuple[FailureKind, str]:
        """The kind and the place; without a place the call, and for exceptions the call and their type."""
        if self.place or self.kind is not FailureKind.FOREIGN_EXCEPTION:
            return self.kind, self.place or self.call
        return self.kind, f"{self.call} {self.message.partition(':')[0]}"


class Outcome(Enum):
    """The end of a call; a call is refused with an error of ours."""

    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Asked:
    """A call made on a mutant, its wall time and its end, with the message of the error that refused it."""

    call: str
    took_s: float
    outcome: Outcome
    message: str = ""
    failure: Failure | None = None
