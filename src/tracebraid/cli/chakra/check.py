"""`tracebraid chakra check`."""

from __future__ import annotations

from typing import Annotated

from rich.text import Text

from tracebraid import chakra
from tracebraid.chakra.checking.lint import Simulator
from tracebraid.chakra.reporting import chakra_check_data, chakra_verdict, lint_lines
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import progress, say, say_json
from tracebraid.cli.parameters import Argument, Option


@command(Group.CHAKRA, 1, Extra.CHAKRA)
def check(
    paths: Annotated[
        list[str],
        Argument(metavar="DIR|FILE...", help="A folder of PREFIX.RANK.et, or the files.", parser=path_or_url),
    ],
    comm_group: Annotated[
        str | None,
        Option("--comm-group", metavar="FILE", help="The comm-group file; by default the one in the folder."),
    ] = None,
    simulator: Annotated[
        Simulator | None,
        Option("--simulator", help="Report also what this simulator cannot run, or runs badly."),
    ] = None,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check .et files for faults that stop a simulator, including deadlocks. Exit code 1 if there are any."""
    with progress("checking") as update:
        checked = chakra.check(paths, comm_group=comm_group, simulator=simulator, progress=update)
    if json:
        say_json(chakra_check_data(checked))
    else:
        say(*map(Text, lint_lines(checked)), Text(chakra_verdict(checked)))
    if not checked.runs:
        raise SystemExit(1)
