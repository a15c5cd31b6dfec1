"""Real programs of one process on a GPU, each with a fault or without it; `make(faulty)` gives a step.

Both forms compute the same thing, so the difference of their times is what the fault costs. `clean_*` programs look
suspicious, but without what looks so they are as slow.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from benchmarks.examination.programs import Step

__all__ = ["DEVICE_PROGRAMS"]

_WIDTH = 2048
_ROWS = 4096
_HALF = torch.bfloat16


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def _mlp(width: int = _WIDTH, layers: int = 4) -> nn.Sequential:
    return nn.Sequential(
        *(part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU()))
    ).cuda()


def _training(
    model: nn.Module, inputs: Callable[[], Tensor], after: Callable[[Tensor], None] | None = None
) -> Step:
    """A step of training in bfloat16 with a fused optimizer on the mean of what the model gives."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def train_step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", _HALF):
            loss = model(inputs()).float().mean()
        loss.backward()
        optimizer.step()
        if after is not None:
            after(loss.detach())

    return train_step


def _fixed(*shape: int) -> Callable[[], Tensor]:
    batch = _random(*shape)
    return lambda: batch


def _inference(model: Callable[[Tensor], Tensor], batch: Tensor) -> Step:
    @torch.no_grad()
    def infer() -> None:
        model(batch)

    return infer


@torch.no_grad()
def _replay(model: nn.Module, batch: Tensor) -> Step:
    """Inference as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        model(batch)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(batch)
    return graph.replay


class _Block(nn.Module):
    """A layer of a transformer whose attention is given."""

    def __init__(
        self, attend: Callable[[Tensor, Tensor, Tensor], Tensor], width: int = 1024, heads: int = 16
    ) -> None:
        super().__init__()
        self.attend, self.heads = attend, heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        parts = self.inputs(self.before(tokens)).chunk(3, dim=-1)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = self.attend(query, key, value).transpose(1, 2).reshape(batch, length, width)
        tokens = tokens + self.output(mixed)
        return tokens + self.feed(self.between(tokens))


def _fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


def _written_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(-1).to(value.dtype) @ value


def _transformer(attend: Callable[[Tensor, Tensor, Tensor], Tensor], layers: int = 4) -> nn.Module:
    return nn.Sequential(*(_Block(attend) for _ in range(layers))).cuda()


def loss_read_each_microbatch(faulty: bool) -> Step:
    """The running loss is read on the host after each of many small batches, instead of once."""
    model, parts = _mlp(1024), _random(16, 256, 1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def train_step() -> None:
        total, running = 0.0, torch.zeros((), device="cuda")
        for part in parts:
            loss = model(part).mean()
            loss.backward()
            if faulty:
                total += loss.item()
            else:
                running += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        assert math.isfinite(total if faulty else running.item())

    return train_step


def pageable_batches(faulty: bool) -> Step:
    """Batches of 64 MiB are copied from memory that is not pinned."""
    batches = torch.randn(2, 4096, 4096)
    source = batches if faulty else batches.pin_memory()
    turns = iter(range(10**9))

    def next_batch() -> Tensor:
        return source[next(turns) % 2].to("cuda", non_blocking=not faulty)

    return _training(_mlp(4096), next_batch)


class _Pictures(Dataset[Tensor]):
    def __init__(self, prepared: bool) -> None:
        self.raw = np.random.default_rng(0).integers(0, 255, (256, 3, 128, 128)).astype(np.uint8)
        self.prepared = self._scaled(self.raw).astype(np.float32) if prepared else None

    @staticmethod
    def _scaled(pictures: np.ndarray) -> np.ndarray:
        values = pictures.astype(np.float64) / 255.0
        return (values - values.mean(axis=(-2, -1), keepdims=True)) / values.std(axis=(-2, -1), keepdims=True)

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> Tensor:
        if self.prepared is not None:
            return torch.from_numpy(self.prepared[index])
        return torch.from_numpy(self._scaled(self.raw[index]).astype(np.float32))


def loader_without_workers(faulty: bool) -> Step:
    """Pictures are scaled by the process that trains, instead of once ahead."""

    def forever() -> Callable[[], Tensor]:
        loader = DataLoader(_Pictures(prepared=not faulty), batch_size=64, pin_memory=True)

        def batches() -> Iterator[Tensor]:
            while True:
                yield from loader

        found = batches()
        return lambda: next(found).cuda(non_blocking=True)

    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
    ).cuda()
    return _training(model, forever())


def products_in_float32(faulty: bool) -> Step:
    """Products in full float32, where TF32 would do."""
    torch.backends.cuda.matmul.allow_tf32 = not faulty
    model, batch = _mlp(4096), _random(4096, 4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def train_step() -> None:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()

    return train_step


def attention_by_hand(faulty: bool) -> Step:
    """Attention written as two products and a softmax."""
    model = _transformer(_written_attention if faulty else _fused_attention)
    return _training(model, _fixed(8, 1024, 1024))


def loss_by_sample(faulty: bool) -> Step:
    """A contrastive loss is computed in a loop over the samples, instead of by one product."""
    model = _mlp(1024, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch = _random(128, 1024)

    def contrastive(found: Tensor) -> Tensor:
        scaled = functional.normalize(found, dim=-1)
        if not faulty:
            return (scaled @ scaled.T).logsumexp(-1).mean()
        return torch.stack([(scaled * row).sum(-1).logsumexp(-1) for row in scaled]).mean()

    def train_step() -> None:
        optimizer.zero_grad()
        contrastive(model(batch)).backward()
        optimizer.step()

    return train_step


def optimizer_by_parameter(faulty: bool) -> Step:
    """Adam takes each of 400 parameters alone."""
    model = _mlp(256, 200)
    batch = _random(64, 256)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, **({"foreach": False} if faulty else {"fused": True})
    )

    def train_step() -> None:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()

    return train_step


def small_layers_eager(faulty: bool) -> Step:
    """Fifty small layers are launched op by op, instead of as one CUDA graph."""
    model, batch = _mlp(256, 50), _random(64, 256)
    return _inference(model, batch) if faulty else _replay(model, batch)


def gelu_by_formula(faulty: bool) -> Step:
    """GELU by its formula on large tensors, each op of which reads and writes memory."""
    values = _random(16384, 4096, dtype=_HALF)

    def by_formula(inputs: Tensor) -> Tensor:
        inner = math.sqrt(2 / math.pi) * (inputs + 0.044715 * inputs * inputs * inputs)
        return 0.5 * inputs * (1 + torch.tanh(inner))

    def activate(inputs: Tensor) -> Tensor:
        for _ in range(4):
            inputs = by_formula(inputs) if faulty else functional.gelu(inputs, approximate="tanh")
        return inputs

    return _inference(activate, values)


def chosen_by_mask(faulty: bool) -> Step:
    """Valid positions are picked by a mask, which has to know their number, instead of weighed."""
    model, batch = _mlp(1024, 2), _random(1024, 1024)
    labels = torch.randint(0, 24, (1024,), device="cuda")

    def class_means(found: Tensor) -> Tensor:
        if faulty:
            return torch.stack([found[labels == label].mean(0) for label in range(24)])
        weights = functional.one_hot(labels, 24).float()
        return (weights.T @ found) / weights.sum(0)[:, None]

    @torch.no_grad()
    def evaluate() -> None:
        class_means(model(batch))

    return evaluate


def cache_emptied(faulty: bool) -> Step:
    """The allocator's cache is emptied in each step."""
    return _training(_mlp(), _fixed(_ROWS, _WIDTH), lambda _: torch.cuda.empty_cache() if faulty else None)


