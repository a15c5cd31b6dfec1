"""`tracebraid check`."""

from __future__ import annotations

from typing import Annotated

from rich.text import Text

import tracebraid
from tracebraid.api.engines import AUTO, engine_of
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import Address, EngineName, path_or_url
from tracebraid.cli.matching import Match, matching_of
from tracebraid.cli.output import output_width, progress, say, say_json, say_worst_gap
from tracebraid.cli.parameters import Argument, Option
from tracebraid.reports.check import (
    check_data,
    check_table,
    clock_lines,
    diagnosis_text,
    repair_data,
    repair_lines,
    verdict,
)


@command(Group.RECORD, 3)
def check(
    path: Annotated[
        str,
        Argument(metavar="PATH", help="A folder of traces, or one trace.", parser=path_or_url),
    ],
    repair: Annotated[
        bool,
        Option("--repair", help="First repair parents in Execution Traces; keeps <name>.orig."),
    ] = False,
    match: Match = "auto",
    engine: EngineName = AUTO,
    address: Address = None,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check a capture (each file, each pair, all ranks) and advise on problems. Exit code 1 if it does not link."""
    matching, runs_in = matching_of(match), engine_of(engine, address)
    with progress("checking") as update:
        repairs = tracebraid.repair(path, update) if repair else ()
        checked = tracebraid.check(path, update, matching=matching, engine=runs_in)
    if json:
        say_json({**check_data(checked), **({"repairs": repair_data(repairs)} if repair else {})})
    else:
        findings = say_worst_gap([diagnosis.finding for diagnosis in checked.diagnoses])
        say(*(Text(line) for line in repair_lines(repairs)), check_table(checked, output_width()))
        say(*(Text(diagnosis_text(each)) for each in checked.diagnoses if each.finding in findings))
        say(*(Text(line) for line in (*clock_lines(checked), verdict(checked))))
    if not checked.links:
        raise SystemExit(1)
