"""Options of an export to `.et` files, and of the simulator that runs them."""

from __future__ import annotations

from msgspec import Struct, field

from tracebraid.chakra.codes import Detail, Dialect, MissingRanks
from tracebraid.chakra.running.network import (
    GIB_S,
    CollectiveSettings,
    Dimension,
    Network,
    Topology,
)
from tracebraid.errors import ArgumentError
from tracebraid.model.choices import choice

_LINK_GIB_S = 50.0
_LINK_LATENCY_NS = 500.0
"""Bandwidth and latency of a link in ASTRA-sim's own examples (examples/network/analytical/Ring_4npus.yml)."""


def ring_of_examples() -> Network:
    """A ring of all ranks with the links of ASTRA-sim's own examples: 50 GiB/s, 500 ns."""
    return Network("ring", (Dimension(Topology.RING, _LINK_GIB_S * GIB_S, _LINK_LATENCY_NS),))


class SimulatorOptions(Struct, frozen=True):
    """On what ASTRA-sim is to run the traces.

    Args:
        network: its dimensions, the innermost first.
        settings: how collectives are done, and whether work takes what a roofline says.
        replay: whether communication lasts as long as the traces say, on no network; ranks then wait for no other.
    """

    network: Network = field(default_factory=ring_of_examples)
    settings: CollectiveSettings = field(default_factory=CollectiveSettings)
    replay: bool = False


class ChakraOptions(Struct, frozen=True):
    """Options of an export to Chakra.

    Args:
        detail: how much of a rank becomes nodes; None: `merged` with `simulator`, since ASTRA-sim has one
            compute lane for each rank, else `full`.
        steps: only these: numbers, ranges or names, such as `3..5,8`; None: all of the traces.
        repeat: how often the nodes are repeated in sequence; 1 or more.
        missing: handling of ranks of the world that have no trace.
        world_size: number of simulated ranks, at least the job's; additional ranks replicate it; None: the job's.
        simulator: `astra-sim`, or its hardware: its configuration is written too, and communication is
            mapped to supported collectives; None: neither.
        allow_alone: export even if most communication could only be simulated on its own rank.
        changes: the job as `what_if` predicts it after these changes, such as `scale-batch 2`.

    Raises:
        ArgumentError: `repeat` is less than 1, or the detail, simulator or handling of missing ranks is unknown.
    """

    detail: Detail | str | None = None
    steps: str | None = None
    repeat: int = 1
    missing: MissingRanks | str = MissingRanks.REFUSE
    world_size: int | None = None
    simulator: SimulatorOptions | str | None = None
    allow_alone: bool = False
    changes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise ArgumentError(f"repeat is {self.repeat}: give 1 or more")
        if self.detail is not None:
            choice(Detail, self.detail, "detail")
        choice(MissingRanks, self.missing, "choice for missing ranks")
        if isinstance(self.simulator, str) and self.simulator != Dialect.ASTRA_SIM.value:
            raise ArgumentError(
                f"there is no simulator {self.simulator!r} that files are known for; give {Dialect.ASTRA_SIM.value}"
            )

    @property
    def nodes(self) -> Detail:
        """Return how much of a rank becomes nodes."""
        return Detail(self.detail or (Detail.FULL if self.simulator is None else Detail.MERGED))

    @property
    def missing_ranks(self) -> MissingRanks:
        """Return the handling of ranks without a trace."""
        return MissingRanks(self.missing)

    @property
    def dialect(self) -> Dialect:
        """Return the types of communication that nodes may have."""
        return Dialect.CHAKRA if self.simulator is None else Dialect.ASTRA_SIM

    @property
    def simulator_options(self) -> SimulatorOptions | None:
        """Return the hardware for ASTRA-sim; None: its files are not written."""
        return SimulatorOptions() if isinstance(self.simulator, str) else self.simulator
