"""Real programs in the way of user code, by an author who has not seen the detectors; `make(faulty)` gives a step.

Both forms compute the same thing. `clean_*` programs look suspicious, but without what looks so they are as slow.
"""

from __future__ import annotations

import copy
import csv
import gc
import hashlib
import io
import json
import logging
import math
import os
import queue
import re
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from benchmarks.examination.programs import Step

__all__ = ["FRESH_JOBS", "FRESH_PROGRAMS"]


class _Classifier(nn.Module):
    """Bag of tokens, two hidden layers, classes."""

    def __init__(self, words: int = 2000, width: int = 256, classes: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.hidden = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.hidden(self.embedding(tokens)).mean(1))


class _Trainer:
    """A small trainer with hooks, as in user code."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)

    def train_step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def _network(width: int, layers: int, out: int = 10) -> nn.Sequential:
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(width, out))


def regex_collate(faulty: bool) -> Step:
    """Texts are tokenized by a regular expression within the collate function of a loader without workers."""
    words = [f"w{number % 1500}" for number in range(4000)]
    texts = [" ".join(words[at % 3000 : at % 3000 + 900]) + "." for at in range(0, 12800, 100)]
    pattern = re.compile(r"\w+|[^\w\s]")
    vocabulary = {word: number % 2000 for number, word in enumerate(sorted({*words, "."}))}

    def tokenize(text: str) -> list[int]:
        return [vocabulary.get(found.lower(), 0) for found in pattern.findall(text)][:64]

    def collate(rows: list[Any]) -> tuple[Tensor, Tensor]:
        found = [tokenize(row) if faulty else row for row in rows]
        return torch.tensor(found), torch.zeros(len(rows), dtype=torch.long)

    dataset: list[Any] = texts if faulty else [tokenize(text) for text in texts]
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=64, collate_fn=collate)  # type: ignore[arg-type, unused-ignore]
    trainer = _Trainer(_Classifier(width=48))
    batches = iter(batch for _ in range(10**6) for batch in loader)

    def step() -> None:
        trainer.train_step(*next(batches))

    return step


def augment_per_sample(faulty: bool) -> Step:
    """Each image is flipped, shifted and brightened by itself, row by row, instead of all at once."""
    images = np.random.default_rng(0).integers(0, 255, (96, 48, 48, 3), dtype=np.uint8)
    shifts: Any = np.arange(96) % 9
    flips: Any = np.arange(96) % 2 == 0

    def augment(image: np.ndarray[Any, Any], shift: int, flip: bool) -> np.ndarray[Any, Any]:
        rows = []
        for row in image:
            moved = np.roll(row, shift, axis=0)
            moved = moved[::-1] if flip else moved
            rows.append(np.clip(moved.astype(np.float32) * 1.1, 0, 255) / 255)
        return np.stack(rows)

    def batch() -> np.ndarray[Any, Any]:
        if faulty:
            return np.stack([augment(*one) for one in zip(images, shifts, flips, strict=True)])
        columns = (np.arange(48) - shifts[:, None]) % 48
        columns[flips] = columns[flips, ::-1]
        moved = np.take_along_axis(images, columns[:, None, :, None], axis=2)
        return np.clip(moved.astype(np.float32) * 1.1, 0, 255) / 255

    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 23 * 23, 10))
    trainer, targets = _Trainer(model), torch.zeros(96, dtype=torch.long)

    def step() -> None:
        trainer.train_step(torch.from_numpy(batch()).permute(0, 3, 1, 2).contiguous(), targets)

    return step


def loss_by_sample(faulty: bool) -> Step:
    """A triplet loss is added up sample by sample, instead of over the batch."""
    encoder = _network(128, 2, 64)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1e-3, foreach=True)
    rows = [torch.randn(96, 128) for _ in range(3)]

    def triplet_loss(anchor: Tensor, near: Tensor, far: Tensor) -> Tensor:
        if not faulty:
            near_by, far_by = (anchor - near).square().sum(1), (anchor - far).square().sum(1)
            return (near_by - far_by + 1).clamp_min(0).mean()
        losses = []
        for index in range(len(anchor)):
            near_by = (anchor[index] - near[index]).square().sum()
            far_by = (anchor[index] - far[index]).square().sum()
            losses.append((near_by - far_by + 1).clamp_min(0))
        return torch.stack(losses).mean()

    def step() -> None:
        optimizer.zero_grad()
        triplet_loss(*(encoder(part) for part in rows)).backward()
        optimizer.step()

    return step


def scores_by_class(faulty: bool) -> Step:
    """Precision and recall of each class are read as Python numbers, class by class."""
    classes = 240
    model, batch = _network(256, 2, classes), torch.randn(512, 256)
    targets = torch.arange(512) % classes

    def f1_scores(found: Tensor) -> float:
        if not faulty:
            hits = torch.bincount(targets[found == targets], minlength=classes)
            both = torch.bincount(found, minlength=classes) + torch.bincount(targets, minlength=classes)
            return float((2 * hits / both.clamp_min(1)).mean())
        scores = []
        for number in range(classes):
            hits = ((found == number) & (targets == number)).sum().item()
            guessed = (found == number).numpy().sum()
            meant = (targets == number).numpy().sum()
            scores.append(2 * hits / max(guessed + meant, 1))
        return float(sum(scores) / classes)

    @torch.no_grad()
    def evaluate() -> None:
        f1_scores(model(batch).argmax(-1))

    return evaluate


def clip_by_parameter(faulty: bool) -> Step:
    """Gradients are clipped parameter by parameter, their norms read as numbers, instead of all together."""
    parameters = [nn.Parameter(torch.randn(48, 48)) for _ in range(360)]
    for parameter in parameters:
        parameter.grad = torch.randn(48, 48) * 1e-3
    product = torch.randn(256, 256)

    def clip_gradients() -> None:
        if not faulty:
            nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            return
        total = 0.0
        for parameter in parameters:
            assert parameter.grad is not None
            total += parameter.grad.detach().data.norm(2).item() ** 2
        factor = min(1.0, 1.0 / (math.sqrt(total) + 1e-6))
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.grad.detach().mul_(factor)

    def step() -> None:
        product @ product
        clip_gradients()

    return step


def average_by_parameter(faulty: bool) -> Step:
    """The moving average of the weights is updated entry by entry of the state, instead of by one foreach op."""
    layers: list[nn.Module] = [part for _ in range(120) for part in (nn.Linear(32, 32), nn.LayerNorm(32))]
    model = nn.Sequential(*layers)
    average = copy.deepcopy(model)
    weights, averages = list(model.parameters()), list(average.parameters())
    product = torch.randn(384, 384)

    @torch.no_grad()
    def update_average() -> None:
        if not faulty:
            torch._foreach_lerp_(averages, weights, 0.01)
            return
        state = model.state_dict()
        for name, value in average.state_dict().items():
            value.copy_(value * 0.99 + state[name] * 0.01)

    def step() -> None:
        product @ product
        update_average()

    return step


def growing_cat(faulty: bool) -> Step:
    """Features are appended to a growing tensor, which is copied each time, instead of once at the end."""
    weight, chunks = torch.randn(128, 128), torch.randn(96, 64, 128)

    @torch.no_grad()
    def collect_features() -> Tensor:
        if not faulty:
            return torch.cat([chunk @ weight for chunk in chunks])
        features = torch.empty(0, 128)
        for chunk in chunks:
            features = torch.cat([features, chunk @ weight])
        return features

    def step() -> None:
        collect_features().mean()

    return step


def prototypes_by_mask(faulty: bool) -> Step:
    """The mean of each class comes from a boolean mask, class by class, instead of one scatter."""
    classes, features = 150, torch.randn(3000, 64)
    labels = torch.arange(3000) * 7 % classes
    product = torch.randn(256, 256)

    @torch.no_grad()
    def prototypes() -> Tensor:
        if faulty:
            return torch.stack([features[labels == number].mean(0) for number in range(classes)])
        sums = torch.zeros(classes, 64).index_add_(0, labels, features)
        return sums / torch.bincount(labels, minlength=classes)[:, None]

    def step() -> None:
        (features @ prototypes().T).argmax(1)
        product @ product

    return step


def half_between_layers(faulty: bool) -> Step:
    """Each layer's output becomes half and then float again, as hooks of a hand-made mixed precision do."""

    def narrow(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output.half()

    def widen(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(one.float() for one in inputs)

    layers = nn.ModuleList(nn.Linear(48, 48) for _ in range(10))
    for layer in layers:
        if faulty:
            layer.register_forward_hook(narrow)
            layer.register_forward_pre_hook(widen)
    batch = torch.randn(8192, 48)

    @torch.no_grad()
    def step() -> None:
        x = batch
        for layer in layers:
            x = layer(x)

    return step


def positions_each_step(faulty: bool) -> Step:
    """The table of sinusoidal positions is computed in Python whenever the model changes its mode: in each step."""

    class Positions(nn.Module):
        table: Tensor

        def __init__(self, length: int, width: int) -> None:
            super().__init__()
            self.length, self.width = length, width
            self.build_table()

        def build_table(self) -> None:
            rows = []
            for position in range(self.length):
                angles = [position / 10_000 ** (2 * (at // 2) / self.width) for at in range(self.width)]
                rows.append([math.cos(a) if at % 2 else math.sin(a) for at, a in enumerate(angles)])
            self.table = torch.tensor(rows)

        def train(self, mode: bool = True) -> Positions:
            super().train(mode)
            if faulty:
                self.build_table()
            return self

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table

    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    model = nn.Sequential(Positions(160, 64), layer, nn.Linear(64, 1))
    batch = torch.randn(4, 160, 64)

    def step() -> None:
        model.train()
        model(batch).mean().backward()
        model.zero_grad()

    return step


def attention_by_head(faulty: bool) -> Step:
    """Attention goes head by head and sample by sample, instead of as one batched op."""
    query, key, value = (torch.randn(16, 16, 16, 32) for _ in range(3))
    project = nn.Linear(512, 512)

    def attend() -> Tensor:
        if not faulty:
            return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        samples = []
        for sample in range(query.shape[0]):
            heads = []
            for head in range(query.shape[1]):
                scores = query[sample, head] @ key[sample, head].T / math.sqrt(32)
                heads.append(scores.softmax(-1) @ value[sample, head])
            samples.append(torch.cat(heads, -1))
        return torch.stack(samples)

    @torch.no_grad()
    def step() -> None:
        project(attend())

    return step


def full_metric_queue(faulty: bool) -> Step:
    """A thread writes metrics slowly, and its queue of one entry is full in each step."""
    entries: queue.Queue[dict[str, float]] = queue.Queue(maxsize=1 if faulty else 0)
    path = Path(tempfile.mkdtemp()) / "metrics.jsonl"

    def write_metrics() -> None:
        with path.open("a") as file:
            while True:
                file.write(json.dumps(entries.get()) + "\n")
                file.flush()
                time.sleep(0.04)

    threading.Thread(target=write_metrics, daemon=True).start()
    trainer = _Trainer(_network(128, 2))
    batch, targets = torch.randn(64, 128), torch.zeros(64, dtype=torch.long)

    def step() -> None:
        loss = trainer.train_step(batch, targets)
        entries.put({"loss": float(loss)})

    return step


def config_fingerprint(faulty: bool) -> Step:
    """The whole configuration is dumped and hashed in each step, for a key of a cache."""
    config = {
        f"block{number}": {f"key{at}": [at, at / 3, str(at)] for at in range(40)} for number in range(50)
    }
    trainer = _Trainer(_network(128, 2))
    batch, targets = torch.randn(64, 128), torch.zeros(64, dtype=torch.long)
    known: dict[str, str] = {}

    def fingerprint() -> str:
        if faulty or "key" not in known:
            text = json.dumps(config, indent=2, sort_keys=True)
            known["key"] = hashlib.sha256(text.encode()).hexdigest()
        return known["key"]

    def step() -> None:
        trainer.train_step(batch, targets)
        fingerprint()

    return step


def event_files(faulty: bool) -> Step:
    """Forty scalars go to an event file in each step, synced to the disk one by one, instead of never."""
    path = Path(tempfile.mkdtemp()) / "events.out"
    trainer = _Trainer(_network(128, 2))
    batch, targets = torch.randn(64, 128), torch.zeros(64, dtype=torch.long)
    file = path.open("wb")

    def add_scalar(tag: str, value: float) -> None:
        record = f"{tag}={value}".encode()
        file.write(struct.pack("<QI", len(record), 0) + record)
        if faulty:
            file.flush()
            os.fsync(file.fileno())

    def step() -> None:
        loss = float(trainer.train_step(batch, targets))
        for number in range(40):
            add_scalar(f"layer{number}/loss", loss)

    return step


def mask_each_step(faulty: bool) -> Step:
    """The same causal mask with distances is made anew in each layer and step, instead of once."""
    heads, length = 8, 256
    slopes = torch.tensor([2.0**-number for number in range(1, heads + 1)])
    tensors = [torch.randn(1, heads, length, 16) for _ in range(3)]

    def causal_bias() -> Tensor:
        at = torch.arange(length)
        distance = (at[None] - at[:, None]).abs().float()
        bias = -distance[None] * slopes[:, None, None]
        hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        return bias.masked_fill(hidden[None], float("-inf"))

    ready = causal_bias()

    @torch.no_grad()
    def step() -> None:
        query, key, value = tensors
        for _ in range(6):
            bias = causal_bias() if faulty else ready
            query = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)

    return step


def dense_adjacency(faulty: bool) -> Step:
    """Messages pass over a graph by a dense matrix that is nearly all zeros, instead of a sparse one."""
    nodes, edges = 1500, 6000
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, nodes, (2, edges), generator=generator)
    adjacency = torch.sparse_coo_tensor(index, torch.ones(edges), (nodes, nodes)).coalesce()
    matrix = adjacency.to_dense() if faulty else adjacency.to_sparse_csr()
    weights = [torch.randn(64, 64) * 0.1 for _ in range(3)]
    features = torch.randn(nodes, 64)

    @torch.no_grad()
    def propagate() -> None:
        x = features
        for weight in weights:
            x = (matrix @ (x @ weight)).relu()

    return propagate


def sort_for_top(faulty: bool) -> Step:
    """All scores are sorted for the first ten, instead of `topk`."""
    logits, weight = torch.randn(16, 128), torch.randn(128, 20_000)

    @torch.no_grad()
    def rank_candidates() -> None:
        scores = logits @ weight
        if faulty:
            torch.sort(scores, dim=-1, descending=True)[0][:, :10]
        else:
            scores.topk(10, dim=-1)

    return rank_candidates


def activations_cloned(faulty: bool) -> Step:
    """Hooks keep a clone of each layer's output on the CPU in each step; nothing reads it before it is replaced."""
    model = _network(24, 12)
    kept: dict[int, Tensor] = {}

    def keep(number: int) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            kept[number] = output.detach().to("cpu").clone() if faulty else output.detach()

        return hook

    for number, layer in enumerate(model):
        layer.register_forward_hook(keep(number))
    batch = torch.randn(16384, 24)

    @torch.no_grad()
    def step() -> None:
        model(batch)

    return step


def best_state_copied(faulty: bool) -> Step:
    """The state of model and optimizer is deep-copied in each step as the best so far, although it is not."""
    trainer = _Trainer(_network(320, 6))
    batch, targets = torch.randn(32, 320), torch.zeros(32, dtype=torch.long)
    best: dict[str, Any] = {}

    def keep_best(loss: Tensor) -> None:
        if faulty or loss < -1:
            best["model"] = copy.deepcopy(trainer.model.state_dict())
            best["optimizer"] = copy.deepcopy(trainer.optimizer.state_dict())

    def step() -> None:
        keep_best(trainer.train_step(batch, targets))

    return step


def saving_each_fourth(faulty: bool) -> Step:
    """Every fourth step waits until a checkpoint is on the disk."""
    trainer = _Trainer(_network(640, 6))
    batch, targets = torch.randn(16, 640), torch.zeros(16, dtype=torch.long)
    path = Path(tempfile.mkdtemp()) / "checkpoint.pt"
    steps = iter(range(10**9))

    def save_checkpoint() -> None:
        state = {"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}
        with path.open("wb") as file:
            torch.save(state, file)
            os.fsync(file.fileno())

    def step() -> None:
        trainer.train_step(batch, targets)
        if next(steps) % 4 == 2 and faulty:
            save_checkpoint()

    return step


def pool_of_threads(faulty: bool) -> Step:
    """Four threads parse the next batch in Python and keep the interpreter's lock from the training thread."""
    lines = [",".join(str((row * at) % 97 / 7) for at in range(128)) for row in range(64)]
    trainer, targets = _Trainer(_network(128, 12)), torch.zeros(64, dtype=torch.long)
    pool = ThreadPoolExecutor(4)

    def parse(line: str) -> list[float]:
        return [float(part) * 0.5 - 1 for part in line.split(",") for _ in range(4)][::4]

    ready = torch.tensor([parse(line) for line in lines])

    def submit() -> list[Future[list[float]]]:
        return [pool.submit(parse, line) for line in lines] if faulty else []

    waiting = [submit()]

    def step() -> None:
        rows = [future.result() for future in waiting[0]]
        waiting[0] = submit()
        trainer.train_step(torch.tensor(rows) if faulty else ready, targets)

    return step


def zeros_kept(faulty: bool) -> Step:
    """Gradients are zeroed and added to, instead of dropped."""
    model = _network(1280, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    batch = torch.randn(4, 1280)

    def step() -> None:
        optimizer.zero_grad(set_to_none=not faulty)
        model(batch).mean().backward()
        optimizer.step()

    return step


def cells_by_hand(faulty: bool) -> Step:
    """A recurrent layer is written as a loop over time with one product for each gate, instead of one for all."""
    steps, rows, width = 40, 16, 64
    inputs = torch.randn(steps, rows, width)
    weights = torch.randn(4 * width, width) * 0.1
    gates = [part.contiguous() for part in weights.chunk(4)]

    def unroll() -> Tensor:
        hidden = cell = torch.zeros(rows, width)
        ahead = functional.linear(inputs, weights)
        for number in range(steps):
            if faulty:
                parts = [
                    functional.linear(inputs[number], gate) + functional.linear(hidden, gate)
                    for gate in gates
                ]
                forget, keep, new, out = parts
            else:
                forget, keep, new, out = (ahead[number] + functional.linear(hidden, weights)).chunk(4, -1)
            cell = forget.sigmoid() * cell + keep.sigmoid() * new.tanh()
            hidden = out.sigmoid() * cell.tanh()
        return hidden

    @torch.no_grad()
    def step() -> None:
        unroll()

    return step


def clean_item_by_microbatch(faulty: bool) -> Step:
    """Losses are read after each of eight microbatches: on the CPU nothing waits for that."""
    model = _network(384, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    batch, targets = torch.randn(64, 384), torch.zeros(64, dtype=torch.long)
    shown: list[float] = []

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(8):
            loss = functional.cross_entropy(model(batch), targets)
            loss.backward()
            if faulty:
                shown.append(loss.item())
        optimizer.step()

    return step


def clean_many_frames(faulty: bool) -> Step:
    """Thousands of calls of tiny Python functions cost little, though a profiler makes them look dear."""
    weight = torch.randn(640, 640)

    def identity(value: int) -> int:
        return value

    def bookkeeping() -> int:
        return sum(identity(number) for number in range(3000 if faulty else 1))

    @torch.no_grad()
    def step() -> None:
        x = weight
        for _ in range(4):
            x = (x @ weight).tanh()
        bookkeeping()

    return step


def clean_chatter(faulty: bool) -> Step:
    """A line of log, a few bytes of JSON, a young collection and a small copy in each step are all cheap."""
    logger = logging.getLogger("fresh")
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.setLevel(logging.INFO)
    logger.propagate = False
    trainer = _Trainer(_network(384, 4))
    batch, targets = torch.randn(384, 384), torch.zeros(384, dtype=torch.long)
    mean = torch.zeros(1, dtype=torch.float64)

    def step() -> None:
        loss = trainer.train_step(batch, targets)
        if faulty:
            mean.mul_(0.9).add_(loss)
            logger.info(json.dumps({"loss": round(loss.item(), 4), "mean": round(mean.item(), 4)}))
            copy.deepcopy(trainer.optimizer.param_groups[0]["betas"])
            gc.collect(0)

    return step


def clean_wide_recurrence(faulty: bool) -> Step:
    """A loop of large cells, each of which needs the one before: no batching is possible."""
    weight, inputs = torch.randn(512, 512) * 0.03, torch.randn(12, 256, 512)

    @torch.no_grad()
    def step() -> None:
        hidden = torch.zeros(256, 512)
        for at in inputs:
            hidden = (at + hidden @ weight).tanh()

    return step


def clean_sleeping_thread(faulty: bool) -> Step:
    """A thread watches the run, and sleeps most of the time: nothing waits for it."""
    lock, seen = threading.Lock(), [0]

    def watch() -> None:
        while faulty:
            with lock:
                seen[0] += 1
            time.sleep(0.005)

    threading.Thread(target=watch, daemon=True).start()
    trainer = _Trainer(_network(384, 4))
    batch, targets = torch.randn(384, 384), torch.zeros(384, dtype=torch.long)

    def step() -> None:
        trainer.train_step(batch, targets)
        with lock:
            seen[0] = 0

    return step


def clean_read_ahead(faulty: bool) -> Step:
    """Batches come from slow storage, but a thread reads them ahead, behind the computing."""
    batch, targets = torch.randn(512, 512), torch.zeros(512, dtype=torch.long)
    ready: queue.Queue[Tensor] = queue.Queue(maxsize=2)

    def read() -> None:
        while True:
            if faulty:
                time.sleep(0.004)
            ready.put(batch)

    threading.Thread(target=read, daemon=True).start()
    trainer = _Trainer(_network(512, 4))

    def step() -> None:
        trainer.train_step(ready.get(), targets)

    return step


def clean_half_weights(faulty: bool) -> Step:
    """Frozen weights of half precision become float in each call: no dearer than reading twice the bytes."""
    kept = torch.float16 if faulty else torch.float32
    weights = [torch.randn(1024, 1024).to(torch.float16).to(kept) for _ in range(6)]
    batch = torch.randn(24, 1024)

    @torch.no_grad()
    def generate() -> None:
        x = batch
        for weight in weights:
            x = functional.linear(x, weight.to(torch.float32)).tanh()

    return generate


def _data_parallel(width: int, layers: int) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    model = DistributedDataParallel(_network(width, layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def train_step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, train_step


def slow_reader(rank: int, faulty: bool) -> Step:
    """Rank 1 reads its shard as text in each step, rank 0 as numbers."""
    folder = Path(tempfile.mkdtemp())
    values = np.random.default_rng(0).standard_normal((96, 128)).astype(np.float32)
    np.save(folder / "shard.npy", values)
    with (folder / "shard.csv").open("w") as file:
        csv.writer(file).writerows(values.tolist())
    _, train_step = _data_parallel(128, 3)

    def read_shard() -> Tensor:
        if faulty and rank == 1:
            with (folder / "shard.csv").open() as file:
                return torch.tensor([[float(part) for part in row] for row in csv.reader(file)])
        return torch.from_numpy(np.load(folder / "shard.npy"))

    def step() -> None:
        train_step(read_shard())

    return step


def metrics_gathered(rank: int, faulty: bool) -> Step:
    """Six dictionaries of metrics are gathered as objects in each step, instead of one tensor."""
    _, train_step = _data_parallel(128, 3)
    batch = torch.randn(128, 128)

    def gather_metrics(loss: Tensor) -> None:
        if not faulty:
            distributed.all_reduce(torch.stack([loss] * 6))
            return
        for number in range(6):
            found: list[Any] = [None, None]
            distributed.all_gather_object(found, {"name": f"metric{number}", "value": loss})

    def step() -> None:
        gather_metrics(train_step(batch))

    return step


def evaluating_rank(rank: int, faulty: bool) -> Step:
    """Rank 0 evaluates alone in each step while the other waits, instead of half each."""
    model, train_step = _data_parallel(192, 4)
    batch, held_out = torch.randn(64, 192), torch.randn(2048, 192)

    @torch.no_grad()
    def evaluate() -> None:
        part = held_out if faulty else held_out.chunk(2)[rank]
        if rank == 0 or not faulty:
            model.module(part).argmax(-1)  # type: ignore[operator, union-attr, unused-ignore]

    def step() -> None:
        train_step(batch)
        evaluate()

    return step


def clean_even_ranks(rank: int, faulty: bool) -> Step:
    """Both ranks compute as much, and reduce once what they have to."""
    _, train_step = _data_parallel(320, 4)
    batch = torch.randn(768, 320)

    def step() -> None:
        train_step(batch)

    return step


FRESH_PROGRAMS: dict[str, Callable[[bool], Step]] = {
    function.__name__: function
    for function in (
        regex_collate,
        augment_per_sample,
        loss_by_sample,
        scores_by_class,
        clip_by_parameter,
        average_by_parameter,
        growing_cat,
        prototypes_by_mask,
        half_between_layers,
        positions_each_step,
        attention_by_head,
        full_metric_queue,
        config_fingerprint,
        event_files,
        mask_each_step,
        dense_adjacency,
        sort_for_top,
        activations_cloned,
        best_state_copied,
        saving_each_fourth,
        pool_of_threads,
        zeros_kept,
        cells_by_hand,
        clean_item_by_microbatch,
        clean_many_frames,
        clean_chatter,
        clean_wide_recurrence,
        clean_sleeping_thread,
        clean_read_ahead,
        clean_half_weights,
    )
}
"""By name."""

FRESH_JOBS: dict[str, Callable[[int, bool], Step]] = {
    function.__name__: function
    for function in (slow_reader, metrics_gathered, evaluating_rank, clean_even_ranks)
}
"""Of two ranks, by name."""