def garbage_each_step(faulty: bool) -> Step:
    """The garbage is collected in each step, beside many live objects."""
    kept = [{"row": [number]} for number in range(300_000)]

    def after(_: Tensor) -> None:
        if faulty:
            gc.collect()
        assert kept

    return _training(_mlp(1024), _fixed(1024, 1024), after)


def convolutions_channels_first(faulty: bool) -> Step:
    """Convolutions in half precision over channels-first pictures, which are turned around for the kernels."""
    channels = (64, 128, 128, 256, 256)
    parts = [nn.Conv2d(64, 64, 3, padding=1)]
    for into, out in pairwise(channels):
        parts += [nn.Conv2d(into, out, 3, padding=1), nn.ReLU()]
    form = torch.contiguous_format if faulty else torch.channels_last
    model = nn.Sequential(*parts).cuda().to(memory_format=form)
    batch = _random(32, 64, 56, 56).to(memory_format=form)
    return _training(model, lambda: batch)


def rotated_on_host(faulty: bool) -> Step:
    """NumPy makes the positions' table in each step, instead of once."""

    def table() -> Tensor:
        angles = np.arange(4096)[:, None] / 10000.0 ** (np.arange(0, 1024, 2) / 1024)
        return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)).cuda()

    ready, batch = table(), _random(4096, 1024)
    return _training(_mlp(1024), lambda: batch + (table() if faulty else ready))


def doubles_by_accident(faulty: bool) -> Step:
    """A table from NumPy makes products in double precision."""
    basis = torch.from_numpy(np.random.default_rng(0).standard_normal((2048, 2048))).cuda()
    basis = basis if faulty else basis.float()
    values = _random(2048, 2048)
    return _inference(lambda inputs: (inputs.to(basis.dtype) @ basis).float().relu(), values)


