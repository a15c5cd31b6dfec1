"""Real programs of one process, each with a fault or without it: `make(name, faulty)` gives a step to repeat.

Both forms of a program compute the same thing, so the difference of their step times is what the fault costs.
"""

from __future__ import annotations

import copy
import gc
import io
import logging
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

__all__ = ["PROGRAMS", "Step"]

Step = Callable[[], None]

_WIDTH = 256
_BATCH = 256


def _mlp(width: int = _WIDTH, layers: int = 4) -> nn.Sequential:
    return nn.Sequential(
        *(part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())), nn.Linear(width, 1)
    )


def _training(model: nn.Module, inputs: Callable[[], Tensor], after: Step = lambda: None) -> Step:
    """A step of training by SGD on the mean of what the model gives; `after` follows it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs()).mean().backward()
        optimizer.step()
        after()

    return step


def _fixed(*shape: int) -> Callable[[], Tensor]:
    batch = torch.randn(*shape)
    return lambda: batch


class _Rows(Dataset[Tensor]):
    def __init__(self, prepare: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> None:
        self.rows = np.random.default_rng(0).standard_normal((4096, _WIDTH)).astype(np.float32)
        self.prepare = prepare

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.prepare(self.rows[index]))


def _forever(loader: Iterable[Tensor]) -> Callable[[], Tensor]:
    def batches() -> Iterable[Tensor]:
        while True:
            yield from loader

    found = iter(batches())
    return lambda: next(found)


def data_loader(faulty: bool) -> Step:
    """Each sample is standardized value by value while the step waits, instead of once ahead."""

    def standardize(row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        mean = sum(float(value) for value in row) / len(row)
        return np.array([float(value) - mean for value in row], dtype=np.float32)

    dataset = _Rows(standardize if faulty else lambda row: row)
    return _training(_mlp(), _forever(DataLoader(dataset, batch_size=_BATCH)))


def collator(faulty: bool) -> Step:
    """The collator copies tokens one by one into the padded batch, instead of rows."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(100, 128, (512,), generator=generator).tolist()
    texts = [torch.randint(0, 1000, (length,), generator=generator) for length in lengths]

    def pad_by_token(rows: list[Tensor]) -> Tensor:
        padded = torch.zeros(len(rows), 128, dtype=torch.long)
        for row, tokens in enumerate(rows):
            for column, token in enumerate(tokens.tolist()):
                padded[row, column] = token
        return padded

    def pad_by_row(rows: list[Tensor]) -> Tensor:
        return functional.pad(nn.utils.rnn.pad_sequence(rows, batch_first=True), (0, 28))[:, :128]

    loader: DataLoader[Any] = DataLoader(
        texts,  # type: ignore[arg-type, unused-ignore]
        batch_size=32,
        collate_fn=pad_by_token if faulty else pad_by_row,
    )
    model = nn.Sequential(
        nn.Embedding(1000, 64), nn.Flatten(), nn.Linear(128 * 64, 256), nn.ReLU(), nn.Linear(256, 1)
    )
    return _training(model, _forever(loader))


def preprocess_in_step(faulty: bool) -> Step:
    """Images are normalized and rescaled by NumPy in double precision within each step, instead of once."""
    images = np.random.default_rng(0).integers(0, 255, (32, 3, 96, 96)).astype(np.uint8)

    def preprocess() -> Tensor:
        scaled = images.astype(np.float64) / 255.0
        mean, spread = scaled.mean(axis=(0, 2, 3), keepdims=True), scaled.std(axis=(0, 2, 3), keepdims=True)
        return torch.from_numpy(((scaled - mean) / spread).astype(np.float32))

    ready = preprocess()
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 1)
    )
    return _training(model, preprocess if faulty else lambda: ready)


def garbage_collection(faulty: bool) -> Step:
    """The garbage is collected in each step, beside many live objects."""
    kept = [{"row": [number]} for number in range(200_000)]

    def after() -> None:
        if faulty:
            gc.collect()
        assert kept

    return _training(_mlp(), _fixed(_BATCH, _WIDTH), after)


def leak(faulty: bool) -> Step:
    """Each step's loss is kept together with its graph."""
    losses: list[Tensor] = []
    model, batch = _mlp(), torch.randn(_BATCH, _WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        hidden = model[:-1](batch)
        loss = model[-1](hidden).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss if faulty else loss.detach())

    return step


def oversubscription(faulty: bool) -> Step:
    """Sixteen times as many threads as there are cores."""
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores * 16 if faulty else cores)
    return _training(_mlp(), _fixed(_BATCH, _WIDTH))


def wrong_affinity(faulty: bool) -> Step:
    """All threads are pinned to one core."""
    cores = sorted(os.sched_getaffinity(0))
    torch.set_num_threads(len(cores))
    if faulty:
        os.sched_setaffinity(0, cores[:1])
    return _training(_mlp(512), _fixed(512, 512))


