"""The options of `tracebraid export --to chakra`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.codes import Detail, MissingRanks
from tracebraid.model.chakra.network_text import network_of_text
from tracebraid.model.export_format import ExportFormat

__all__ = ["ChakraChoices", "Simulator"]

_PANEL = "Options of chakra"


class Simulator(Enum):
    """A simulator whose files are written, too."""

    ASTRA_SIM = "astra-sim"


@dataclass(frozen=True)
class ChakraChoices:
    """How a Chakra trace is made; each member is an option of the command."""

    detail: Annotated[
        Detail | None,
        typer.Option(
            "--detail",
            rich_help_panel=_PANEL,
            help="full: the host by op; device: the host as delays; merged: one compute lane for each rank.",
        ),
    ] = None
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps",
            rich_help_panel=_PANEL,
            metavar="3..5",
            help="Only these steps: numbers, ranges or names; by default all of the traces.",
        ),
    ] = None
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            rich_help_panel=_PANEL,
            min=1,
            metavar="N",
            help="The nodes N times, one after the other.",
        ),
    ] = None
    missing: Annotated[
        MissingRanks | None,
        typer.Option(
            "--missing",
            rich_help_panel=_PANEL,
            help="What becomes of ranks that have no trace: refuse the export (the default), shrink the world to those "
            "that are there, or replicate these.",
        ),
    ] = None
    world_size: Annotated[
        int | None,
        typer.Option(
            "--world-size",
            rich_help_panel=_PANEL,
            min=1,
            metavar="N",
            help="Simulate N ranks: those beyond the job's replicate it.",
        ),
    ] = None
    simulator: Annotated[
        Simulator | None,
        typer.Option(
            "--simulator",
            rich_help_panel=_PANEL,
            help="Write the simulator's own files, too, and map communication to what it runs.",
        ),
    ] = None

    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            rich_help_panel=_PANEL,
            metavar="NETWORK",
            help="Of --simulator: such as switch:8,100Gbit/s,5us+ring:8,10Gbit/s,20us, or measured; by default a "
            "ring of 50 GiB/s and 500 ns.",
        ),
    ] = None

    def options(self, to: ExportFormat) -> api.ChakraOptions | None:
        """The same as options of the export; None where none is given, and the format is another.

        Args:
            to: the format.

        Raises:
            BadParameter: the format has no such options, or the network makes no sense.
        """
        given = [name for name in self.__dataclass_fields__ if getattr(self, name) is not None]
        if to is not ExportFormat.CHAKRA:
            if given:
                raise typer.BadParameter(
                    f"--{given[0].replace('_', '-')} is an option of --to chakra; {to.value} has none"
                )
            return None
        usual = api.ChakraOptions()
        return api.ChakraOptions(
            self.detail or usual.detail,
            self.steps,
            self.repeat or usual.repeat,
            self.missing or usual.missing,
            self.world_size,
            self._simulator(),
        )

    def _simulator(self) -> api.SimulatorOptions | None:
        if self.simulator is None:
            if self.network is not None:
                raise typer.BadParameter("--network is of the simulator: give --simulator, too")
            return None
        try:
            network = None if self.network is None else network_of_text(self.network)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error
        if network is None or network.is_measured:
            return api.SimulatorOptions(replay=network is not None)
        return api.SimulatorOptions(network)
