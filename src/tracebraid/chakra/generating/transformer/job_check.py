"""Whether a transformer can be divided as it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tracebraid.chakra.generating.limits import LARGEST, check_nodes, check_ranks
from tracebraid.chakra.generating.transformer.sizes import ELEMENT_BYTES
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.workloads import TransformerJob

__all__ = ["check_transformer"]


def check_transformer(job: TransformerJob) -> None:
    """Refuse what makes no sense.

    Raises:
        ArgumentError: a size is not positive, or a degree does not divide what it divides.
    """
    for name, value in _counts(job):
        if value < 1:
            raise ArgumentError(f"{name} is {value:,}: give 1 or more")
        if value > LARGEST:
            raise ArgumentError(f"{name} is larger than 64 bits can say: give less")
    if job.ranks < 2:
        raise ArgumentError("the degrees of parallelism make a single rank: give two ranks or more")
    check_ranks(job.ranks)
    for degree, divided in _divisions(job):
        (name, by), (what, count) = degree, divided
        if count % by:
            raise ArgumentError(
                f"{name} of {by:,} does not divide the {count:,} {what}: give a divisor of {count:,}"
            )
    layers = job.model.layers // job.parallelism.pipeline
    check_nodes(layers * job.training.micro_batches * job.training.steps)
    device = job.accelerator
    if not (0 < device.flops_per_s < inf and 0 < device.bytes_per_s < inf and 0 < device.efficiency <= 1):
        raise ArgumentError(
            "an accelerator needs operations and bytes per second above 0, and an efficiency up to 1"
        )
    if device.precision not in ELEMENT_BYTES:
        known = ", ".join(precision.value for precision in ELEMENT_BYTES)
        raise ArgumentError(f"transformers are not trained in {device.precision.value}: give one of {known}")
    _check_experts(job)


def _check_experts(job: TransformerJob) -> None:
    experts, top_k = job.model.experts, job.model.top_k
    if experts > LARGEST:
        raise ArgumentError("experts are more than 64 bits can say: give fewer")
    if experts < 0:
        raise ArgumentError(f"{experts} experts cannot be: give 0 for none")
    if experts and not 1 <= top_k <= experts:
        raise ArgumentError(f"each token goes to {top_k} of {experts} experts: give 1 to {experts}")
    if not experts and job.parallelism.expert > 1:
        raise ArgumentError(
            f"expert parallelism of {job.parallelism.expert} divides experts, and the model has none: give experts"
        )


def _counts(job: TransformerJob) -> Iterator[tuple[str, int]]:
    model, degrees, training = job.model, job.parallelism, job.training
    yield from (
        ("layers", model.layers),
        ("hidden", model.hidden),
        ("heads", model.heads),
        ("vocab", model.vocab),
    )
    yield "the inner size of the feed-forward network", model.ffn_size
    yield from (("data", degrees.data), ("tensor", degrees.tensor))
    yield from (("pipeline", degrees.pipeline), ("expert", degrees.expert))
    yield from (("sequence", training.sequence), ("sequences of a micro-batch", training.sequences))
    yield from (("micro-batches", training.micro_batches), ("steps", training.steps))
    yield "bytes of a bucket", training.bucket_bytes


_Named = tuple[str, int]


def _divisions(job: TransformerJob) -> Iterator[tuple[_Named, _Named]]:
    model, degrees = job.model, job.parallelism
    yield ("heads", model.heads), ("elements of hidden", model.hidden)
    tensor = ("tensor parallelism", degrees.tensor)
    yield tensor, ("heads", model.heads)
    yield tensor, ("inner elements of the feed-forward network", model.ffn_size)
    yield tensor, ("tokens of the vocabulary", model.vocab)
    yield ("pipeline parallelism", degrees.pipeline), ("layers", model.layers)
    if model.experts > 0:
        yield ("expert parallelism", degrees.expert), ("experts", model.experts)
