"""Training programs at two shapes, captured in turn: `python -m benchmarks.shape_programs mlp_batch FOLDER --rounds 3`.

What is there already stays. The captures are base_1, changed_1, base_2, ... of the folder; beside the traces they have
`processor_<rank>.json`: seconds of the main thread on a processor in each recorded step. Where two ranks replace one,
the base runs on rank 0 alone, and the changed program has the network's figures, measured before it, in `network.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import tracebraid

__all__ = ["SHAPES", "Shape"]

SKIPPED, WARMUP, STEPS, RANKS = 20, 2, 40, 2
PING_ELEMENTS, PING_ROUNDS, PINGS = (6_144, 24_576, 98_304, 196_608), 5, 40
VOCABULARY, TOKENS, HEADS, CLASSES, PIXELS = 500, 24, 4, 10, 16


@dataclass(frozen=True)
class Shape:
    """A program, the sizes with which it is captured, and the change that leads to the other sizes.

    Args:
        program: makes the model and its input.
        batch: samples.
        layers: repeated blocks.
        width: features, or channels.
        change: as `--change` takes it.
        other: the sizes that differ after the change.
        ranks: 1, or 2 over gloo.
        tensor: ranks over which layers are divided.
        replicas: ranks over which DDP replicates the model.
    """

    program: Callable[[Shape], tuple[nn.Module, torch.Tensor, torch.Tensor]]
    batch: int
    layers: int
    width: int
    change: str = ""
    other: tuple[tuple[str, int], ...] = ()
    ranks: int = 1
    tensor: int = 1
    replicas: int = 1

    @property
    def adds_ranks(self) -> bool:
        """Whether the base has one rank, and the changed program two."""
        return self.ranks > max(self.tensor, self.replicas)

    @property
    def changed(self) -> Shape:
        """The same program at the other shape."""
        other: dict[str, Any] = dict(self.other)
        return replace(self, **other)


def transformer(shape: Shape) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A small language model: embedding, blocks, and a head over the vocabulary."""
    block = nn.TransformerEncoderLayer(shape.width, HEADS, 4 * shape.width, 0.0, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, shape.width),
        nn.TransformerEncoder(block, shape.layers, enable_nested_tensor=False),
        nn.Linear(shape.width, VOCABULARY),
        nn.Flatten(0, 1),
    )
    tokens = torch.randint(VOCABULARY, (shape.batch, TOKENS))
    return model, tokens, torch.randint(VOCABULARY, (shape.batch * TOKENS,))


def mlp(shape: Shape) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Linear layers of one width, from a narrow input to classes."""
    blocks = [nn.Sequential(nn.Linear(shape.width, shape.width), nn.GELU()) for _ in range(shape.layers)]
    model = nn.Sequential(nn.Linear(96, shape.width), nn.GELU(), *blocks, nn.Linear(shape.width, CLASSES))
    return model, torch.randn(shape.batch, 96), torch.randint(CLASSES, (shape.batch,))


def cnn(shape: Shape) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Convolutions of one number of channels, with batch normalisation."""
    blocks = [
        nn.Sequential(
            nn.Conv2d(shape.width, shape.width, 3, padding=1), nn.BatchNorm2d(shape.width), nn.ReLU()
        )
        for _ in range(shape.layers)
    ]
    model = nn.Sequential(
        nn.Conv2d(3, shape.width, 3, padding=1),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(shape.width, CLASSES),
    )
    images = torch.randn(shape.batch, 3, PIXELS, PIXELS)
    return model, images, torch.randint(CLASSES, (shape.batch,))


