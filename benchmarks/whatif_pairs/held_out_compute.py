"""Pairs held out, whose change is in what a single process computes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import record_function

from benchmarks.whatif_pairs.declare import Step, pair
from benchmarks.whatif_pairs.held_out_models import CLASSES, WIDTH, classifier, learn, training

OWN_WIDTH = 448
"""Width of the layers whose number changes."""
LOOKUPS = 500
LAYERS = 60


class Residual(nn.Module):
    """A normalized layer around which its input goes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the layer."""
        normal = functional.layer_norm(values, values.shape[-1:])
        return values + functional.silu(functional.linear(normal, self.weight))


@pair("scale 0.5 name=aten::mkldnn_convolution", kind="kernels")
def convolution_halved(changed: bool) -> Step:
    """A convolution beside a classifier; changed, it has half of the channels."""
    images, batch = torch.randn(4, 32, 48, 48), torch.randn(256, WIDTH)
    convolution, model = nn.Conv2d(32, 32 if changed else 64, 3, padding=1, bias=False), classifier()

    @torch.no_grad()
    def step() -> None:
        convolution(images)
        model(batch)

    return step


@pair("scale 2 name=aten::mm", kind="kernels")
def product_in_double(changed: bool) -> Step:
    """A product in single precision; changed, in double."""
    model, batch = classifier(), torch.randn(64, WIDTH)
    dtype = torch.float64 if changed else torch.float32
    left, right = torch.randn(448, 448, dtype=dtype), torch.randn(448, 448, dtype=dtype)

    @torch.no_grad()
    def step() -> None:
        for _ in range(2):
            left @ right
        model(batch)

    return step


@pair("remove name=aten::clone", kind="ops")
def clones_removed(changed: bool) -> Step:
    """Features are cloned before each use; changed, they are not."""
    features, model = torch.randn(2048, WIDTH), classifier()

    @torch.no_grad()
    def step() -> None:
        for _ in range(12):
            (features if changed else features.clone()).amax(0)
        model(features[:256])

    return step


@pair("remove name=aten::mul", kind="ops")
def scaling_fused(changed: bool) -> Step:
    """Elements are scaled and added, one after the other; changed, in a single op."""
    weights, updates = torch.randn(1 << 20), torch.randn(1 << 20)
    model, batch = classifier(), torch.randn(256, WIDTH)

    @torch.no_grad()
    def step() -> None:
        for _ in range(4):
            if changed:
                torch.add(weights, updates, alpha=0.1)
            else:
                weights + updates * 0.1
        model(batch)

    return step


@pair(f"scale {1 / LOOKUPS} within=lookup", kind="ops")
def lookups_batched(changed: bool) -> Step:
    """Rows of a table are looked up one by one; changed, all at once."""
    table, model, batch = nn.Embedding(5000, 64), classifier(), torch.randn(256, WIDTH)
    rows = torch.randint(5000, (LOOKUPS, 1))

    @torch.no_grad()
    def step() -> None:
        with record_function("lookup"):
            if changed:
                table(rows)
            else:
                for row in rows.unbind():
                    table(row)
        model(batch)

    return step


@pair(f"scale {1 / (2 * LAYERS + 2):.4f} within=Optimizer.step#AdamW.step", kind="optimizer")
def adamw_fused(changed: bool) -> Step:
    """AdamW over many small weights, one by one; changed, fused."""
    model = classifier(width=48, depth=LAYERS)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False, fused=changed)
    batch, labels = torch.randn(32, 48), torch.randint(CLASSES, (32,))
    return lambda: learn(model, optimizer, batch, labels)


@pair("remove module=Residual_4,Residual_5", kind="layers", stacks=True)
def blocks_removed(changed: bool) -> Step:
    """Six residual blocks; changed, four."""
    model = nn.Sequential(*(Residual(512) for _ in range(4 if changed else 6)), nn.Linear(512, CLASSES))
    return training(64, model, 512)


@pair(f"scale 1.5 shapes=*{OWN_WIDTH}*{OWN_WIDTH}*", kind="layers")
def layers_by_half_more(changed: bool) -> Step:
    """Four layers of a width of their own; changed, six."""
    layers = [
        part
        for _ in range(6 if changed else 4)
        for part in (nn.Linear(OWN_WIDTH, OWN_WIDTH, bias=False), nn.ReLU())
    ]
    first, last = nn.Linear(300, OWN_WIDTH, bias=False), nn.Linear(OWN_WIDTH, CLASSES, bias=False)
    return training(64, nn.Sequential(first, *layers, last), 300)


@pair("scale 0.5 within=encode", kind="batch")
def batch_halved(changed: bool) -> Step:
    """A transformer's layer encodes sixteen sequences; changed, eight."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model, batch = classifier(), torch.randn(64, WIDTH)
    sequences = torch.randn(8 if changed else 16, 64, 128)

    def step() -> None:
        with record_function("encode"):
            layer(sequences)
        model(batch)

    return step


@pair("scale 2 name=aten::bmm", kind="threads", threads=2)
def threads_halved(changed: bool) -> Step:
    """Products of batches in two threads; changed, in one."""
    if changed:
        torch.set_num_threads(1)
    left, right = torch.randn(8, WIDTH, WIDTH), torch.randn(8, WIDTH, WIDTH)

    def step() -> None:
        for _ in range(2):
            torch.bmm(left, right)

    return step


@pair("remove name=rescore", kind="compile", compiles=True)
def compiled_scores_removed(changed: bool) -> Step:
    """Scores are computed again by a compiled function; changed, they are not."""
    model, batch, scores = classifier(), torch.randn(256, WIDTH), torch.randn(1 << 21)

    @torch.compile
    def rescore(scores: Tensor) -> Tensor:
        return (torch.sigmoid(scores) * 2 - 1).abs().sqrt()

    @torch.no_grad()
    def step() -> None:
        rescore(scores)
        if not changed:
            with record_function("rescore"):
                rescore(scores)
        model(batch)

    return step
