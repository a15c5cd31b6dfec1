"""`tracebraid chakra run`."""

from __future__ import annotations

from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import progress, say, say_error, say_findings, say_json
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.network import Lanes
from tracebraid.reports.chakra_run import chakra_run_data, chakra_run_parts, chakra_waits_text

__all__ = ["run"]

_TOP = 10
"""Rows of each table that are printed, if --top does not say otherwise."""


def run(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR|FILE...", help="A folder of PREFIX.RANK.et, or the files.", parser=path_or_url
        ),
    ],
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            metavar="NETWORK",
            help="Such as 'ring,50GB/s,500ns', 'switch:8,400,1us+ring:4,25,2us', 'fully-connected', ASTRA-sim's "
            "network.yml, or 'measured': the times in the files, which is the default. Several are compared.",
        ),
    ] = None,
    lanes: Annotated[
        Lanes, typer.Option("--lanes", help="What of a rank can run at once.")
    ] = Lanes.ASTRA_SIM,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="FILE", help="ASTRA-sim's system file: chunks and algorithms of collectives."
        ),
    ] = None,
    comm_group: Annotated[
        str | None,
        typer.Option(
            "--comm-group", metavar="FILE", help="The comm-group file; by default the one in the folder."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="K", help="Print the first K rows of each table.")
    ] = _TOP,
    json: Annotated[bool, typer.Option("--json", help="Print all of the answer as JSON.")] = False,
) -> None:
    """Run .et files on a network, as ASTRA-sim would: times of ranks and steps. Exit code 1 where ranks deadlock."""
    hardware = api.ChakraHardware(lanes) if system is None else api.ChakraHardware(lanes, system)
    try:
        with progress("reading") as update:
            found = api.run_chakra(
                paths, *(network or ()), hardware=hardware, comm_group=comm_group, progress=update
            )
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
    if json:
        say_json(chakra_run_data(found))
    else:
        say(*chakra_run_parts(found, top))
    say_findings(found.findings)
    if not found.is_finished:
        say_error(chakra_waits_text(found, top))
        raise typer.Exit(1)