class _AddedUp(torch.autograd.Function):  # type: ignore[misc]
    """What ranks compute, added up."""

    @staticmethod
    def forward(context: Any, given: torch.Tensor) -> torch.Tensor:
        found = given.contiguous()
        distributed.all_reduce(found)
        return found

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class _Shared(torch.autograd.Function):  # type: ignore[misc]
    """What all ranks use: its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, given: torch.Tensor) -> torch.Tensor:
        return given

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        found = gradient.contiguous()
        distributed.all_reduce(found)
        return found


class Divided(nn.Module):  # type: ignore[misc]
    """A layer beside a residual, of which each rank computes a part.

    Args:
        width: features.
        tensor: number of ranks.
    """

    def __init__(self, width: int, tensor: int) -> None:
        super().__init__()
        self.tensor, self.norm = tensor, nn.LayerNorm(width)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """The layer of the normalised input, and the input."""
        found = self.norm(given)
        if self.tensor == 1:
            return given + self.part(found)
        return given + _AddedUp.apply(self.part(_Shared.apply(found)))

    def part(self, given: torch.Tensor) -> torch.Tensor:
        """What this rank computes."""
        raise NotImplementedError


class FeedForward(Divided):
    """Two linear layers, the first of four times the width."""

    def __init__(self, width: int, tensor: int) -> None:
        super().__init__(width, tensor)
        self.up, self.down = nn.Linear(width, 4 * width // tensor), nn.Linear(4 * width // tensor, width)

    def part(self, given: torch.Tensor) -> torch.Tensor:
        """What the inner features of this rank give."""
        return self.down(nn.functional.gelu(self.up(given)))


class Attention(Divided):
    """Attention of some heads."""

    def __init__(self, width: int, tensor: int) -> None:
        super().__init__(width, tensor)
        self.projections = nn.ModuleList(nn.Linear(width, width // tensor) for _ in range(3))
        self.out = nn.Linear(width // tensor, width)

    def part(self, given: torch.Tensor) -> torch.Tensor:
        """What the heads of this rank give."""
        heads = (
            each(given).unflatten(-1, (HEADS // self.tensor, -1)).transpose(1, 2) for each in self.projections
        )
        return self.out(nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))


def divided_transformer(shape: Shape) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A small language model whose layers can be divided over ranks."""
    layers = [
        kind(shape.width, shape.tensor) for _ in range(shape.layers) for kind in (Attention, FeedForward)
    ]
    head = nn.Linear(shape.width, VOCABULARY)
    model = nn.Sequential(nn.Embedding(VOCABULARY, shape.width), *layers, head, nn.Flatten(0, 1))
    tokens = torch.randint(VOCABULARY, (shape.batch, TOKENS))
    return model, tokens, torch.randint(VOCABULARY, (shape.batch * TOKENS,))


