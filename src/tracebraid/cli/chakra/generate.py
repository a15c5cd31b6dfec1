"""`tracebraid chakra generate`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.option_members import with_option_members
from tracebraid.cli.output import note, progress
from tracebraid.cli.transformer_choices import TransformerChoices
from tracebraid.errors import ArgumentError
from tracebraid.model.amounts import bytes_of_text
from tracebraid.model.chakra.workloads import ChainJob, MessageJob, MessagePattern, Workload
from tracebraid.reports.units import size

__all__ = ["generate"]

_CHAIN, _TRANSFORMER = "chain", "transformer"
_KINDS = (_CHAIN, *(pattern.value for pattern in MessagePattern), _TRANSFORMER)
_OF_ALL = {"workload", "output", "steps", "prefix"}
_OF_KIND = {
    _CHAIN: {"chain", "ranks"},
    **{pattern.value: {"ranks", "size_text"} for pattern in MessagePattern},
    _TRANSFORMER: {member.name for member in fields(TransformerChoices)},
}
"""Options that mean something to one kind alone."""

_GIVEN = "COMMANDLINE"
"""Of an option that was given: typer has click's enum of sources within."""


@with_option_members("transformer", TransformerChoices)
def generate(
    context: typer.Context,
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"What the ranks do: {', '.join(_KINDS)}.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The new folder.")],
    chain: Annotated[
        str | None,
        typer.Option(
            "--chain",
            metavar="CHAIN",
            help="Of a chain its links: 'COMP 100us > ALL_REDUCE 1MiB > COMP 50us'.",
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", metavar="N", min=2, help="How many, of anything but a transformer."),
    ] = None,
    size_text: Annotated[
        str, typer.Option("--size", metavar="BYTES", help="What a ring or tree moves: 1MiB, 4096.")
    ] = "1MiB",
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=1, help="How often all of it is done.")
    ] = 1,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="How the names of the files begin.")
    ] = "job",
    *,
    transformer: TransformerChoices,
) -> None:
    """Write a synthetic job as .et files: a chain of collectives, rings and trees of messages, or a transformer.

    A transformer has data x tensor x pipeline x expert ranks.
    """
    try:
        _refuse_strangers(context, workload)
        if workload == _TRANSFORMER:
            job: Workload = transformer.job(steps)
        else:
            job = _simple(workload, chain, ranks, (bytes_of_text(size_text), steps))
        with progress("generating") as update:
            done = api.generate_chakra(job, output, prefix=prefix, progress=update)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    groups = f", {done.groups:,} process groups" if done.groups else ""
    note(f"{output}: {done.ranks:,} ranks, {done.nodes:,} nodes{groups}, {size(done.size_bytes)}")


def _simple(workload: str, chain: str | None, ranks: int | None, size_and_steps: tuple[int, int]) -> Workload:
    size_bytes, steps = size_and_steps
    if ranks is None:
        raise typer.BadParameter(f"{workload} needs --ranks")
    if workload != _CHAIN:
        return MessageJob(MessagePattern(workload), ranks, size_bytes, steps)
    if chain is None:
        raise typer.BadParameter("a chain needs --chain, such as --chain 'COMP 100us > ALL_REDUCE 1MiB'")
    return ChainJob(ranks, api.links_of_text(chain), steps)


def _refuse_strangers(context: typer.Context, workload: str) -> None:
    """Refuse options that mean nothing to this workload."""
    if workload not in _KINDS:
        raise typer.BadParameter(f"there is no workload {workload!r}; there are {', '.join(_KINDS)}")
    known = _OF_ALL | _OF_KIND[workload]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == _GIVEN and parameter.name not in known:
            raise typer.BadParameter(f"{parameter.opts[0]} means nothing to {workload}")
