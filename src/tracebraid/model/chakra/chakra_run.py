"""`ChakraRun`: what Chakra's traces do on a model of hardware."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.answers.chakra import CHAKRA_RUN_RANKS, CHAKRA_RUN_WAITS, CHAKRA_RUNS
from tracebraid.model.chakra.network import CollectiveSettings, Lanes, Network
from tracebraid.model.finding import Finding
from tracebraid.model.quantities import duration

__all__ = ["ChakraRun", "ChakraRunNote"]


class ChakraRunNote(Enum):
    """What the answer rests on, beside nodes and networks."""

    MICROSECONDS = "microseconds"
    """Work takes whole microseconds, as simulators read them, though some nodes name nanoseconds."""
    SHARED_LANE = "shared_lane"
    """Nodes of several streams share one lane of compute: what ran at once runs one after another."""
    BROADCAST_REPLAYED = "broadcast_replayed"
    """Broadcasts take the time that the files say, and nobody waits for another, as in ASTRA-sim."""
    LIKE_OTHERS = "like_others"
    """Kinds of collectives that ASTRA-sim does not simulate take what a kind takes that moves as much or more."""
    NO_TIME = "no_time"
    """Some communication has no measured time: it takes 1 ns."""
    SINGLE_RANK = "single_rank"
    """There is one rank: its collectives meet nobody."""
    NO_COLLECTIVES = "no_collectives"
    """There is no communication: no network changes anything."""
    UNNUMBERED_GROUP = "unnumbered_group"
    """Beside process groups with a number there is that of all ranks without: ASTRA-sim waits for ever where ranks have
    issued different numbers of collectives before one of it."""
    MEMORY = "memory"
    """Loads and stores take the time that the files say: there is no model of remote memory."""


@dataclass(frozen=True, eq=False)
class ChakraRun:
    """What Chakra's traces do on one or several networks.

    Args:
        runs: `CHAKRA_RUNS`.
        ranks: `CHAKRA_RUN_RANKS`.
        steps: `CHAKRA_RUN_STEPS`; empty where nodes name no step.
        collectives: `CHAKRA_RUN_COLLECTIVES`.
        chain: `CHAKRA_RUN_CHAIN`.
        waits: `CHAKRA_RUN_WAITS`; empty where all ranks ran to their end.
        networks: what was asked for.
        settings: how collectives are done.
        lanes: what of a rank can run at once.
        notes: what the answer rests on.
        findings: what was noticed in the files: of one that is damaged or cut off, the nodes did not run.
    """

    runs: pl.DataFrame
    ranks: pl.DataFrame
    steps: pl.DataFrame
    collectives: pl.DataFrame
    chain: pl.DataFrame
    waits: pl.DataFrame
    networks: tuple[Network, ...]
    settings: CollectiveSettings
    lanes: Lanes
    notes: tuple[ChakraRunNote, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def end_ns(self) -> int:
        """When the last rank ended on the first network."""
        return int(self.runs.get_column("end_ns")[0])

    @property
    def is_finished(self) -> bool:
        """Whether all nodes ran on all networks; else ranks wait for each other."""
        return bool(self.runs.get_column("is_finished").all())

    def __repr__(self) -> str:
        """What it is, in brief."""
        return (
            f"ChakraRun(end_ns={self.end_ns}, is_finished={self.is_finished}, networks={len(self.networks)})"
        )

    def _repr_html_(self) -> str:
        """What it is, for a notebook."""
        facts = {
            "end": duration(self.end_ns),
            "finished": "yes" if self.is_finished else "no: ranks wait for each other",
            "lanes": self.lanes.value,
            "notes": [note.value for note in self.notes] or None,
        }
        parts = [
            notebook.frame_html("Networks", self.runs, CHAKRA_RUNS),
            notebook.frame_html("Ranks", self.ranks, CHAKRA_RUN_RANKS),
        ]
        if self.waits.height:
            parts.append(notebook.frame_html("Waiting", self.waits, CHAKRA_RUN_WAITS))
        return notebook.shown("Chakra traces on a network", notebook.facts_html(facts), *parts)
