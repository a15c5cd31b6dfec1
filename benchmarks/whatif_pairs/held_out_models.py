"""Models and loops of the pairs held out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.whatif_pairs.declare import Step

WIDTH = 384
CLASSES = 100


def classifier(width: int = WIDTH, depth: int = 3) -> nn.Sequential:
    """Hidden layers and classes."""
    hidden = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.SiLU())]
    return nn.Sequential(*hidden, nn.Linear(width, CLASSES))


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor, labels: Tensor) -> None:
    """One step of training of a classifier."""
    optimizer.zero_grad()
    functional.cross_entropy(model(batch), labels).backward()
    optimizer.step()


def training(batch: int = 64, model: nn.Module | None = None, width: int = WIDTH) -> Step:
    """A step of training on a batch that is there."""
    model = model or classifier(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    values, labels = torch.randn(batch, width), torch.randint(CLASSES, (batch,))
    return lambda: learn(model, optimizer, values, labels)
