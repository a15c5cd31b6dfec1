"""Training programs at two shapes, captured in turn: `python -m benchmarks.shape_programs mlp_batch FOLDER --rounds 3`.

What is there already stays. The captures are base_1, changed_1, base_2, ... of the folder; beside the traces they have
`processor_<rank>.json`: seconds of the main thread on a processor in each recorded step.
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

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import tracebraid

__all__ = ["SHAPES", "Shape"]

SKIPPED, WARMUP, STEPS, RANKS = 20, 2, 40, 2
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
        ranks: 1, or 2 with DDP over gloo.
    """

    program: Callable[[Shape], tuple[nn.Module, torch.Tensor, torch.Tensor]]
    batch: int
    layers: int
    width: int
    change: str = ""
    other: tuple[tuple[str, int], ...] = ()
    ranks: int = 1

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
    return replace(shape, ranks=RANKS)


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
}


def training(shape: Shape) -> Callable[[], None]:
    """Make the step of a training loop."""
    torch.manual_seed(0)
    model, given, wanted = shape.program(shape)
    if shape.ranks > 1:
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
        step = training(shape.changed if changed else shape)
        with tracebraid.capture(
            folder, skip_first=SKIPPED, warmup=WARMUP, active=STEPS, check=False
        ) as capture:
            seconds = []
            for _ in range(SKIPPED + WARMUP + STEPS):
                start = time.thread_time()
                step()
                capture.step()
                seconds.append(time.thread_time() - start)
        # The last step holds the writing of the traces.
        (folder / f"processor_{rank}.json").write_text(json.dumps(seconds[SKIPPED + WARMUP : -1]))
        if shape.ranks > 1:
            distributed.barrier()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
