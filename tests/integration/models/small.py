"""Small models that are trained for a step: a transformer, a ResNet and a recommender like DLRM."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

Step = Callable[[], None]


class Attention(nn.Module):
    """Attention as products, with fewer heads for keys than for queries where `fused`, by PyTorch's own op."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.inner(x).chunk(3, dim=-1)
        )
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5
            mixed = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)
        return self.outer(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.attention = Attention(width, 2, fused)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Args: reentrant: which kind of checkpoint the blocks run in; None: in none."""

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)
        self.blocks = nn.ModuleList([Block(16, fused=False), Block(16, fused=True)])
        self.reentrant = reentrant

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x) if self.reentrant is None else self.checkpointed(block, x)
        return self.head(x)

    def checkpointed(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """Without the early stop, at which an op begins, and raises before it computes."""
        with set_checkpoint_early_stop(False):
            return checkpoint(block, x, use_reentrant=self.reentrant)


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, padding=2, dilation=2, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)])
        self.shortcut = nn.Conv2d(inner, outer, 1, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(inner)) + self.shortcut(x))


def resnet() -> nn.Module:
    """With a convolution that goes back to a larger picture."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3),
        nn.MaxPool2d(3, stride=2, padding=1),
        Residual(8, 8, 1),
        Residual(8, 12, 2),
        nn.ConvTranspose2d(12, 6, 3, stride=2, padding=1, output_padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
    )


class Recommender(nn.Module):
    """Dense features through layers, sparse ones through tables, and the products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(dense)
        features = torch.stack(
            [bottom, *(table(ids) for table, ids in zip(self.tables, sparse, strict=True))], 1
        )
        pairs = torch.bmm(features, features.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, offset=-1)
        return self.top(torch.cat([bottom, pairs[:, rows, columns]], dim=1))


def transformer_step(reentrant: bool | None = None) -> Step:
    torch.manual_seed(0)
    model, tokens = Transformer(reentrant), torch.randint(50, (2, 7))
    return lambda: functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()


def resnet_step() -> Step:
    model, pictures = resnet(), torch.randn(2, 3, 32, 24)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        functional.cross_entropy(model(pictures), torch.tensor([1, 3])).backward()
        optimizer.step()

    return step


def recommender_step() -> Step:
    model, dense, sparse = Recommender(), torch.randn(4, 5), torch.randint(20, (3, 4, 2))
    target = torch.ones(4, 1)
    return lambda: functional.binary_cross_entropy_with_logits(model(dense, sparse), target).backward()
