"""`tracebraid demo`."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Annotated

import tracebraid
from tracebraid.cli.commands import Group, command
from tracebraid.cli.link import LinkedRank, Links, link_into, show_ledger
from tracebraid.cli.output import findings_data, progress, say, say_findings, say_json
from tracebraid.cli.parameters import Argument, Option
from tracebraid.cli.summary import (
    RankSummary,
    Summary,
    advice_beside,
    say_verdict,
    show_tables,
    summarise_rank,
)
from tracebraid.errors import OutputError
from tracebraid.files import whole_file, writing
from tracebraid.model.engine import Unreadable
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.reports.names import cell


@command(Group.LOOK, 9)
def demo(
    folder: Annotated[
        Path | None,
        Argument(metavar="[DIR]", help="Copy the traces to this folder and write ET+ beside them."),
    ] = None,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Link and summarise the bundled traces: a small transformer, trained on two CPU ranks with DDP over gloo."""
    traces = tracebraid.demo_path()
    if folder is not None:
        _copy(traces, folder)
        traces = folder
    with progress("linking") as update:
        job = tracebraid.open(traces, unreadable=Unreadable.SKIP, progress=update)
        question = partial(_link_and_summarise, folder=folder, json=json, first=job.ranks[0])
        questions = {_link_and_summarise: question}
        found = Summary(advice=None if json else advice_beside(job, questions))
        answers = [of_rank[_link_and_summarise] for of_rank in job.take(questions)]
    links = Links.of([rank for rank, _ in answers], job)
    for _, of_rank in answers:
        found.add(of_rank)
    if json:
        say_json({"ranks": found.ranks, **findings_data(links.findings)})
        return
    if folder is not None:
        say(f"The traces and their ET+ (et_plus_<rank>.json) are in {cell(str(folder))}.")
    say_verdict(found)
    show_ledger(links.ledger)
    show_tables(found, top=5)
    say_findings(links.findings)


def _link_and_summarise(
    linked: LinkedTrace, folder: Path | None, json: bool, first: int
) -> tuple[LinkedRank, RankSummary]:
    answers = summarise_rank(linked, json, first)
    return link_into(linked, folder), answers


def _copy(traces: Path, folder: Path) -> None:
    """Copy the traces to the folder; a different file of the same name is never overwritten."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        pairs = [(source, folder / source.name) for source in sorted(traces.iterdir())]
        for source, target in pairs:
            if target.exists() and target.read_bytes() != source.read_bytes():
                raise OutputError(
                    str(target), "a different file of this name exists", "Choose an empty folder"
                )
    for source, target in pairs:
        if not target.exists():
            with whole_file(target) as part:
                shutil.copyfile(source, part)
