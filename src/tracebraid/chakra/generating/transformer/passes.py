"""The forward and the backward pass of one micro-batch through a unit.

With tensor parallelism the results of attention and of the feed-forward network are summed over the group,
forward and backward: four all-reduces of the activations for each layer (Shoeybi et al., "Megatron-LM", 2019,
section 3); the embedding is summed likewise, and the loss needs three values of each token. Experts get and
return tokens by two all-to-alls, forward and backward (Fedus et al., "Switch transformers", 2021); each token
is taken to go to another rank as often as to any.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.chakra.generating.program import Lane, Program
from tracebraid.chakra.generating.transformer.layout import Role, size_of
from tracebraid.chakra.generating.transformer.replicas import Replicas
from tracebraid.chakra.generating.transformer.sizes import Part, Sizes, work_of
from tracebraid.chakra.generating.transformer.units import Unit, UnitKind
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.workloads import TransformerJob

__all__ = ["LOSS_VALUES", "LOSS_VALUE_BYTES", "Pass", "backward", "forward"]

LOSS_VALUES = ("maximum", "target", "sum")
"""What the ranks of a tensor parallel group exchange of each token's logits: the largest, that of the target, and the
sum of exponentials."""
LOSS_VALUE_BYTES = 4
"""They are fp32."""
_FORWARD, _BACKWARD = 1, 2
"""How often as much as the forward pass: backward there are gradients of inputs and of weights."""


@dataclass
class Pass:
    """A micro-batch on its way through a stage.

    Args:
        job: what is trained.
        sizes: of its parts.
        program: gets the nodes.
        name: how the names of its nodes begin.
        ready: rows of nodes that the next computation waits for, beside the computation before it.
    """

    job: TransformerJob
    sizes: Sizes
    program: Program
    name: str
    ready: tuple[int, ...] = ()

    def done(self) -> tuple[int, ...]:
        """The rows after which all so far is done."""
        return (*self.program.last(Lane.COMPUTE), *self.ready)

    def compute(self, name: str, part: Part, passes: int, module: str) -> None:
        """The computation of a part."""
        work = work_of(self.job, part, passes)
        self.program.compute(f"{self.name}/{name}", work, self.ready, module)
        self.ready = ()

    def sum_over_tensor(self, name: str, size_bytes: int) -> None:
        """The all-reduce of tensor parallelism, where there is any."""
        self._collective(name, CollectiveCommType.ALL_REDUCE, size_bytes, Role.TENSOR)

    def exchange_tokens(self, name: str) -> None:
        """The all-to-all of expert parallelism, where there is any."""
        self._collective(name, CollectiveCommType.ALL_TO_ALL, self.sizes.routed_bytes, Role.EXPERT)

    def _collective(self, name: str, type: CollectiveCommType, size_bytes: int, role: Role) -> None:
        if size_of(self.job.parallelism, role) > 1:
            row = self.program.collective(f"{self.name}/{name}", type, size_bytes, role.value, self.done())
            self.ready = (row,)


def forward(at: Pass, unit: Unit, name: str) -> None:
    """The forward pass through a unit."""
    sizes, module = at.sizes, unit.module
    if unit.kind is UnitKind.EMBEDDING:
        at.compute(name, sizes.embedding, _FORWARD, module)
        at.sum_over_tensor(f"{name}/all-reduce", sizes.activation_bytes)
    elif unit.kind is UnitKind.OUTPUT:
        at.compute(name, sizes.output, _FORWARD, module)
        tokens = at.job.training.sequence * at.job.training.sequences
        for value in LOSS_VALUES:
            at.sum_over_tensor(f"{name}/loss {value}/all-reduce", LOSS_VALUE_BYTES * tokens)
    else:
        at.compute(f"{name}/attention", sizes.attention, _FORWARD, f"{module}.attention")
        at.sum_over_tensor(f"{name}/attention/all-reduce", sizes.activation_bytes)
        if sizes.router is not None:
            at.compute(f"{name}/router", sizes.router, _FORWARD, f"{module}.router")
            at.exchange_tokens(f"{name}/dispatch")
        at.compute(f"{name}/feed-forward", sizes.feed_forward, _FORWARD, f"{module}.feed_forward")
        if sizes.router is not None:
            at.exchange_tokens(f"{name}/combine")
        at.sum_over_tensor(f"{name}/feed-forward/all-reduce", sizes.activation_bytes)


def backward(at: Pass, unit: Unit, name: str, replicas: Replicas) -> None:
    """The backward pass through a unit; gradients go to the replicas as they are computed."""
    sizes, module = at.sizes, unit.module
    reduced = f"{at.name}/backward"
    if unit.kind is UnitKind.EMBEDDING:
        at.compute(name, sizes.embedding, _FORWARD, module)
        replicas.reduce(reduced, sizes.embedding)
    elif unit.kind is UnitKind.OUTPUT:
        at.compute(name, sizes.output, _BACKWARD, module)
        at.sum_over_tensor(f"{name}/all-reduce", sizes.activation_bytes)
        replicas.reduce(reduced, sizes.output)
    else:
        if sizes.router is not None:
            at.exchange_tokens(f"{name}/combine")
        at.compute(f"{name}/feed-forward", sizes.feed_forward, _BACKWARD, f"{module}.feed_forward")
        if sizes.router is not None:
            at.exchange_tokens(f"{name}/dispatch")
        at.sum_over_tensor(f"{name}/feed-forward/all-reduce", sizes.activation_bytes)
        replicas.reduce(reduced, sizes.feed_forward)
        if sizes.router is not None:
            at.compute(f"{name}/router", sizes.router, _BACKWARD, f"{module}.router")
            replicas.reduce(reduced, sizes.router)
        at.compute(f"{name}/attention", sizes.attention, _BACKWARD, f"{module}.attention")
        at.sum_over_tensor(f"{name}/attention/all-reduce", sizes.activation_bytes)
        replicas.reduce(reduced, sizes.attention)
