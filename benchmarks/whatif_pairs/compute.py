"""Pairs whose change is in what a single process computes."""

from __future__ import annotations

import math

import torch
from torch.nn import functional
from torch.profiler import record_function

from benchmarks.whatif_pairs.declare import Step, pair
from benchmarks.whatif_pairs.models import FEATURES, mlp, sgd, trained

WIDE = 1536
"""A width that only the layers have which a change is about."""
PRODUCT = 512
SMALL_LAYERS = 64
PARAMETERS = 2 * (SMALL_LAYERS + 2)
"""Of a model of small layers: calls for each become a single call."""
HEADS = 400
CHAIN = 8
"""Operations of a chain, one after the other on all elements."""


@pair(f"scale 0.5 shapes=*{WIDE}*", kind="kernels")
def matmul_halved(changed: bool) -> Step:
    """A pair of wide layers; changed, they are half as wide."""
    width = WIDE // 2 if changed else WIDE
    wide = [torch.nn.Linear(FEATURES, width, bias=False), torch.nn.Linear(width, FEATURES, bias=False)]
    model = torch.nn.Sequential(*wide, torch.nn.Linear(FEATURES, FEATURES))
    optimizer, batch = sgd(model), torch.randn(256, FEATURES)
    return lambda: trained(model, optimizer, batch)


@pair(
    rf"scale 2 name=aten::mm shapes='/{PRODUCT}, ?{PRODUCT}\].*{PRODUCT}, ?{PRODUCT}\]/'",
    kind="kernels",
)
def op_twice(changed: bool) -> Step:
    """A product beside the model; changed, it is computed twice."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    left, right = torch.randn(PRODUCT, PRODUCT), torch.randn(PRODUCT, PRODUCT)

    def step() -> None:
        for _ in range(2 if changed else 1):
            torch.mm(left, right)
        trained(model, optimizer, batch)

    return step


@pair("remove name=aten::pow,aten::mul,aten::add", kind="ops")
def gelu_fused(changed: bool) -> Step:
    """GELU by its formula in eight ops; changed, in one, which computes the same hyperbolic tangent."""
    layers = [torch.nn.Linear(FEATURES, WIDE), torch.nn.Linear(WIDE, FEATURES)]
    batch = torch.randn(128, FEATURES)

    def gelu(values: torch.Tensor) -> torch.Tensor:
        if changed:
            return functional.gelu(values, approximate="tanh")
        inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values.pow(3))
        return 0.5 * values * (1 + torch.tanh(inner))

    @torch.no_grad()
    def step() -> None:
        values = batch
        for _ in range(4):
            values = layers[1](gelu(layers[0](values)))

    return step


@pair(f"scale {1 / HEADS} within=heads", kind="ops")
def heads_batched(changed: bool) -> Step:
    """A tiny product for each head; changed, a single one of all."""
    model, batch = mlp(), torch.randn(256, FEATURES)
    queries, keys = torch.randn(HEADS, 8, 8), torch.randn(HEADS, 8, 8)

    @torch.no_grad()
    def step() -> None:
        with record_function("heads"):
            if changed:
                torch.bmm(queries, keys)
            else:
                for query, key in zip(queries.unbind(), keys.unbind(), strict=True):
                    torch.mm(query, key)
        model(batch)

    return step


@pair(f"scale {1 / PARAMETERS:.3f} name=Optimizer.step#SGD.step", kind="optimizer")
def optimizer_foreach(changed: bool) -> Step:
    """SGD over many small parameters, one after the other; changed, in one call for all."""
    model = mlp(width=32, layers=SMALL_LAYERS)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=0.01, foreach=changed)
    batch = torch.randn(16, FEATURES)
    return lambda: trained(model, optimizer, batch)


@pair(f"scale {1 / PARAMETERS:.3f} within=Optimizer.step#Adam.step", kind="optimizer")
def optimizer_fused(changed: bool) -> Step:
    """Adam over many small parameters, op by op; changed, in one kernel for all."""
    model = mlp(width=32, layers=SMALL_LAYERS)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False, fused=changed)
    batch = torch.randn(64, FEATURES)
    return lambda: trained(model, optimizer, batch)


@pair(f"remove shapes=*{WIDE}*", kind="layers")
def layer_removed(changed: bool) -> Step:
    """Two layers of a width of their own, beside what else there is; changed, they are left out."""
    wide = [torch.nn.Linear(FEATURES, WIDE, bias=False), torch.nn.Linear(WIDE, FEATURES, bias=False)]
    model = torch.nn.Sequential(*([] if changed else wide), *mlp())
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    return lambda: trained(model, optimizer, batch)


class Block(torch.nn.Module):
    """A layer with its activation, and a sum with its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, width) / width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        return values + torch.relu(functional.linear(values, self.weight))


@pair("scale 1.5 module=Block*", kind="layers", stacks=True)
def layers_added(changed: bool) -> Step:
    """Four equal blocks; changed, six."""
    blocks = [Block(512) for _ in range(6 if changed else 4)]
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 512), *blocks, torch.nn.Linear(512, FEATURES))
    optimizer, batch = sgd(model), torch.randn(64, FEATURES)
    return lambda: trained(model, optimizer, batch)


@pair("scale 2 name=aten::addmm,aten::mm,aten::clamp_min,aten::threshold_backward", kind="batch")
def batch_doubled(changed: bool) -> Step:
    """Batches of 64; changed, of 128."""
    model = mlp()
    optimizer, batch = sgd(model), torch.randn(128 if changed else 64, FEATURES)
    return lambda: trained(model, optimizer, batch)


@pair("split 2 name=aten::mm", kind="threads")
def threads_doubled(changed: bool) -> Step:
    """Products in one thread; changed, in two."""
    torch.set_num_threads(2 if changed else 1)
    left, right = torch.randn(640, 640), torch.randn(640, 640)

    def step() -> None:
        for _ in range(2):
            torch.mm(left, right)

    return step


@pair(f"scale {1 / CHAIN} within=chain", kind="compile", compiles=True)
def chain_compiled(changed: bool) -> Step:
    """A chain of ops on many elements, each a pass over memory; changed, compiled to a single pass."""
    model, batch, values = mlp(), torch.randn(256, FEATURES), torch.randn(1 << 21)

    def chain(values: torch.Tensor) -> torch.Tensor:
        for number in range(CHAIN // 2):
            values = values * (1.0 + number) + 0.5
        return values

    run = torch.compile(chain) if changed else chain

    @torch.no_grad()
    def step() -> None:
        with record_function("chain"):
            run(values)
        model(batch)

    return step
