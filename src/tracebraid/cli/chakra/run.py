"""`tracebraid chakra run`."""

from __future__ import annotations

from typing import Annotated

from tracebraid import chakra
from tracebraid.chakra.reporting import chakra_run_data, chakra_run_parts, chakra_waits_text
from tracebraid.chakra.running.network import Lanes
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import output_width, progress, say, say_error, say_findings, say_json
from tracebraid.cli.parameters import Argument, Option
from tracebraid.model.amounts import bytes_of_text

_TOP = 10
"""Default number of printed rows of each table."""


@command(Group.CHAKRA, 2, Extra.CHAKRA)
def run(
    paths: Annotated[
        list[str],
        Argument(metavar="DIR|FILE...", help="A folder of PREFIX.RANK.et, or the files.", parser=path_or_url),
    ],
    network: Annotated[
        list[str] | None,
        Option(
            "--network",
            metavar="NETWORK",
            help="Such as 'ring,50GB/s,500ns', 'switch:8,400,1us+ring:4,25,2us', 'fully-connected', ASTRA-sim's "
            "network.yml, or 'measured': the times in the files, which is the default. Several are compared.",
        ),
    ] = None,
    lanes: Annotated[
        Lanes, Option("--lanes", help="Which nodes of a rank can run concurrently.")
    ] = Lanes.ASTRA_SIM,
    system: Annotated[
        str | None,
        Option(
            "--system",
            metavar="FILE",
            help="ASTRA-sim's system file: chunks and algorithms of collectives, and the roofline of work.",
        ),
    ] = None,
    rendezvous: Annotated[
        str | None,
        Option(
            "--rendezvous",
            metavar="BYTES",
            help="Sends of at least this size, such as 64KiB, wait for their receive; 0: all. By default none does.",
        ),
    ] = None,
    comm_group: Annotated[
        str | None,
        Option("--comm-group", metavar="FILE", help="The comm-group file; by default the one in the folder."),
    ] = None,
    top: Annotated[
        int, Option("--top", min=1, metavar="K", help="Print the first K rows of each table.")
    ] = _TOP,
    json: Annotated[bool, Option("--json", help="Print all of the answer as JSON.")] = False,
) -> None:
    """Simulate .et files on a network, as ASTRA-sim would: times of ranks and steps. Exit code 1 if ranks deadlock."""
    hardware = chakra.ChakraHardware(
        lanes,
        chakra.CollectiveSettings() if system is None else system,
        None if rendezvous is None else bytes_of_text(rendezvous),
    )
    with progress("reading") as update:
        found = chakra.run(paths, *(network or ()), hardware=hardware, comm_group=comm_group, progress=update)
    if json:
        say_json(chakra_run_data(found))
    else:
        say(*chakra_run_parts(found, top, output_width()))
    say_findings(found.findings)
    if not found.is_finished:
        say_error(*chakra_waits_text(found, top).split("\n"))
        raise SystemExit(1)
