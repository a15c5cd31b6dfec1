"""What `tracebraid.generate_chakra` takes: the nouns of synthetic jobs.

from tracebraid.workloads import Parallelism, TrainingSteps, Transformer, TransformerJob
"""

from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.workloads import (
    Accelerator,
    ChainJob,
    CollectiveLink,
    ComputeLink,
    MessageJob,
    MessagePattern,
    Parallelism,
    TrainingSteps,
    Transformer,
    TransformerJob,
)

__all__ = [
    "Accelerator",
    "ChainJob",
    "CollectiveCommType",
    "CollectiveLink",
    "ComputeLink",
    "MessageJob",
    "MessagePattern",
    "Parallelism",
    "TrainingSteps",
    "Transformer",
    "TransformerJob",
]
