"""Parameters, operations and bytes of a transformer's parts, on a rank that has `1 / tensor` of each matrix.

With h = hidden, f = inner elements of the feed-forward network, V = vocabulary, s = sequence, b = sequences of a
micro-batch, t = tensor parallel degree, E = experts, k = experts of a token, p = expert parallel degree:

- A matrix product of m x k by k x n takes 2 m k n operations. One forward pass of attention takes 8 b s h^2 for
  its four matrices and 4 b s^2 h for scores and their product with the values; the feed-forward network takes
  4 b s h f, with experts k times as much, the router 2 b s h E, and the output layer 2 b s h V. A backward pass takes
  twice as much. With f = 4 h it is 24 b s h^2 + 4 b s^2 h for each layer (Narayanan et al., "Efficient large-scale
  language model training on GPU clusters using Megatron-LM", 2021, appendix). All but the router is divided by t.
- A matrix product reads both matrices and writes its result: m k + k n + m n elements; backward it is done twice.
  Scores are kept on the chip (Dao et al., "FlashAttention", 2022): queries, keys and values are read, and the result
  is written.
- Adam reads the gradient, reads and writes weight and two moments in fp32 (12 bytes each way), and writes the weight
  (Rajbhandari et al., "ZeRO", 2020, section 3.1).
- Looking up and adding to rows of the embedding counts as an operation for each element: a simulator with a
  roofline divides by operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.chakra.generating.limits import LARGEST
from tracebraid.chakra.generating.program import Work
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.workloads import TransformerJob
from tracebraid.model.device_peaks import Precision
from tracebraid.model.units import NS_PER_S

__all__ = ["ELEMENT_BYTES", "Part", "Sizes", "optimizer_work", "part_sizes", "work_of"]

ELEMENT_BYTES = {
    Precision.FP64: 8,
    Precision.FP32: 4,
    Precision.TF32: 4,
    Precision.FP16: 2,
    Precision.BF16: 2,
    Precision.FP8: 1,
}
"""Bytes of an element; TF32 is stored as fp32."""

_ADAM_BYTES = 24
"""Read and written for each parameter in fp32: weight and two moments."""
_ADAM_OPS = 12
"""For each parameter: 3 and 4 for the moments, 5 for the step."""


@dataclass(frozen=True)
class Part:
    """What one part of the model has and does on a rank, in a forward pass of one micro-batch.

    Args:
        dense: parameters that all replicas have alike.
        experts: parameters of experts.
        num_ops: floating-point operations.
        elements: read and written at least.
    """

    dense: int
    experts: int
    num_ops: int
    elements: int


@dataclass(frozen=True)
class Sizes:
    """The parts of a model on a rank, and what its ranks exchange.

    Args:
        embedding: the first layer of the first stage.
        attention: of each layer.
        feed_forward: of each layer; of its experts those of a rank.
        router: chooses experts; None: there are none.
        output: the last layer of the last stage.
        activation_bytes: of a micro-batch between two layers.
        routed_bytes: of a micro-batch's tokens, each as often as it has experts.
        element_bytes: of an element.
    """

    embedding: Part
    attention: Part
    feed_forward: Part
    router: Part | None
    output: Part
    activation_bytes: int
    routed_bytes: int
    element_bytes: int


def part_sizes(job: TransformerJob) -> Sizes:
    """The sizes on each rank."""
    model, t = job.model, job.parallelism.tensor
    h, f, vocab, s = model.hidden, model.ffn_size, model.vocab, job.training.sequence
    tokens = s * job.training.sequences
    element_bytes = ELEMENT_BYTES[job.accelerator.precision]
    in_matrices = tokens * (2 * h + 4 * h // t) + 4 * h * h // t
    attention = Part(
        dense=4 * h * h // t + h,
        experts=0,
        num_ops=(8 * tokens * h * h + 4 * tokens * s * h) // t,
        elements=in_matrices + 4 * tokens * h // t,
    )
    router = None
    local, routed = 1, tokens
    if model.experts:
        local, routed = model.experts // job.parallelism.expert, tokens * model.top_k
        router = Part(
            dense=h * model.experts,
            experts=0,
            num_ops=2 * tokens * h * model.experts,
            elements=tokens * (h + model.experts) + h * model.experts,
        )
    weights = 2 * local * h * f // t
    feed_forward = Part(
        dense=h if model.experts else weights + h,
        experts=weights if model.experts else 0,
        num_ops=4 * routed * h * f // t,
        elements=weights + routed * (2 * h + 2 * f // t),
    )
    return Sizes(
        embedding=Part(vocab * h // t, 0, tokens * h, 2 * tokens * h),
        attention=attention,
        feed_forward=feed_forward,
        router=router,
        output=Part(
            dense=vocab * h // t + h,
            experts=0,
            num_ops=2 * tokens * h * vocab // t,
            elements=tokens * (h + vocab // t) + vocab * h // t,
        ),
        activation_bytes=tokens * h * element_bytes,
        routed_bytes=tokens * model.top_k * h * element_bytes,
        element_bytes=element_bytes,
    )


def work_of(job: TransformerJob, part: Part, passes: int = 1) -> Work:
    """The time of a part: that of its operations or of its bytes, whichever is longer.

    Args:
        job: whose accelerator it runs on.
        part: what is done.
        passes: 1 forward, 2 backward.
    """
    moved = part.elements * ELEMENT_BYTES[job.accelerator.precision] * passes
    return _timed(job, part.num_ops * passes, moved)


def optimizer_work(job: TransformerJob, parameters: int) -> Work:
    """Adam's step on so many parameters of a rank."""
    element_bytes = ELEMENT_BYTES[job.accelerator.precision]
    return _timed(job, _ADAM_OPS * parameters, (_ADAM_BYTES + 2 * element_bytes) * parameters)


def _timed(job: TransformerJob, num_ops: int, moved_bytes: int) -> Work:
    device = job.accelerator
    seconds = max(num_ops / device.flops_per_s, moved_bytes / device.bytes_per_s) / device.efficiency
    lasts_ns = seconds * NS_PER_S
    if not lasts_ns < LARGEST:
        raise ArgumentError("work of a layer lasts longer than 64 bits can say in ns: give smaller sizes")
    return Work(round(lasts_ns), num_ops, moved_bytes)
