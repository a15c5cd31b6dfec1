"""Models and data that several programs use."""

from __future__ import annotations

import time

import torch
from torch.profiler import record_function

__all__ = ["BATCH", "FEATURES", "Samples", "mlp", "sgd", "trained"]

FEATURES, BATCH, SAMPLES = 256, 4, 4096


class Samples:
    """Samples of which each takes its time to read."""

    def __init__(self, read_s: float) -> None:
        self.read_s = read_s

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        with record_function("read"):
            time.sleep(self.read_s)
        return torch.full((FEATURES,), index / len(self))


def mlp(width: int = 512, layers: int = 2) -> torch.nn.Sequential:
    """Layers of one width, from and to the features of a sample."""
    inner = [layer for _ in range(layers) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, width), torch.nn.ReLU(), *inner, torch.nn.Linear(width, FEATURES)
    )


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(model.parameters(), lr=1e-4)


def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    """One step of training."""
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