def no_kv_cache(faulty: bool) -> Step:
    """Each new token recomputes keys and values of all tokens before it."""
    width, new = 256, 24
    query, key, value = (nn.Linear(width, width) for _ in range(3))
    prompt = torch.randn(1, 232, width)

    def attend(asked: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        heads = [part.unflatten(-1, (8, -1)).transpose(1, 2) for part in (asked, keys, values)]
        return functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)

    @torch.no_grad()
    def step() -> None:
        tokens, keys, values = prompt, key(prompt), value(prompt)
        for _ in range(new):
            if faulty:
                out = attend(query(tokens), key(tokens), value(tokens))[:, -1:]
            else:
                out = attend(query(tokens[:, -1:]), keys, values)
                keys, values = torch.cat([keys, key(out)], 1), torch.cat([values, value(out)], 1)
            tokens = torch.cat([tokens, out], 1)

    return step


def tiny_ops(faulty: bool) -> Step:
    """Rows are scaled and added one by one."""
    rows, weights = torch.randn(1000, 64), torch.rand(1000, 1)

    def step() -> None:
        if faulty:
            total = torch.zeros(64)
            for row in range(len(rows)):
                total = total + rows[row] * weights[row]
        else:
            total = (rows * weights).sum(0)
        (total @ total).sqrt()
        rows @ rows.T

    return step


def unfused_optimizer(faulty: bool) -> Step:
    """Adam updates 300 small parameters one by one."""
    parameters = [nn.Parameter(torch.randn(64, 64)) for _ in range(300)]
    for parameter in parameters:
        parameter.grad = torch.randn(64, 64)
    optimizer = torch.optim.Adam(parameters, foreach=False, fused=not faulty)
    product = torch.randn(512, 512)

    def step() -> None:
        product @ product
        optimizer.step()

    return step


def recompilation(faulty: bool) -> Step:
    """A compiled function sees a new number of rows in each step."""
    torch._dynamo.config.recompile_limit = 1_000
    model = torch.compile(_mlp(), backend="aot_eager", dynamic=False)
    rows = iter(range(_BATCH, 10**6))

    def step() -> None:
        count = next(rows) if faulty else _BATCH
        model(torch.ones(count, _WIDTH)).mean().backward()

    return step


def graph_break(faulty: bool) -> Step:
    """A print of each layer breaks a compiled function into parts that cannot be fused."""
    x = torch.randn(1 << 18)

    def run(value: Tensor) -> Tensor:
        for _ in range(12):
            value = torch.sin(value) * 0.5 + torch.cos(value) * 0.25
            if faulty:
                torch._dynamo.graph_break()
        return value

    compiled = torch.compile(run)

    def step() -> None:
        with torch.no_grad():
            compiled(x)

    return step


def checkpoint_saving(faulty: bool) -> Step:
    """The model is saved at the end of every step."""
    model = _mlp(768)
    folder = tempfile.mkdtemp()

    def save() -> None:
        if faulty:
            torch.save(model.state_dict(), f"{folder}/model.pt")

    return _training(model, _fixed(64, 768), save)


def slow_logging(faulty: bool) -> Step:
    """Each step writes the first weights and gradients as text."""
    logger = logging.getLogger("examination")
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.setLevel(logging.INFO)
    logger.propagate = False
    model = _mlp()

    def after() -> None:
        if faulty:
            for name, parameter in model.named_parameters():
                logger.info("%s %s", name, parameter.detach().flatten()[:500].tolist().__repr__())
                logger.info("%s %s", name, str(parameter.grad))

    return _training(model, _fixed(_BATCH, _WIDTH), after)


def tokenizer_in_loop(faulty: bool) -> Step:
    """Texts become tokens in each step, by merging pairs in Python."""
    text = "the quick brown fox jumps over the lazy dog and runs away " * 200
    merges = {(a, b): a + b for a, b in pairwise(text) if a != " " and b != " "}

    def tokenize() -> Tensor:
        words = []
        for word in text.split():
            parts = list(word)
            while len(parts) > 1:
                at = next((i for i, pair in enumerate(pairwise(parts)) if pair in merges), None)
                if at is None:
                    break
                parts[at : at + 2] = [merges[parts[at], parts[at + 1]]]
            words.extend(parts)
        hashed = [sum(map(ord, word)) * 31 % 1000 for word in words]
        return torch.tensor(hashed[:256] * 4).reshape(4, -1)

    ready = tokenize()
    model = nn.Sequential(nn.Embedding(1000, 128), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1))
    return _training(model, tokenize if faulty else lambda: ready)


def lock_held(faulty: bool) -> Step:
    """A thread that writes statistics holds the lock that each step needs."""
    lock = threading.Lock()

    def write() -> None:
        while True:
            if faulty:
                with lock:
                    time.sleep(0.03)
            time.sleep(0.001)

    threading.Thread(target=write, daemon=True).start()

    def after() -> None:
        with lock:
            pass

    return _training(_mlp(), _fixed(_BATCH, _WIDTH), after)


def io_wait(faulty: bool) -> Step:
    """Activations go to a file and come back, as if memory were swapped."""
    path = Path(tempfile.mkdtemp()) / "activations"
    activations = torch.randn(1 << 20)

    def after() -> None:
        if faulty:
            with path.open("wb") as file:
                file.write(activations.numpy().tobytes())
                os.fsync(file.fileno())

    return _training(_mlp(), _fixed(_BATCH, _WIDTH), after)


