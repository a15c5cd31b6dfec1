"""Jobs that are made up instead of traced: what each of their ranks does follows from a few numbers."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from tracebraid.chakra.codes import CollectiveCommType
from tracebraid.model.device_peaks import Precision

DDP_BUCKET_BYTES = 25 * 2**20
"""`bucket_cap_mb` of PyTorch's DistributedDataParallel, by default 25 MiB."""


class ComputeLink(Struct, frozen=True):
    """Work of a device in a chain.

    Args:
        duration_ns: what it takes.
    """

    duration_ns: int


class CollectiveLink(Struct, frozen=True):
    """A collective of all ranks in a chain.

    Args:
        type: what it is.
        size_bytes: as simulators count: of an all-gather what each rank gives, else the whole input of a rank.
        duration_ns: what it took where it was measured; ASTRA-sim replays that of a broadcast.
    """

    type: CollectiveCommType
    size_bytes: int
    duration_ns: int = 0


class ChainJob(Struct, frozen=True):
    """Computation and collectives in turn, the same on every rank.

    Args:
        ranks: how many.
        links: what each rank does, in order.
        repeats: how often it does so; each time is a step.
    """

    ranks: int
    links: tuple[ComputeLink | CollectiveLink, ...]
    repeats: int = 1


class MessagePattern(Enum):
    """A collective by sends and receives."""

    RING_ALL_REDUCE = "ring-all-reduce"
    """Each rank passes parts of the data to the next: reduce-scatter, then all-gather."""
    RING_ALL_GATHER = "ring-all-gather"
    """Each rank passes what it has to the next until all have all."""
    TREE_BROADCAST = "tree-broadcast"
    """From rank 0 along a binomial tree."""
    TREE_REDUCE = "tree-reduce"
    """To rank 0 along the same tree."""
    TREE_ALL_REDUCE = "tree-all-reduce"
    """To rank 0, and back to all."""


class MessageJob(Struct, frozen=True):
    """A collective of all ranks by sends and receives.

    Args:
        pattern: who sends to whom.
        ranks: how many.
        size_bytes: the whole of the data; of an all-gather that of all ranks together.
        repeats: how often, in turn; each time is a step.
    """

    pattern: MessagePattern
    ranks: int
    size_bytes: int
    repeats: int = 1


class Transformer(Struct, frozen=True):
    """A decoder-only transformer without biases, with rotary positions and an output layer of its own.

    Args:
        layers: of attention and feed-forward network.
        hidden: elements of a token between layers.
        heads: of attention.
        vocab: tokens in the vocabulary.
        ffn: inner elements of the feed-forward network; None: four times `hidden`.
        experts: feed-forward networks in each layer, of which a router chooses for each token; 0: one, no router.
        top_k: experts of each token.
    """

    layers: int
    hidden: int
    heads: int
    vocab: int
    ffn: int | None = None
    experts: int = 0
    top_k: int = 2

    @property
    def ffn_size(self) -> int:
        """Inner elements of the feed-forward network."""
        return 4 * self.hidden if self.ffn is None else self.ffn


class Parallelism(Struct, frozen=True):
    """Degrees of parallelism; their product is the number of ranks.

    Args:
        data: replicas of the experts; all other weights have `data * expert` replicas.
        tensor: parts of each matrix (Megatron: columns, then rows).
        pipeline: stages of consecutive layers.
        expert: parts of the experts of each layer.
        fully_sharded: whether replicas share weights, gradients and optimizer (FSDP), instead of having all (DDP).
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    fully_sharded: bool = False

    @property
    def ranks(self) -> int:
        """Return how many ranks the job has."""
        return self.data * self.tensor * self.pipeline * self.expert


class TrainingSteps(Struct, frozen=True):
    """Parameters of training steps.

    Args:
        sequence: tokens of a sequence.
        sequences: in a micro-batch of a rank.
        micro_batches: in a step, of each pipeline.
        steps: how many.
        recompute: whether the backward pass computes the activations of each layer again.
        bucket_bytes: gradients that are reduced together, without `fully_sharded`.
    """

    sequence: int
    sequences: int = 1
    micro_batches: int = 1
    steps: int = 1
    recompute: bool = False
    bucket_bytes: int = DDP_BUCKET_BYTES


class Accelerator(Struct, frozen=True):
    """Peak rates of a device, which determine compute times.

    Args:
        flops_per_s: dense peak.
        bytes_per_s: memory bandwidth.
        efficiency: the share of both that is reached, above 0 up to 1.
        precision: of weights, activations and gradients.
    """

    flops_per_s: float
    bytes_per_s: float
    efficiency: float = 1.0
    precision: Precision = Precision.BF16


class TransformerJob(Struct, frozen=True):
    """The training of a transformer on many ranks.

    Args:
        model: what is trained.
        parallelism: how it is divided.
        training: what a step is.
        accelerator: what each rank computes on.
    """

    model: Transformer
    training: TrainingSteps
    accelerator: Accelerator
    parallelism: Parallelism = field(default_factory=Parallelism)

    @property
    def ranks(self) -> int:
        """Return how many ranks the job has."""
        return self.parallelism.ranks


Workload = ChainJob | MessageJob | TransformerJob
"""Workloads that can be generated."""
