"""`tracebraid demo`."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.link import LinkedRank, Links, link_into, show_ledger
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.cli.ranks import ask_ranks_silently
from tracebraid.cli.summary import RankSummary, Summary, show_tables, summarise_rank
from tracebraid.errors import OutputError
from tracebraid.files import whole_file, writing
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.machine import finding_data
from tracebraid.reports.text import cell

__all__ = ["demo"]


def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Copy the traces there and write ET+ beside them.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Link and summarise the bundled traces: a small transformer, trained on two CPU ranks with DDP over gloo."""
    traces = api.demo_path()
    if folder is not None:
        _copy(traces, folder)
        traces = folder
    with progress("linking") as update:
        links, found = _answers(api.open(traces), folder, json, update)
    if json:
        say_json({"ranks": found.ranks, "findings": [finding_data(finding) for finding in links.findings]})
        return
    if folder is not None:
        say(f"The traces and their ET+ (et_plus_<rank>.json) are in {cell(str(folder))}.")
    show_ledger(links.ledger)
    show_tables(found, top=5)
    say_findings(links.findings)


def _answers(job: Job, folder: Path | None, json: bool, update: api.Progress) -> tuple[Links, Summary]:
    """Link and summarise each rank, and write its ET+ where a folder is named, in one pass."""
    links, found = Links([], list(job.findings)), Summary([])
    question = partial(_link_and_summarise, folder=folder, json=json, first=job.ranks[0])
    for rank, answers in ask_ranks_silently(job, job.ranks, question, update, links.findings):
        links.add(rank)
        found.add(answers)
    return links, found


def _link_and_summarise(
    linked: LinkedTrace, folder: Path | None, json: bool, first: int
) -> tuple[LinkedRank, RankSummary]:
    answers = summarise_rank(linked, PROFILER_STEP, json, first)
    return link_into(linked, folder), answers


def _copy(traces: Path, folder: Path) -> None:
    """Copy the traces into the folder; a file of the same name that is another one is never overwritten."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        pairs = [(source, folder / source.name) for source in sorted(traces.iterdir())]
        for source, target in pairs:
            if target.exists() and target.read_bytes() != source.read_bytes():
                raise OutputError(str(target), "there is another file of this name", "Choose an empty folder")
    for source, target in pairs:
        if not target.exists():
            with whole_file(target) as part:
                shutil.copyfile(source, part)