def timed_by_layer(faulty: bool) -> Step:
    """Each layer is timed by itself, for which the host waits for the device."""
    model, batch = _mlp(1024, 12), _random(512, 1024)
    seconds = [0.0] * len(model)

    @torch.no_grad()
    def evaluate() -> None:
        found = batch
        for index, layer in enumerate(model):
            began = time.perf_counter()
            found = layer(found)
            if faulty:
                torch.cuda.synchronize()
            seconds[index] += time.perf_counter() - began

    return evaluate


def metrics_on_host(faulty: bool) -> Step:
    """All scores are copied to the host for an accuracy, instead of one number."""
    model, batch = _mlp(4096, 3), _random(8192, 4096)
    labels = torch.randint(0, 4096, (8192,), device="cuda")
    known = labels.cpu().numpy()

    @torch.no_grad()
    def evaluate() -> None:
        with torch.autocast("cuda", _HALF):
            scores = model(batch).float()
        if faulty:
            assert (scores.cpu().numpy().argmax(-1) == known).mean() <= 1
        else:
            assert (scores.argmax(-1) == labels).float().mean().item() <= 1

    return evaluate


def half_between_layers(faulty: bool) -> Step:
    """Each layer takes float32 and gives it back, and computes in half precision."""
    layers = [nn.Linear(_WIDTH, _WIDTH, dtype=_HALF, device="cuda") for _ in range(8)]

    def network(values: Tensor) -> Tensor:
        for layer in layers:
            values = layer(values.to(_HALF)).float() if faulty else layer(values)
        return values

    batch = _random(16384, _WIDTH, dtype=torch.float32 if faulty else _HALF)
    return _inference(network, batch)


def dense_embedding_gradient(faulty: bool) -> Step:
    """A table of a million rows gets a dense gradient for a few thousand lookups."""
    table = nn.Embedding(1_000_000, 128, sparse=not faulty).cuda()
    optimizer = torch.optim.SGD(table.parameters(), lr=1e-3)
    indices = torch.randint(0, 1_000_000, (4096,), device="cuda")

    def train_step() -> None:
        optimizer.zero_grad()
        table(indices).square().sum().backward()
        optimizer.step()

    return train_step


def checkpointed_needlessly(faulty: bool) -> Step:
    """All layers are computed again in backward, though memory is free."""
    model = _transformer(_fused_attention)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = model

        def forward(self, tokens: Tensor) -> Tensor:
            for block in self.blocks:
                tokens = checkpoint(block, tokens, use_reentrant=False) if faulty else block(tokens)
            return tokens

    return _training(Checkpointed(), _fixed(16, 1024, 1024))


def norms_logged(faulty: bool) -> Step:
    """The norm of each gradient is logged in each step."""
    model = _mlp(512, 40)
    log: list[float] = []

    def log_norms(_: Tensor) -> None:
        if faulty:
            log[:] = [each.grad.norm().item() for each in model.parameters() if each.grad is not None]

    return _training(model, _fixed(256, 512), log_norms)


def sorted_for_top(faulty: bool) -> Step:
    """All candidates are sorted for the ten best."""
    queries, items = _random(256, 256), _random(100_000, 256)

    def rank_candidates(rows: Tensor) -> Tensor:
        scores = rows @ items.T
        return scores.sort(-1, descending=True).indices[:, :10] if faulty else scores.topk(10).indices

    return _inference(rank_candidates, queries)


def noise_from_host(faulty: bool) -> Step:
    """Noise is drawn on the host and copied, instead of drawn on the device."""
    batch = _random(2048, 2048)

    def noisy() -> Tensor:
        return batch + 0.1 * (torch.randn(2048, 2048).cuda() if faulty else torch.randn_like(batch))

    return _training(_mlp(), noisy)


def distances_broadcast(faulty: bool) -> Step:
    """Distances by a difference of all pairs, 512 MiB of it, instead of by a product."""
    left, right = _random(1024, 64), _random(2048, 64)

    def nearest(rows: Tensor) -> Tensor:
        if faulty:
            return (rows[:, None] - right[None]).square().sum(-1).argmin(-1)
        return torch.cdist(rows, right).argmin(-1)

    return _inference(nearest, left)