def double_by_accident(faulty: bool) -> Step:
    """A scale from NumPy makes the whole model's input double."""
    kind = torch.float64 if faulty else torch.float32
    return _training(_mlp(512).to(kind), lambda: torch.ones(512, 512, dtype=kind))


def broadcast_distances(faulty: bool) -> Step:
    """Distances come from a broadcast difference of all pairs, instead of a product."""
    points = torch.randn(384, 128)

    def step() -> None:
        if faulty:
            squares = (points[:, None] - points[None]).square().sum(-1)
        else:
            norms = points.square().sum(-1)
            squares = norms[:, None] + norms - 2 * points @ points.T
        squares.clamp_min(0).sqrt().argsort(-1)

    return step


def layout_copies(faulty: bool) -> Step:
    """Each layer of a channels-last model is given a copy in the other layout."""
    layers = nn.ModuleList(nn.Conv2d(32, 32, 1) for _ in range(6)).to(memory_format=torch.channels_last)
    image = torch.randn(8, 32, 64, 64).contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def step() -> None:
        x = image
        for layer in layers:
            if faulty:
                x = x.contiguous().contiguous(memory_format=torch.channels_last)
            x = layer(x).relu()

    return step


def needless_recomputation(faulty: bool) -> Step:
    """Activations are computed again in backward, though memory is plentiful."""
    blocks = nn.ModuleList(_mlp(384, 3)[:-1] for _ in range(4))
    batch = torch.randn(256, 384, requires_grad=True)

    def step() -> None:
        x = batch
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if faulty else block(x)
        x.mean().backward()

    return step


def sleep_in_step(faulty: bool) -> Step:
    """A poll for a flag sleeps in each step."""

    def poll() -> None:
        if faulty:
            time.sleep(0.02)

    return _training(_mlp(), _fixed(_BATCH, _WIDTH), poll)


def averaged_by_deepcopy(faulty: bool) -> Step:
    """The average of weights deep-copies the model in each step."""
    model = _mlp(512)
    average = copy.deepcopy(model)

    @torch.no_grad()
    def after() -> None:
        source = copy.deepcopy(model) if faulty else model
        torch._foreach_lerp_(list(average.parameters()), list(source.parameters()), 0.01)

    return _training(model, _fixed(64, 512), after)


def dense_embedding_gradient(faulty: bool) -> Step:
    """A table of 100,000 rows gets a dense gradient for a few rows."""
    table = nn.Embedding(100_000, 64, sparse=not faulty)
    tokens = torch.arange(256)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        table(tokens).mean().backward()
        optimizer.step()

    return step


def metric_by_item(faulty: bool) -> Step:
    """A confusion matrix is filled value by value."""
    targets = torch.arange(256) % 10
    model = nn.Sequential(*_mlp()[:-1], nn.Linear(_WIDTH, 10))
    batch = torch.randn(_BATCH, _WIDTH)

    @torch.no_grad()
    def step() -> None:
        found = model(batch).argmax(-1)
        if faulty:
            matrix = torch.zeros(10, 10)
            for target, predicted in zip(targets, found, strict=True):
                matrix[target.item(), predicted.item()] += 1
        else:
            matrix = torch.bincount(targets * 10 + found, minlength=100).reshape(10, 10)
        matrix.sum()

    return step


def clean_training(faulty: bool) -> Step:
    """Nothing to mend: products."""
    return _training(_mlp(1024, 3), _fixed(512, 1024))


def clean_attention(faulty: bool) -> Step:
    """Nothing to mend: an encoder."""
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    return _training(nn.Sequential(layer, nn.Linear(256, 1)), _fixed(8, 128, 256))


def clean_inference(faulty: bool) -> Step:
    """Nothing to mend: convolutions without gradients."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()).eval()
    batch = torch.randn(4, 3, 64, 64)

    @torch.inference_mode()
    def step() -> None:
        model(batch)

    return step


def varied_lengths(faulty: bool) -> Step:
    """Batches are padded to the longest of all texts, of which most are short."""
    lengths = [math.ceil(512 / (rank + 1)) for rank in range(8)]
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)

    def step() -> None:
        for length in lengths:
            layer(torch.ones(2, 512 if faulty else length, 128)).mean().backward()

    return step


PROGRAMS: dict[str, Callable[[bool], Step]] = {
    function.__name__: function
    for function in (
        data_loader,
        collator,
        preprocess_in_step,
        garbage_collection,
        leak,
        oversubscription,
        wrong_affinity,
        no_kv_cache,
        tiny_ops,
        unfused_optimizer,
        recompilation,
        graph_break,
        checkpoint_saving,
        slow_logging,
        tokenizer_in_loop,
        lock_held,
        io_wait,
        double_by_accident,
        broadcast_distances,
        layout_copies,
        needless_recomputation,
        sleep_in_step,
        averaged_by_deepcopy,
        dense_embedding_gradient,
        metric_by_item,
        varied_lengths,
        clean_training,
        clean_attention,
        clean_inference,
    )
}