def divided_mlp(shape: Shape) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Residual pairs of linear layers that can be divided over ranks."""
    layers = [FeedForward(shape.width, shape.tensor) for _ in range(shape.layers)]
    model = nn.Sequential(nn.Linear(96, shape.width), *layers, nn.Linear(shape.width, CLASSES))
    return model, torch.randn(shape.batch, 96), torch.randint(CLASSES, (shape.batch,))


_TRANSFORMER = Shape(transformer, batch=8, layers=4, width=128)
_MLP = Shape(mlp, batch=32, layers=4, width=384)
_CNN = Shape(cnn, batch=8, layers=4, width=32)


def _changed(shape: Shape, **other: int) -> Shape:
    """The pair of a shape and the one with one size changed."""
    ((name, size),) = other.items()
    before = getattr(shape, name)
    verb = {"batch": f"scale-batch {size / before:g}", "layers": f"layers {before}->{size}"}
    change = verb.get(name, f"hidden {before}->{size}")
    return replace(shape, change=change, other=tuple(other.items()))


def _on_two(shape: Shape) -> Shape:
    return replace(shape, ranks=RANKS, replicas=RANKS)


def _added(shape: Shape, verb: str, size: str) -> Shape:
    """The pair of a program on one rank, and divided over two or replicated on both."""
    return replace(shape, change=f"{verb} 1->{RANKS}", other=((size, RANKS),), ranks=RANKS)


def _divided(shape: Shape) -> Shape:
    return _added(shape, "tensor", "tensor")


def _replicated(shape: Shape) -> Shape:
    return _added(shape, "data-parallel", "replicas")


SHAPES: dict[str, Shape] = {
    "transformer_batch": _changed(_TRANSFORMER, batch=16),
    "transformer_batch_less": _changed(replace(_TRANSFORMER, batch=16), batch=4),
    "transformer_layers": _changed(_TRANSFORMER, layers=8),
    "transformer_layers_less": _changed(_TRANSFORMER, layers=2),
    "transformer_hidden": _changed(_TRANSFORMER, width=256),
    "mlp_batch": _changed(_MLP, batch=64),
    "mlp_batch_large": _changed(_MLP, batch=128),
    "mlp_layers": _changed(_MLP, layers=8),
    "mlp_hidden": _changed(_MLP, width=768),
    "mlp_hidden_less": _changed(_MLP, width=192),
    "cnn_batch": _changed(_CNN, batch=16),
    "cnn_layers": _changed(_CNN, layers=8),
    "cnn_hidden": _changed(_CNN, width=64),
    "ddp_mlp_batch": _on_two(_changed(_MLP, batch=64)),
    "ddp_mlp_layers": _on_two(_changed(_MLP, layers=8)),
    "ddp_mlp_hidden": _on_two(_changed(_MLP, width=768)),
    "ddp_transformer_batch": _on_two(_changed(_TRANSFORMER, batch=16)),
    "ddp_transformer_layers": _on_two(_changed(_TRANSFORMER, layers=8)),
    "tensor_mlp": _divided(Shape(divided_mlp, batch=128, layers=4, width=384)),
    "tensor_transformer": _divided(Shape(divided_transformer, batch=8, layers=4, width=128)),
    "tensor_transformer_wide": _divided(Shape(divided_transformer, batch=8, layers=4, width=256)),
    "replicas_mlp": _replicated(replace(_MLP, batch=128)),
    "replicas_transformer": _replicated(_TRANSFORMER),
    "replicas_transformer_wide": _replicated(replace(_TRANSFORMER, width=256)),
}


def training(shape: Shape) -> Callable[[], None]:
    """Make the step of a training loop."""
    torch.manual_seed(0)
    model, given, wanted = shape.program(shape)
    if shape.replicas > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        nn.functional.cross_entropy(model(given), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("name", choices=list(SHAPES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    turns = [
        (changed, given.folder / f"{'changed' if changed else 'base'}_{number}")
        for number in range(1, given.rounds + 1)
        for changed in ((False, True) if number % 2 else (True, False))
    ]
    wanted = [(changed, folder) for changed, folder in turns if not folder.exists()]
    shape = SHAPES[given.name]
    if wanted and shape.ranks == 1:
        _capture(shape, wanted, 0)
    elif wanted:
        with tempfile.TemporaryDirectory() as store:
            multiprocessing.spawn(_rank_of_two, (given.name, wanted, Path(store) / "store"), RANKS)


def _rank_of_two(rank: int, name: str, wanted: list[tuple[bool, Path]], store: Path) -> None:
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS)
    _capture(SHAPES[name], wanted, rank)
    distributed.destroy_process_group()


def _capture(shape: Shape, wanted: list[tuple[bool, Path]], rank: int) -> None:
    torch.set_num_threads(1)
    for changed, folder in wanted:
        if shape.adds_ranks and changed:
            network = _network()
        if not shape.adds_ranks or changed or rank == 0:
            _captured(training(shape.changed if changed else shape), folder, rank)
        if shape.adds_ranks and changed and rank == 0:
            (folder / "network.txt").write_text(network)
        if shape.ranks > 1:
            distributed.barrier()


def _captured(step: Callable[[], None], folder: Path, rank: int) -> None:
    with tracebraid.capture(folder, skip_first=SKIPPED, warmup=WARMUP, active=STEPS, check=False) as capture:
        seconds = []
        for _ in range(SKIPPED + WARMUP + STEPS):
            start = time.thread_time()
            step()
            capture.step()
            seconds.append(time.thread_time() - start)
    # The last step holds the writing of the traces.
    (folder / f"processor_{rank}.json").write_text(json.dumps(seconds[SKIPPED + WARMUP : -1]))


def _network() -> str:
    """Bandwidth and latency of all-reduces between products, as `--change` takes them."""
    found = []
    for size in PING_ELEMENTS:
        given, factor = torch.randn(size), torch.randn(256, 256)
        times = []
        for communicates in (True, False) * PING_ROUNDS:
            distributed.barrier()
            start = time.perf_counter()
            for _ in range(PINGS):
                for _ in range(3):
                    factor @ factor
                if communicates:
                    distributed.all_reduce(given)
            times.append((time.perf_counter() - start) / PINGS)
        found.append(min(times[2::2]) - min(times[3::2]))
    # Two ranks send half of the data in each of two turns.
    sizes = [4 * size for size in PING_ELEMENTS]
    seconds_per_byte, seconds = np.polyfit(sizes, found, 1)
    return f"{1 / max(seconds_per_byte, 1e-12) / 1e9:.6f}GB/s,{max(seconds, 0.0) / 2 * 1e6:.3f}us"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
