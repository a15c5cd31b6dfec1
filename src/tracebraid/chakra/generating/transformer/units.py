"""The units of a stage: what FSDP gathers at once, and checkpointing computes again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tracebraid.chakra.generating.transformer.sizes import Part, Sizes
from tracebraid.model.chakra.workloads import TransformerJob

__all__ = ["Unit", "UnitKind", "units_of_stage"]


class UnitKind(Enum):
    """What a unit is."""

    EMBEDDING = "embedding"
    LAYER = "layer"
    OUTPUT = "output"


@dataclass(frozen=True)
class Unit:
    """A part of the model that is computed as a whole.

    Args:
        kind: what it is.
        layer: its number; None: it is no layer.
        parts: what it consists of, in the order of the forward pass.
    """

    kind: UnitKind
    layer: int | None
    parts: tuple[Part, ...]

    @property
    def is_layer(self) -> bool:
        """Whether it is one of the layers."""
        return self.layer is not None

    @property
    def name(self) -> str:
        """As names of nodes have it."""
        return self.kind.value if self.layer is None else f"{self.kind.value} {self.layer}"

    @property
    def module(self) -> str:
        """The path of its module."""
        return self.kind.value if self.layer is None else f"layers.{self.layer}"

    @property
    def dense(self) -> int:
        """Its parameters outside of experts."""
        return sum(part.dense for part in self.parts)

    @property
    def experts(self) -> int:
        """Its parameters in experts."""
        return sum(part.experts for part in self.parts)


def units_of_stage(job: TransformerJob, sizes: Sizes, stage: int) -> tuple[Unit, ...]:
    """The units of a stage, in the order of the forward pass: its share of the layers, and the ends of the model."""
    stages = job.parallelism.pipeline
    count = job.model.layers // stages
    router = () if sizes.router is None else (sizes.router,)
    parts = (sizes.attention, *router, sizes.feed_forward)
    units = [Unit(UnitKind.LAYER, stage * count + number, parts) for number in range(count)]
    if stage == 0:
        units.insert(0, Unit(UnitKind.EMBEDDING, None, (sizes.embedding,)))
    if stage == stages - 1:
        units.append(Unit(UnitKind.OUTPUT, None, (sizes.output,)))
    return tuple(units)
