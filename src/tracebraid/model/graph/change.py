"""`Change`: what is done to selected activities of a dependency graph, to ask what that would bring."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum

__all__ = ["Change", "Verb", "Where"]


class Verb(Enum):
    """What a change does."""

    SCALE = "scale"
    """Multiplies the duration of each selected activity: 0.5 is twice as fast."""
    SET = "set"
    """Gives each selected activity a duration."""
    REMOVE = "remove"
    """Removes the selected events, all that they call, and the device work that they launch."""
    SPLIT = "split"
    """Divides each selected activity into so many equal parts that run at the same time."""
    MOVE = "move"
    """Queues device work on the stream of that number."""
    BANDWIDTH = "bandwidth"
    """Multiplies the bandwidth of communication."""
    LATENCY = "latency"
    """Multiplies the latency of communication, the time that does not depend on its size."""
    MERGE = "merge"
    """Merges collectives of a group that follow each other into buckets of up to so many bytes."""
    EARLY = "early"
    """Lets communication start as soon as its inputs are there."""
    GRAPH_LAUNCH = "graph-launch"
    """Launches device work as graphs, from a sync to the next: a single call each, no host work in between."""
    NO_SYNC = "no-sync"
    """Lets the host go on without waiting for devices."""
    DEFER = "defer"
    """Lets a thread wait for devices and for communication of the host at the end of the step instead."""
    OFFLOAD = "offload"
    """Lets another thread do host work, so many ahead."""
    FUSE = "fuse"
    """Fuses kernels of a stream that follow each other, so many to one."""
    AS_MEDIAN = "as-median"
    """Gives each selected activity the median duration of its counterparts on the other ranks."""
    RANKS = "ranks"
    """Gives the process groups so many ranks; the added ranks are as fast as those that are there."""


@dataclass(frozen=True)
class Where:
    """Which activities are meant: those that fit all that is given; None fits any.

    Each is a list with commas. Names are patterns, in which `*` stands for any text and `?` for a character, or a
    regular expression between slashes; ranks, streams and steps are numbers and ranges (`0-3`).

    Args:
        rank: ranks.
        step: numbers of steps, or patterns of their names.
        kind: `ActivityKind`.
        name: names of events.
        op: names of ops: each with the calls in it, outside of other ops, and the device work that they launched.
        within: names of host events: each with all that it calls, and all the device work that is launched in it.
        module: names of modules (`Linear_0`), as `op`.
        shapes: shapes of the inputs of ops, as text (`[[64, 512], [512]]`), as `op`.
        family: `KernelFamily`.
        stream: numbers of streams.
        group: process groups.
    """

    rank: str | None = None
    step: str | None = None
    kind: str | None = None
    name: str | None = None
    op: str | None = None
    within: str | None = None
    module: str | None = None
    shapes: str | None = None
    family: str | None = None
    stream: str | None = None
    group: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The keys that are given, and their values."""
        values = {key.name: getattr(self, key.name) for key in fields(self)}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True)
class Change:
    """A change: what is done, and to which activities.

    Args:
        verb: what is done.
        value: how much, as the verb takes it: a factor, ns, bytes, a count or the number of a stream; None: the verb's
            own default.
        where: which activities.
        factor: of `Verb.FUSE`: duration of the fused kernel over the sum of those that it replaces; None: 1.
    """

    verb: Verb
    value: float | None = None
    where: Where = field(default_factory=Where)
    factor: float | None = None

    @property
    def text(self) -> str:
        """The change as text, in the grammar of `--change`."""
        value = [] if self.value is None else [_number(self.value, _UNITS.get(self.verb, ()))]
        factor = [] if self.factor is None else [f"factor={self.factor:.15g}"]
        where = [f"{key}={_quoted(value)}" for key, value in self.where.given.items()]
        return " ".join([self.verb.value, *value, *factor, *where])


_UNITS: dict[Verb, tuple[tuple[str, float], ...]] = {
    Verb.SET: (("ms", 1e6), ("us", 1e3), ("ns", 1.0)),
    Verb.MERGE: (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
}
"""Units of values, the largest first."""


def _number(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """A value in the largest unit of which it has 1 or more."""
    unit, size = next((entry for entry in units if value >= entry[1]), units[-1] if units else ("", 1.0))
    return f"{value / size:.15g}{unit}"


def _quoted(value: str) -> str:
    if not any(letter.isspace() or letter in "'\"" for letter in value):
        return value
    return f'"{value}"' if "'" in value else f"'{value}'"
