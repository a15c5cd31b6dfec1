"""`tracebraid chakra generate`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.output import note, progress
from tracebraid.errors import ArgumentError
from tracebraid.model.amounts import bytes_of_text
from tracebraid.model.chakra.workloads import (
    Accelerator,
    ChainJob,
    MessageJob,
    MessagePattern,
    Parallelism,
    TrainingSteps,
    Transformer,
    TransformerJob,
    Workload,
)
from tracebraid.model.device_peaks import Precision
from tracebraid.reports.units import size

__all__ = ["generate"]

_CHAIN, _TRANSFORMER = "chain", "transformer"
_KINDS = (_CHAIN, *(pattern.value for pattern in MessagePattern), _TRANSFORMER)
_OF_ALL = {"workload", "output", "steps", "prefix"}
_OF_KIND = {
    _CHAIN: {"chain", "ranks"},
    **{pattern.value: {"ranks", "size_text"} for pattern in MessagePattern},
}
"""Options of the kinds that are no transformer; all others are those of a transformer."""

_GIVEN = "COMMANDLINE"
"""Of an option that was given: typer has click's enum of sources within."""


class _Bits(str, Enum):
    """`Precision`, of those that weights are trained in."""

    FP32 = Precision.FP32.value
    BF16 = Precision.BF16.value
    FP16 = Precision.FP16.value
    FP8 = Precision.FP8.value


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
    layers: Annotated[int, typer.Option("--layers", metavar="N", min=1, help="Of a transformer.")] = 4,
    hidden: Annotated[
        int, typer.Option("--hidden", metavar="N", min=1, help="Elements of a token between layers.")
    ] = 1024,
    heads: Annotated[int, typer.Option("--heads", metavar="N", min=1, help="Of attention.")] = 16,
    sequence: Annotated[
        int, typer.Option("--sequence", metavar="N", min=1, help="Tokens of a sequence.")
    ] = 1024,
    vocab: Annotated[
        int, typer.Option("--vocab", metavar="N", min=1, help="Tokens in the vocabulary.")
    ] = 32_000,
    ffn: Annotated[
        int | None,
        typer.Option(
            "--ffn", metavar="N", min=1, help="Inner elements of the feed-forward network: 4 x hidden."
        ),
    ] = None,
    experts: Annotated[
        int, typer.Option("--experts", metavar="N", min=0, help="Of each layer; 0: none.")
    ] = 0,
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", min=1, help="Experts of a token.")] = 2,
    data: Annotated[int, typer.Option("--data", metavar="N", min=1, help="Degree of data parallelism.")] = 1,
    tensor: Annotated[int, typer.Option("--tensor", metavar="N", min=1, help="Of tensor parallelism.")] = 1,
    pipeline: Annotated[
        int, typer.Option("--pipeline", metavar="N", min=1, help="Of pipeline parallelism.")
    ] = 1,
    expert: Annotated[int, typer.Option("--expert", metavar="N", min=1, help="Of expert parallelism.")] = 1,
    fully_sharded: Annotated[
        bool,
        typer.Option("--fully-sharded", help="Replicas share weights (FSDP), instead of having all (DDP)."),
    ] = False,
    micro_batches: Annotated[int, typer.Option("--micro-batches", metavar="N", min=1, help="Of a step.")] = 1,
    sequences: Annotated[int, typer.Option("--sequences", metavar="N", min=1, help="Of a micro-batch.")] = 1,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="The backward pass computes each layer's activations again.")
    ] = False,
    bucket: Annotated[
        str, typer.Option("--bucket", metavar="BYTES", help="Gradients reduced at once.")
    ] = "25MiB",
    precision: Annotated[_Bits, typer.Option("--precision", help="Of weights and activations.")] = _Bits.BF16,
    device: Annotated[
        str,
        typer.Option(
            "--device", metavar="NAME", help="What computes, by its name in Tracebraid's table of peaks."
        ),
    ] = "H100 SXM",
    tflops: Annotated[
        float | None,
        typer.Option("--tflops", metavar="X", help="Its dense peak in TFLOP/s, instead of the table's."),
    ] = None,
    gb_per_s: Annotated[
        float | None,
        typer.Option("--gb-per-s", metavar="X", help="Its memory bandwidth, instead of the table's."),
    ] = None,
    efficiency: Annotated[
        float, typer.Option("--efficiency", metavar="X", help="The share of both peaks that is reached.")
    ] = 1.0,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="How the names of the files begin.")
    ] = "job",
) -> None:
    """Write a synthetic job as .et files: a chain of collectives, rings and trees of messages, or a transformer.

    A transformer has data x tensor x pipeline x expert ranks.
    """
    try:
        _refuse_strangers(context, workload)
        if workload == _TRANSFORMER:
            model = Transformer(layers, hidden, heads, vocab, ffn, experts, top_k)
            training = TrainingSteps(
                sequence, sequences, micro_batches, steps, recompute, bytes_of_text(bucket)
            )
            parallelism = Parallelism(data, tensor, pipeline, expert, fully_sharded)
            computes: Accelerator = api.accelerator(
                device, Precision(precision.value), efficiency, tflops, gb_per_s
            )
            job: Workload = TransformerJob(model, training, computes, parallelism)
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
    of_simple = set().union(*_OF_KIND.values())
    known = _OF_ALL | (_OF_KIND[workload] if workload in _OF_KIND else set(context.params) - of_simple)
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == _GIVEN and parameter.name not in known:
            raise typer.BadParameter(f"{parameter.opts[0]} means nothing to {workload}")
