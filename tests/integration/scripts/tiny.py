"""A tiny model, and a step of its training."""

import torch
from descent import SGD

torch.set_num_threads(1)


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def make_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return SGD(model.parameters(), lr=0.1)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """One step."""
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
