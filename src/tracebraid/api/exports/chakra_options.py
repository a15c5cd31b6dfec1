"""What of a job becomes a Chakra trace."""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.errors import ArgumentError
from tracebraid.exporters.chakra.astra_sim import SimulatorOptions
from tracebraid.model.chakra.codes import Detail, Dialect, MissingRanks

__all__ = ["ChakraOptions", "SimulatorOptions"]


@dataclass(frozen=True)
class ChakraOptions:
    """What of a job becomes a Chakra trace.

    Args:
        detail: how much of a rank becomes nodes; None: `merged` where `simulator` is given, for ASTRA-sim has one
            compute lane for each rank, else `full`.
        steps: only these: numbers, ranges or names, such as `3..5,8`; None: all of the traces.
        repeat: how many times the nodes are there, one after the other; 1 or more.
        missing: what becomes of ranks of the world that have no trace.
        world_size: ranks that are simulated, at least as many as the job has: those beyond replicate it; None: as many.
        simulator: `astra-sim`, or on what it is to run the traces: its files are written, too, and communication is
            mapped to what it runs; None: neither.

    Raises:
        ArgumentError: `repeat` is less than 1, or there is no such simulator.
    """

    detail: Detail | None = None
    steps: str | None = None
    repeat: int = 1
    missing: MissingRanks = MissingRanks.REFUSE
    world_size: int | None = None
    simulator: SimulatorOptions | str | None = None

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise ArgumentError(f"repeat is {self.repeat}: give 1 or more")
        if isinstance(self.simulator, str) and self.simulator != Dialect.ASTRA_SIM.value:
            raise ArgumentError(
                f"there is no simulator {self.simulator!r} that files are known for; give {Dialect.ASTRA_SIM.value}"
            )

    @property
    def nodes(self) -> Detail:
        """How much of a rank becomes nodes."""
        return self.detail or (Detail.FULL if self.simulator is None else Detail.MERGED)

    @property
    def dialect(self) -> Dialect:
        """Which types of communication the nodes may have."""
        return Dialect.CHAKRA if self.simulator is None else Dialect.ASTRA_SIM

    @property
    def simulator_options(self) -> SimulatorOptions | None:
        """On what ASTRA-sim is to run the traces; None: its files are not written."""
        return SimulatorOptions() if isinstance(self.simulator, str) else self.simulator
