"""What a timeline consists of, whatever format it is written in: processes with tracks, slices, flows and counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tracebraid.wire_format import Ints

__all__ = ["Arg", "ArgKind", "Counter", "Flow", "FlowKind", "Lane", "Process", "Slices", "Texts", "Unit"]


class ArgKind(Enum):
    """The type of an argument's values."""

    INT = "integer"
    FLOAT = "floating point"
    BOOL = "boolean"
    TEXT = "text"
    JSON = "JSON text"


class FlowKind(Enum):
    """What an arrow means; the value is its category in Chrome JSON."""

    LAUNCH = "ac2g"
    FORWARD_BACKWARD = "fwdbwd"
    COLLECTIVE = "collective"


class Unit(Enum):
    """What a counter counts."""

    COUNT = "count"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    PERCENT = "%"


@dataclass(frozen=True, eq=False)
class Texts:
    """A text for each row, as numbers of distinct texts.

    Args:
        numbers: of each row, the text's place among `distinct`; -1 for none.
        distinct: the texts in the order in which they first occur.
    """

    numbers: Ints
    distinct: Sequence[str]


@dataclass(frozen=True, eq=False)
class Arg:
    """An argument that some slices have.

    Args:
        name: its name.
        kind: the type of its values.
        rows: the slices that have it, rising; a slice may have several of a name that repeats in the file.
        values: of each of these: int64, float64, bool, or the number of the text.
        distinct: the texts that `values` counts; empty for numbers.
    """

    name: str
    kind: ArgKind
    rows: Ints
    values: NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_]
    distinct: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Flow:
    """Ends of arrows: slices with the same number are joined in the order of their starts.

    Args:
        kind: what the arrows mean.
        rows: the slice of each end, rising.
        numbers: the arrow of each end: the same in all processes.
        is_first: whether the arrow begins at this end.
        is_last: whether it ends there.
    """

    kind: FlowKind
    rows: Ints
    numbers: Ints
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Counter:
    """A value over time.

    Args:
        name: its name.
        unit: what it counts.
        ts_ns: when it changes.
        values: the value from then on: int64 or float64.
    """

    name: str
    unit: Unit
    ts_ns: Ints
    values: NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Lane:
    """A row of slices: a thread, a stream, or what else is to be seen by itself.

    Args:
        name: its name.
        thread_id: the operating system's number of the thread; None where it is none.
    """

    name: str
    thread_id: int | None = None


@dataclass(frozen=True, eq=False)
class Slices:
    """The slices of a process, in the order of their starts, of equal ones the longest first.

    Args:
        lane: the lane of each.
        ts_ns: start.
        dur_ns: duration.
        is_instant: whether it is a moment, which has no duration.
        names: their names.
        categories: their categories.
        args: what is known of them.
        flows: the arrows from and to them.
    """

    lane: Ints
    ts_ns: Ints
    dur_ns: Ints
    is_instant: NDArray[np.bool_]
    names: Texts
    categories: Texts
    args: Sequence[Arg] = ()
    flows: Sequence[Flow] = ()

    def __len__(self) -> int:
        return len(self.ts_ns)


@dataclass(frozen=True, eq=False)
class Process:
    """A rank, or what else has tracks of its own.

    Args:
        number: its place among all processes, from 0.
        name: its name.
        labels: what else is to be said of it.
        lanes: its lanes, in the order in which they are shown.
        slices: all of them.
        counters: its counters, shown behind the lanes.
        order: processes are shown in the order of this number.
    """

    number: int
    name: str
    labels: Sequence[str]
    lanes: Sequence[Lane]
    slices: Slices
    counters: Sequence[Counter] = ()
    order: int = 0

    @property
    def pid(self) -> int:
        """Its process id in the new trace: above 0, which stands for the idle task, and different for all."""
        return self.number + 1
