"""Random numbers, a training step, the capture and a digest of results, for a scenario's program."""

from __future__ import annotations

import hashlib
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tracebraid

_CAPTURE = "TRACEBRAID_STRESS_CAPTURE"
"""The variable of the environment with the arguments of `tracebraid.capture`, for a program that captures itself."""


class Network(torch.nn.Module):
    """A small network whose training draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The outputs of some rows."""
        return self.layers(rows)


def digest_of(*values: Any) -> str:
    """A digest of tensors, bit by bit, and of whatever else there is."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            dense = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
            digest.update(f"{dense.dtype} {tuple(dense.shape)} ".encode())
            digest.update(dense.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


@dataclass
class Run:
    """One process of a scenario."""

    seed: int  # of all random numbers
    folder: Path  # for what the program writes
    is_full: bool = False  # whether to do all that is meant

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        self.random = random.Random(self.seed)
        self.options: dict[str, Any] = json.loads(os.environ.get(_CAPTURE, "{}"))
        self._digest = hashlib.sha256()
        self._lock = threading.Lock()
        self._model = Network()
        self._optimizer: Any = None

    @property
    def out_dir(self) -> Path:
        """The capture's folder, also where nothing is captured."""
        return self.folder.parent / "out"

    @contextmanager
    def captured(self, trains: bool = True) -> Iterator[Callable[[], None]]:
        """The context of the program's loop, with what ends each of its steps."""
        work = self.train if trains else self.infer
        if not self.options:
            yield work
            return
        with tracebraid.capture(**self.options) as capture:

            def step() -> None:
                work()
                capture.step()

            yield step

    def train(self) -> None:
        """A step of training, whose loss and gradients are results."""
        if self._optimizer is None:
            self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.05)
        self._optimizer.zero_grad()
        loss = self._model(torch.rand(4, 8)).square().mean()
        loss.backward()
        self.note(loss, *(parameter.grad for parameter in self._model.parameters()))
        self._optimizer.step()

    def infer(self) -> None:
        """A step of inference."""
        with torch.no_grad():
            self.note(self._model(torch.rand(4, 8)))

    def note(self, *values: Any) -> None:
        """These are results; to be called in an order that does not change."""
        with self._lock:
            self._digest.update(digest_of(*values).encode())

    def end(self) -> None:
        """Print the digest of all results, and of the state of the random numbers."""
        self.note(torch.get_rng_state(), random.getstate(), *self._model.parameters())
        print(f"results {self._digest.hexdigest()}", flush=True)
