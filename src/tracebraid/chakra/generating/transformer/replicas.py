"""What replicas of the weights exchange: gradients in buckets (DDP), or weights and gradients of each unit (FSDP).

DDP reduces gradients in the last micro-batch of a step (`no_sync` in the others), in the order in which they
are computed; a bucket is reduced when it has reached its size (Li et al., "PyTorch distributed", 2020). FSDP
gathers the weights of a unit before each use, forward and backward, and scatters the sum of its gradients in
each micro-batch (Zhao et al., "PyTorch FSDP", 2023; ZeRO stage 3): for each pass through the model three
times (n - 1) / n of its bytes cross the network.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tracebraid.chakra.generating.program import Lane, Program
from tracebraid.chakra.generating.transformer.layout import Role, size_of
from tracebraid.chakra.generating.transformer.sizes import ELEMENT_BYTES, Part
from tracebraid.chakra.generating.transformer.units import Unit
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.workloads import TransformerJob

__all__ = ["Replicas"]


@dataclass(frozen=True)
class Replicas:
    """The exchange between replicas.

    Args:
        job: what is trained.
        program: gets the nodes.
        reduces: whether gradients are reduced in this pass, if they are not sharded.
    """

    job: TransformerJob
    program: Program
    reduces: bool = True
    _pending: dict[Role, int] = field(default_factory=dict)
    """Bytes of the bucket that is being filled."""

    def of_pass(self, is_last: bool) -> Replicas:
        """That of the backward pass of a micro-batch: only the last of a step reduces gradients."""
        return replace(self, reduces=is_last)

    def reduce(self, name: str, part: Part) -> None:
        """Take the gradients of a part that was computed; reduce the bucket that they fill."""
        if self.job.parallelism.fully_sharded or not self.reduces:
            return
        for role, parameters in self._shared(part.dense, part.experts):
            self._pending[role] = self._pending.get(role, 0) + parameters * self._element_bytes()
            if self._pending[role] >= self.job.training.bucket_bytes:
                self._flush(name, role)

    def reduce_rest(self, name: str) -> None:
        """Reduce the buckets that are not full: the pass is over."""
        for role in list(self._pending):
            self._flush(name, role)

    def gather(self, name: str, unit: Unit) -> tuple[int, ...]:
        """Gather the weights of a unit, where they are sharded.

        Returns:
            The rows of the nodes.
        """
        rows = []
        for role, shard_bytes in self._shards(unit):
            label = f"{name}/{unit.name}/{role.value} all-gather"
            rows.append(
                self.program.collective(
                    label,
                    CollectiveCommType.ALL_GATHER,
                    shard_bytes,
                    role.value,
                    self.program.last(Lane.COMPUTE),
                )
            )
        return tuple(rows)

    def scatter(self, name: str, unit: Unit) -> None:
        """Sum the gradients of a unit and keep a shard of them, where they are sharded."""
        for role, shard_bytes in self._shards(unit):
            label = f"{name}/{unit.name}/{role.value} reduce-scatter"
            whole_bytes = shard_bytes * size_of(self.job.parallelism, role)
            after = self.program.last(Lane.COMPUTE)
            self.program.collective(label, CollectiveCommType.REDUCE_SCATTER, whole_bytes, role.value, after)

    def parameters(self, units: tuple[Unit, ...]) -> int:
        """Those that the optimizer of a rank updates."""
        total = sum(unit.dense + unit.experts for unit in units)
        if not self.job.parallelism.fully_sharded:
            return total
        shared = [pair for unit in units for pair in self._shared(unit.dense, unit.experts)]
        kept = sum(self._shard(parameters, role) for role, parameters in shared)
        return total - sum(parameters for _, parameters in shared) + kept

    def _flush(self, name: str, role: Role) -> None:
        size_bytes = self._pending.pop(role)
        after = self.program.last(Lane.COMPUTE)
        label = f"{name}/{role.value} all-reduce"
        self.program.collective(label, CollectiveCommType.ALL_REDUCE, size_bytes, role.value, after)

    def _shards(self, unit: Unit) -> list[tuple[Role, int]]:
        """The groups that share the weights of a unit, and the bytes of each rank."""
        if not self.job.parallelism.fully_sharded:
            return []
        return [
            (role, self._shard(parameters, role) * self._element_bytes())
            for role, parameters in self._shared(unit.dense, unit.experts)
        ]

    def _shared(self, dense: int, experts: int) -> list[tuple[Role, int]]:
        """The groups that have these parameters in common, and how many."""
        if self.job.parallelism.expert == 1:
            dense, experts = dense + experts, 0
        both = ((Role.DATA, dense), (Role.EXPERT_DATA, experts))
        return [(role, count) for role, count in both if count and size_of(self.job.parallelism, role) > 1]

    def _shard(self, parameters: int, role: Role) -> int:
        """Padded, so that all ranks have as much."""
        return -(-parameters // size_of(self.job.parallelism, role))

    def _element_bytes(self) -> int:
        return ELEMENT_BYTES[self.job.accelerator.precision]
