"""The options of `tracebraid export --to chakra`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Struct

from tracebraid import chakra
from tracebraid.chakra.codes import Detail, MissingRanks
from tracebraid.chakra.running.network import network_of_text
from tracebraid.cli.parameters import Option
from tracebraid.errors import ArgumentError
from tracebraid.model.export_format import ExportFormat


class Simulator(Enum):
    """A simulator for which configuration files are written."""

    ASTRA_SIM = "astra-sim"


class ChakraChoices(Struct, frozen=True):
    """Options of a Chakra export; each member is an option of the command."""

    detail: Annotated[
        Detail | None,
        Option(
            "--detail",
            help="full: the host by op; device: the host as delays; merged: one compute lane for each rank.",
        ),
    ] = None
    steps: Annotated[
        str | None,
        Option(
            "--steps",
            metavar="3..5",
            help="Only these steps: numbers, ranges or names; by default all of the traces.",
        ),
    ] = None
    repeat: Annotated[
        int | None,
        Option(
            "--repeat",
            min=1,
            metavar="N",
            help="Repeat the nodes N times in sequence.",
        ),
    ] = None
    missing: Annotated[
        MissingRanks | None,
        Option(
            "--missing",
            help="Handling of ranks without a trace: refuse the export (the default), shrink the world to those "
            "with a trace, or replicate these.",
        ),
    ] = None
    world_size: Annotated[
        int | None,
        Option(
            "--world-size",
            min=1,
            metavar="N",
            help="Simulate N ranks; additional ranks replicate the job's.",
        ),
    ] = None
    simulator: Annotated[
        Simulator | None,
        Option(
            "--simulator",
            help="Write the simulator's configuration too, and map communication to collectives that it supports.",
        ),
    ] = None

    network: Annotated[
        str | None,
        Option(
            "--network",
            metavar="NETWORK",
            help="With --simulator, such as switch:8,100Gbit/s,5us+ring:8,10Gbit/s,20us, or measured; by default a "
            "ring of 50 GiB/s and 500 ns.",
        ),
    ] = None

    allow_replay_error: Annotated[
        bool | None,
        Option(
            "--allow-replay-error",
            help="Exit with 0 even if a replay of the nodes misses the measured times by more than 20 us and "
            "0.1 % of a step.",
        ),
    ] = None

    allow_alone: Annotated[
        bool | None,
        Option(
            "--allow-alone",
            help="Export even if most communication could only be simulated on its own rank.",
        ),
    ] = None

    change: Annotated[
        list[str] | None,
        Option(
            "--change",
            metavar="CHANGE",
            help="Export the job as what-if predicts it after this change, such as 'scale-batch 2'; repeatable, in "
            "order.",
        ),
    ] = None

    def options(self, to: ExportFormat) -> chakra.ChakraOptions | None:
        """Return them as export options; None for another format without any of these options.

        Args:
            to: the format.

        Raises:
            ArgumentError: the format has no such options, or the network is invalid.
        """
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        if to is not ExportFormat.CHAKRA:
            if given:
                raise ArgumentError(
                    f"--{given[0].replace('_', '-')} is an option of --to chakra; {to.value} has none"
                )
            return None
        usual = chakra.ChakraOptions()
        return chakra.ChakraOptions(
            self.detail or usual.detail,
            self.steps,
            self.repeat or usual.repeat,
            self.missing or usual.missing,
            self.world_size,
            self._simulator(),
            self.allow_alone or usual.allow_alone,
            tuple(self.change or ()),
        )

    def _simulator(self) -> chakra.SimulatorOptions | None:
        if self.simulator is None:
            if self.network is not None:
                raise ArgumentError("--network needs --simulator")
            return None
        network = None if self.network is None else network_of_text(self.network)
        if network is None or network.is_measured:
            return chakra.SimulatorOptions(replay=network is not None)
        return chakra.SimulatorOptions(network)