def tokens_read_one_by_one(faulty: bool) -> Step:
    """A decoder looks on the host at each token, instead of at all at the end."""
    table, cell, head = (
        nn.Embedding(1000, 512).cuda(),
        nn.GRUCell(512, 512).cuda(),
        nn.Linear(512, 1000).cuda(),
    )

    @torch.no_grad()
    def decode() -> None:
        state, token = torch.zeros(32, 512, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")
        texts: list[list[int]] = []
        kept: list[Tensor] = []
        for _ in range(24):
            state = cell(table(token), state)
            token = head(state).argmax(-1)
            if faulty:
                texts.append(token.tolist())
            else:
                kept.append(token)
        if not faulty:
            texts = torch.stack(kept).tolist()

    return decode


def attends_to_grown_cache(faulty: bool) -> Step:
    """Keys and values are concatenated anew for each token, instead of written in place."""
    query = _random(32, 16, 1, 64, dtype=_HALF)
    new = _random(32, 16, 1, 64, dtype=_HALF)
    past = _random(32, 16, 2048, 64, dtype=_HALF)

    @torch.no_grad()
    def generate() -> None:
        keys = past
        room = past.new_empty(32, 16, 2048 + 16, 64)
        room[:, :, :2048] = past
        for index in range(16):
            if faulty:
                keys = torch.cat([keys, new], 2)
            else:
                room[:, :, 2048 + index] = new[:, :, 0]
                keys = room[:, :, : 2049 + index]
            functional.scaled_dot_product_attention(query, keys, keys)

    return generate


def sleeps_for_quota(faulty: bool) -> Step:
    """The loop sleeps after each step."""
    return _training(_mlp(), _fixed(_ROWS, _WIDTH), lambda _: time.sleep(0.01) if faulty else None)


def products_by_head(faulty: bool) -> Step:
    """A tiny product for each of 256 heads, instead of one batched."""
    left, right = _random(256, 64, 64), _random(256, 64, 64)

    def heads(_: Tensor) -> Tensor:
        return (
            torch.stack([a @ b for a, b in zip(left, right, strict=True)])
            if faulty
            else torch.bmm(left, right)
        )

    return _inference(heads, left)


def width_unaligned(faulty: bool) -> Step:
    """Products in half precision whose rows are no multiple of 16 bytes."""
    width = 4093 if faulty else 4096
    left, right = _random(8192, width, dtype=_HALF), _random(width, width, dtype=_HALF)
    return _inference(lambda rows: (rows @ right) @ right, left)


def offloaded_activations(faulty: bool) -> Step:
    """Activations lie in the host's memory between forward and backward, though the device has room."""
    model = _mlp(2048, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    batch = _random(8192, 2048)

    def train_step() -> None:
        optimizer.zero_grad()
        with torch.autograd.graph.save_on_cpu(pin_memory=True) if faulty else torch.enable_grad():
            loss = model(batch).mean()
        loss.backward()
        optimizer.step()

    return train_step


def clean_transformer(faulty: bool) -> Step:
    """Fused attention, bfloat16, a fused optimizer, large products."""
    return _training(_transformer(_fused_attention, 6), _fixed(16, 1024, 1024))


def clean_graph_replay(faulty: bool) -> Step:
    """A CUDA graph that is launched again and again."""
    model, batch = _mlp(2048, 16), _random(4096, 2048, dtype=_HALF)
    model.to(_HALF)
    return _replay(model, batch)


def clean_prefetch(faulty: bool) -> Step:
    """The next batch is copied from pinned memory on a stream of its own, beside the step."""
    batches, stream = torch.randn(2, 4096, 4096).pin_memory(), torch.cuda.Stream()
    turns, ready = iter(range(10**9)), [batches[0].cuda()]

    def next_batch() -> Tensor:
        torch.cuda.current_stream().wait_stream(stream)
        found = ready[0]
        with torch.cuda.stream(stream):
            ready[0] = batches[next(turns) % 2].to("cuda", non_blocking=True)
        found.record_stream(torch.cuda.current_stream())
        return found

    return _training(_mlp(4096), next_batch)


def clean_loss_read_once(faulty: bool) -> Step:
    """The loss is read once at the end of a long step."""

    def log(loss: Tensor) -> None:
        assert math.isfinite(loss.item())

    return _training(_transformer(_fused_attention), _fixed(16, 1024, 1024), log)


def clean_compiled(faulty: bool) -> Step:
    """A chain of elementwise ops, compiled."""
    values = _random(16384, 4096, dtype=_HALF)

    @torch.compile
    def activate(inputs: Tensor) -> Tensor:
        for _ in range(4):
            inner = math.sqrt(2 / math.pi) * (inputs + 0.044715 * inputs * inputs * inputs)
            inputs = 0.5 * inputs * (1 + torch.tanh(inner))
        return inputs

    return _inference(activate, values)


def clean_memory_bound(faulty: bool) -> Step:
    """One pass over large tensors, which is all that there is to do."""
    left, right = _random(16384, 8192), _random(16384, 8192)
    return _inference(lambda rows: torch.add(rows, right, out=rows), left)


DEVICE_PROGRAMS: dict[str, Callable[[bool], Step]] = {
    name: made
    for name, made in list(globals().items())
    if not name.startswith("_") and callable(made) and getattr(made, "__module__", "") == __name__
}
"""By name."""
