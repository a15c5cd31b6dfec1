"""`tracebraid info`."""

from __future__ import annotations

from typing import Annotated

from tracebraid.api.describing import infos
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import OfAll, progress, say, say_error, say_findings, say_json
from tracebraid.cli.parameters import Argument, Option
from tracebraid.errors import InputError
from tracebraid.model.file_info import FileInfo
from tracebraid.reports.machine import file_info_data
from tracebraid.reports.terminal import info_tables


@command(Group.RECORD, 4)
def info(
    paths: Annotated[
        list[str],
        Argument(metavar="PATH...", help="Trace files, folders of them, or stores.", parser=path_or_url),
    ],
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Describe each file: kind, schema, torch, device, rank, time span, steps, counts by category."""
    described: list[FileInfo] = []
    failed = False
    with progress("reading") as update:
        requested = [ask for path in paths for ask in infos(path)]
        whole = OfAll(update, len(requested))
        for ask in requested:
            try:
                described.append(ask(whole))
            except InputError as error:
                say_error(str(error))
                failed = True
            whole.next()
    if json:
        say_json({"files": [file_info_data(file_info) for file_info in described]})
    elif described:
        say(*info_tables(described))
        say_findings(finding for file_info in described for finding in file_info.findings)
    if failed:
        raise SystemExit(1)
