"""Hosts of a planted job, whose clocks differ; and what is true of a collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.planted.events import Planted

BASE_NS = 1_780_000_000_000_000_000
"""The start of a planted job on the unix clock, at which a host's clock is ahead by `ahead_ns`."""


class Cause(Enum):
    """What makes a rank late."""

    KERNEL = "a longer kernel"
    OP = "a longer op on the host"
    SLEEP = "the host does nothing"
    DATA_LOADER = "the data loader's next batch"


@dataclass(frozen=True)
class Host:
    """A host and its clock: at `t` ns after `BASE_NS` it says `t + ahead_ns + t * drift_ppm / 1e6`.

    Args:
        name: `host_name` of its traces; None: they do not say.
        ahead_ns: by how much it is ahead at `BASE_NS`.
        drift_ppm: by how much more it is ahead, in ns for each ms.
    """

    name: str | None = "node-0"
    ahead_ns: int = 0
    drift_ppm: float = 0.0

    def drifted(self, true_ns: int) -> int:
        """What the clock says, without `ahead_ns`."""
        return true_ns + round(true_ns * self.drift_ppm / 1e6)

    def says(self, true_ns: int) -> int:
        """What the clock says at a true time, both on the unix clock."""
        return BASE_NS + self.drifted(true_ns - BASE_NS) + self.ahead_ns

    def true_ns(self, own_ns: int) -> int:
        """The true time at which the clock says `own_ns`."""
        return BASE_NS + round((own_ns - BASE_NS - self.ahead_ns) / (1 + self.drift_ppm / 1e6))

    def offset_to(self, reference: Host, own_ns: int) -> int:
        """What is added to a time of this clock to get that of the reference: the true `offset_ns` at `own_ns`."""
        return reference.says(self.true_ns(own_ns)) - own_ns


@dataclass(eq=False)
class TrueCollective:
    """A collective, or a pair of a send and a receive, as it was planted; times are true, in ns since `BASE_NS`.

    Args:
        number: in the job, from 0.
        type: a value of `CollectiveType`; `send_recv` for a pair.
        group: the name of its group in the plan.
        ranks: who takes part.
        transfer_ns: from the last arrival to the end.
        arrival: of each rank.
        end: of each rank.
        event_ids: the event of each rank, where it was recorded.
        causes: what was planted, since the last collective of the rank, to make it late.
        step: the step's name; None outside of steps.
    """

    number: int
    type: str
    group: str
    ranks: tuple[int, ...]
    transfer_ns: int
    step: str | None = None
    arrival: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    event_ids: dict[int, int] = field(default_factory=dict)
    causes: dict[int, tuple[Cause, ...]] = field(default_factory=dict)

    @property
    def late(self) -> int:
        """The rank that arrived last; the lowest of several."""
        return max(self.ranks, key=lambda rank: (self.arrival[rank], -rank))

    @property
    def waits(self) -> dict[int, int]:
        """How long each rank waited for the last arrival, in ns."""
        return {rank: self.arrival[self.late] - self.arrival[rank] for rank in self.ranks}


def on_clock(events: Sequence[Planted], host: Host) -> None:
    """Change planted events from true times to those of a host's clock, without `ahead_ns`."""
    for event in events:
        end = host.drifted(event.end)
        event.ts = host.drifted(event.ts)
        event.dur = end - event.ts
