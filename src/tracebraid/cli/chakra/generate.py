"""`tracebraid chakra generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
from click.core import ParameterSource

from tracebraid import chakra
from tracebraid.chakra.generating.workloads import ChainJob, MessageJob, MessagePattern, Workload
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import note, progress
from tracebraid.cli.parameters import Argument, Option, with_option_members
from tracebraid.cli.transformer_choices import TransformerChoices
from tracebraid.errors import ArgumentError
from tracebraid.model.amounts import bytes_of_text
from tracebraid.model.quantities import size

_CHAIN, _TRANSFORMER = "chain", "transformer"
_KINDS = (_CHAIN, *(pattern.value for pattern in MessagePattern), _TRANSFORMER)
_OF_ALL = {"workload", "output", "steps", "prefix"}
_OF_KIND = {
    _CHAIN: {"chain", "ranks"},
    **{pattern.value: {"ranks", "size_text"} for pattern in MessagePattern},
    _TRANSFORMER: set(TransformerChoices.__struct_fields__),
}
"""Options that apply to a single kind of workload."""


@command(Group.CHAKRA, 6, Extra.CHAKRA)
@with_option_members("transformer", TransformerChoices)
def generate(
    workload: Annotated[
        str, Argument(metavar="WORKLOAD", help=f"Workload of the ranks: {', '.join(_KINDS)}.")
    ],
    output: Annotated[Path, Option("-o", "--output", metavar="DIR", help="The new folder.")],
    chain: Annotated[
        str | None,
        Option(
            "--chain",
            metavar="CHAIN",
            help="Links of a chain: 'COMP 100us > ALL_REDUCE 1MiB > COMP 50us'.",
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        Option("--ranks", metavar="N", min=2, help="Number of ranks, except for a transformer."),
    ] = None,
    size_text: Annotated[
        str, Option("--size", metavar="BYTES", help="Message size of a ring or tree: 1MiB, 4096.")
    ] = "1MiB",
    steps: Annotated[int, Option("--steps", metavar="N", min=1, help="Number of repetitions.")] = 1,
    prefix: Annotated[str, Option("--prefix", metavar="TEXT", help="Prefix of the file names.")] = "job",
    *,
    transformer: TransformerChoices,
) -> None:
    """Write a synthetic job as .et files: a chain of collectives, rings and trees of messages, or a transformer.

    A transformer has data x tensor x pipeline x expert ranks.
    """
    _reject_inapplicable(workload)
    if workload == _TRANSFORMER:
        job: Workload = transformer.job(steps)
    else:
        job = _simple(workload, chain, ranks, (bytes_of_text(size_text), steps))
    with progress("generating") as update:
        done = chakra.generate(job, output, prefix=prefix, progress=update)
    groups = f", {done.groups:,} process groups" if done.groups else ""
    note(f"{output}: {done.ranks:,} ranks, {done.nodes:,} nodes{groups}, {size(done.size_bytes)}")


def _simple(workload: str, chain: str | None, ranks: int | None, size_and_steps: tuple[int, int]) -> Workload:
    size_bytes, steps = size_and_steps
    if ranks is None:
        raise ArgumentError(f"{workload} needs --ranks")
    if workload != _CHAIN:
        return MessageJob(MessagePattern(workload), ranks, size_bytes, steps)
    if chain is None:
        raise ArgumentError("a chain needs --chain, such as --chain 'COMP 100us > ALL_REDUCE 1MiB'")
    return ChainJob(ranks, chakra.links_of_text(chain), steps)


def _reject_inapplicable(workload: str) -> None:
    """Reject options that do not apply to this workload."""
    if workload not in _KINDS:
        raise ArgumentError(f"unknown workload {workload!r}; known are {', '.join(_KINDS)}")
    known = _OF_ALL | _OF_KIND[workload]
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE and parameter.name not in known:
            raise ArgumentError(f"{parameter.opts[0]} does not apply to {workload}")
