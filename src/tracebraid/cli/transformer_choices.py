"""The options of `tracebraid chakra generate transformer`, and the job that they describe."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Struct

from tracebraid import chakra
from tracebraid.chakra.generating.workloads import Parallelism, TrainingSteps, Transformer, TransformerJob
from tracebraid.cli.parameters import Option
from tracebraid.model.amounts import bytes_of_text
from tracebraid.model.device_peaks import Precision


class _Bits(str, Enum):
    """The subset of `Precision` in which weights are trained."""

    FP32 = Precision.FP32.value
    BF16 = Precision.BF16.value
    FP16 = Precision.FP16.value
    FP8 = Precision.FP8.value


class TransformerChoices(Struct, frozen=True):
    """Options of a transformer: sizes, training, parallelism and device; a member for each option."""

    layers: Annotated[int, Option("--layers", metavar="N", min=1, help="Layers.")] = 4
    hidden: Annotated[
        int, Option("--hidden", metavar="N", min=1, help="Elements of a token between layers.")
    ] = 1024
    heads: Annotated[int, Option("--heads", metavar="N", min=1, help="Attention heads.")] = 16
    sequence: Annotated[int, Option("--sequence", metavar="N", min=1, help="Tokens of a sequence.")] = 1024
    vocab: Annotated[int, Option("--vocab", metavar="N", min=1, help="Tokens in the vocabulary.")] = 32_000
    ffn: Annotated[
        int | None,
        Option("--ffn", metavar="N", min=1, help="Inner elements of the feed-forward network: 4 x hidden."),
    ] = None
    experts: Annotated[
        int, Option("--experts", metavar="N", min=0, help="Experts of each layer; 0: none.")
    ] = 0
    top_k: Annotated[int, Option("--top-k", metavar="N", min=1, help="Experts of a token.")] = 2
    data: Annotated[int, Option("--data", metavar="N", min=1, help="Degree of data parallelism.")] = 1
    tensor: Annotated[int, Option("--tensor", metavar="N", min=1, help="Degree of tensor parallelism.")] = 1
    pipeline: Annotated[
        int, Option("--pipeline", metavar="N", min=1, help="Degree of pipeline parallelism.")
    ] = 1
    expert: Annotated[int, Option("--expert", metavar="N", min=1, help="Degree of expert parallelism.")] = 1
    fully_sharded: Annotated[
        bool,
        Option("--fully-sharded", help="Shard weights over replicas (FSDP), instead of copying them (DDP)."),
    ] = False
    micro_batches: Annotated[
        int, Option("--micro-batches", metavar="N", min=1, help="Micro-batches of a step.")
    ] = 1
    sequences: Annotated[
        int, Option("--sequences", metavar="N", min=1, help="Sequences of a micro-batch.")
    ] = 1
    recompute: Annotated[bool, Option("--recompute", help="Recompute activations in the backward pass.")] = (
        False
    )
    bucket: Annotated[str, Option("--bucket", metavar="BYTES", help="Gradients reduced at once.")] = "25MiB"
    precision: Annotated[_Bits, Option("--precision", help="Precision of weights and activations.")] = (
        _Bits.BF16
    )
    device: Annotated[
        str,
        Option("--device", metavar="NAME", help="Device, by its name in Tracebraid's table of peaks."),
    ] = "H100 SXM"
    tflops: Annotated[
        float | None,
        Option("--tflops", metavar="X", help="Its dense peak in TFLOP/s, instead of the table's."),
    ] = None
    gb_per_s: Annotated[
        float | None,
        Option("--gb-per-s", metavar="X", help="Its memory bandwidth, instead of the table's."),
    ] = None
    efficiency: Annotated[
        float, Option("--efficiency", metavar="X", help="Share of both peaks that is achieved.")
    ] = 1.0

    def job(self, steps: int) -> TransformerJob:
        """Build the job.

        Raises:
            ArgumentError: sizes that contradict each other, or a device without known peaks.
        """
        model = Transformer(
            self.layers, self.hidden, self.heads, self.vocab, self.ffn, self.experts, self.top_k
        )
        training = TrainingSteps(
            self.sequence,
            self.sequences,
            self.micro_batches,
            steps,
            self.recompute,
            bytes_of_text(self.bucket),
        )
        parallelism = Parallelism(self.data, self.tensor, self.pipeline, self.expert, self.fully_sharded)
        precision = Precision(self.precision.value)
        computes = chakra.accelerator(self.device, precision, self.efficiency, self.tflops, self.gb_per_s)
        return TransformerJob(model, training, computes, parallelism)
