"""A small inference server: a decoder with caches that batches continuously, captured and then run under load.

    python -m benchmarks.serving_program FOLDER --requests 300

The capture serves 1, 2 and 4 requests at once. From it the capacity with 8 is predicted, and the server then runs,
unrecorded, at shares of it with requests at random. Machines change their speed within seconds, and recording costs
time: a prediction of a run is scaled by its own decode steps, all of them over what the model says of their batches.
`served.json` has predictions and measurements.

With `--processor-time`, the server's clock is the processor time of its thread, and pauses without requests pass at
once: what else the machine does counts for little.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch.nn import functional
from torch.profiler import record_function

import tracebraid

__all__ = ["LOADS", "PATTERN", "Served"]

WIDTH, HEADS, LAYERS, VOCABULARY = 256, 4, 4, 1000
PROMPT, OUTPUT, LONGEST = 48, (8, 40), 96
MAX_BATCH = 8
CAPTURED = (1, 2, 4)
ROUNDS, STEPS = 4, 30
"""Recorded rounds over the captured batches, and tokens of each request in them."""
LOADS = (0.3, 0.6, 0.8)
PATTERN = r"decode (?P<decode>\d+) of (?P<cached_tokens>\d+)|read (?P<prompt_tokens>\d+)"


@dataclass(frozen=True)
class Served:
    """A run at a rate beside its prediction; times in ms, those predicted end in `_said`.

    Args:
        load: share of the predicted capacity.
        rate: requests in a second.
        step_ms: a decode step of the run, mean.
        level: time of decode steps over those of the trace with the same batches.
        tpot_ms: time per output token: the median of requests.
        ttft_ms: time to the first token: the median of requests.
        ttft_p95_ms: 95th percentile of it.
        batch: sequences in a decode step, mean over time.
    """

    load: float
    rate: float
    step_ms: float
    level: float
    tpot_ms: float
    tpot_ms_said: float
    tpot_ms_low: float
    tpot_ms_high: float
    ttft_ms: float
    ttft_ms_said: float
    ttft_p95_ms: float
    ttft_p95_ms_said: float
    batch: float
    batch_said: float


class Decoder:
    """A decoder with caches for `MAX_BATCH` sequences, of which the first `n` are used."""

    def __init__(self) -> None:
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        shapes = (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)
        self.layers = [[torch.nn.Linear(a, b) for a, b in shapes] for _ in range(LAYERS)]
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        shape = (LAYERS, MAX_BATCH, HEADS, LONGEST, WIDTH // HEADS)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)

    def __call__(self, tokens: torch.Tensor, rows: slice, lengths: torch.Tensor) -> torch.Tensor:
        """The next token of each row, whose caches have `lengths` tokens."""
        with torch.no_grad():
            return self._next(tokens, rows, lengths)

    def _next(self, tokens: torch.Tensor, rows: slice, lengths: torch.Tensor) -> torch.Tensor:
        count, queries = tokens.shape
        places = lengths[:, None] + torch.arange(queries)
        longest = int(lengths.max()) + queries
        mask = (torch.arange(longest) <= places[:, :, None])[:, None]
        index = torch.arange(rows.start, rows.stop)[:, None]
        x = self.embedding(tokens)
        for number, (qkv, out, up, down) in enumerate(self.layers):
            q, k, v = qkv(x).view(count, queries, 3, HEADS, -1).unbind(2)
            keys, values = self.keys[number], self.values[number]
            keys[index, :, places], values[index, :, places] = k, v
            mixed = functional.scaled_dot_product_attention(
                q.transpose(1, 2), keys[rows, :, :longest], values[rows, :, :longest], attn_mask=mask
            )
            x = x + out(mixed.transpose(1, 2).reshape(count, queries, WIDTH))
            x = x + down(functional.gelu(up(x)))
        return self.head(x[:, -1:]).argmax(-1)


@dataclass
class Request:
    """A request: when it arrives, its length, and what came of it; seconds."""

    arrival: float
    output: int
    first: float = 0.0
    end: float = 0.0
    made: int = 0


class Server:
    """Batches continuously: a waiting prompt is read, one in a step, before others decode on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        torch.manual_seed(0)
        self.clock, self.skips = clock, clock is time.thread_time
        self.model = Decoder()
        self.lengths = torch.zeros(MAX_BATCH, dtype=torch.int64)
        self.tokens = torch.zeros(MAX_BATCH, 1, dtype=torch.int64)
        self.prompt = torch.randint(VOCABULARY, (1, PROMPT))
        self.running: list[Request] = []
        self.steps: list[tuple[int, float]] = []
        """Batch and seconds of each decode step since the last `serve`."""

    def serve(self, requests: Sequence[Request]) -> None:
        """Serve requests in the order of their arrivals, which count from now."""
        start, waiting = self.clock(), list(requests)[::-1]
        self.steps = []
        while waiting or self.running:
            now = self.clock() - start
            if waiting and waiting[-1].arrival <= now and len(self.running) < MAX_BATCH:
                request = waiting.pop()
                self.read(request)
                request.first = self.clock() - start
            elif self.running:
                batch = len(self.running)
                self.decode()
                self.steps.append((batch, self.clock() - start - now))
            elif self.skips:
                start -= max(0.0, waiting[-1].arrival - now)
            else:
                time.sleep(max(0.0, waiting[-1].arrival - now))
            self.leave(self.clock() - start)

    def read(self, request: Request) -> None:
        """Read a prompt into the caches."""
        row = len(self.running)
        with record_function(f"read {PROMPT}"):
            self.tokens[row] = self.model(self.prompt, slice(row, row + 1), torch.zeros(1, dtype=torch.int64))
        self.lengths[row] = PROMPT
        self.running.append(request)
        request.made = 1

    def decode(self) -> None:
        """Make a token of each running request."""
        count = len(self.running)
        with record_function(f"decode {count} of {int(self.lengths[:count].sum())}"):
            self.tokens[:count] = self.model(self.tokens[:count], slice(0, count), self.lengths[:count])
        self.lengths[:count] += 1
        for request in self.running:
            request.made += 1

    def leave(self, now: float) -> None:
        """Let requests go that are done; the last takes the place of each."""
        for row in reversed(range(len(self.running))):
            request = self.running[row]
            if request.made < request.output:
                continue
            request.end, last = now, len(self.running) - 1
            self.running[row] = self.running[last]
            for held in (self.lengths, self.tokens):
                held[row] = held[last]
            for cache in (self.model.keys, self.model.values):
                cache[:, row] = cache[:, last]
            self.running.pop()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--processor-time", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    server = Server(time.thread_time if given.processor_time else time.perf_counter)
    disturbed = captured(server, given.folder / "traces")
    trace = tracebraid.open(given.folder / "traces")[0]
    runs, steps = [], []
    for load in LOADS:
        runs.append(served(server, trace, load, given.requests))
        steps += [(batch, took / runs[-1].level) for batch, took in server.steps]
    found = {"disturbed": disturbed, "runs": list(map(asdict, runs)), "batches": by_batch(trace, steps)}
    (given.folder / "served.json").write_text(json.dumps(found, indent=2))


def captured(server: Server, folder: Path) -> float:
    """Capture rounds of a few batches; returns the share of the time in which other work had the core, at worst."""
    worst = 0.0
    with tracebraid.capture(folder, skip_first=1, wait=0, warmup=1, active=ROUNDS, check=False) as capture:
        for number in range(2 + ROUNDS):
            wall, own = time.perf_counter(), time.thread_time()
            for batch in CAPTURED:
                server.serve([Request(0.0, STEPS) for _ in range(batch)])
            if number > 1:
                worst = max(worst, 1 - (time.thread_time() - own) / (time.perf_counter() - wall))
            capture.step()
    return worst


_SAID = {"said": "step_ns", "low": "step_low_ns", "high": "step_high_ns"}


def by_batch(trace: tracebraid.LinkedTrace, steps: Sequence[tuple[int, float]]) -> list[dict[str, float]]:
    """Median decode steps of the runs by batch, in ms of the trace, beside those predicted from it."""
    found = []
    for row in predicted(trace).batches.iter_rows(named=True):
        times = [took for batch, took in steps if batch == row["batch"]]
        said = {f"ms_{name}": row[column] / 1e6 for name, column in _SAID.items()}
        ms = float(np.mean(times)) * 1e3 if times else float("nan")
        found.append({"batch": row["batch"], "recorded": row["steps"], "steps": len(times), "ms": ms, **said})
    return found


def predicted(
    trace: tracebraid.LinkedTrace, scale: float = 1.0, rates: Sequence[float] = (1e-3,)
) -> tracebraid.results.Serving:
    """The prediction of this server on a machine of another speed."""
    return tracebraid.serving(
        trace,
        rates=rates,
        max_batch=MAX_BATCH,
        prompt_tokens=PROMPT,
        output_tokens=f"{OUTPUT[0]}-{OUTPUT[1]}",
        policy="prefill-first",
        step_pattern=PATTERN,
        scale=scale,
        requests=100 if rates == (1e-3,) else 5000,
    )


def served(server: Server, trace: tracebraid.LinkedTrace, load: float, count: int) -> Served:
    """Run at a share of the predicted capacity, and predict that run."""
    alone = predicted(trace)
    step_s = {row["batch"]: row["step_ns"] / 1e9 for row in alone.batches.iter_rows(named=True)}
    server.serve([Request(0.0, STEPS) for _ in range(CAPTURED[-1])])
    rate = load * alone.capacity.item(0, "capacity") / level(server.steps, step_s)
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1 / rate, count)).tolist()
    outputs = rng.integers(OUTPUT[0], OUTPUT[1] + 1, count).tolist()
    requests = [Request(arrival, output) for arrival, output in zip(arrivals, outputs, strict=True)]
    server.serve(requests)
    batches, took = np.array(server.steps).T
    scale = level(server.steps, step_s)
    row = predicted(trace, scale, [rate]).rates.row(0, named=True)
    said = {name: float("nan") if value is None else value for name, value in row.items()}
    counted = requests[count // 10 : count - count // 10]
    first = [(request.first - request.arrival) * 1e3 for request in counted]
    each = [(request.end - request.first) / (request.output - 1) * 1e3 for request in counted]
    return Served(
        load=load,
        rate=rate,
        step_ms=float(took.mean()) * 1e3,
        level=scale,
        tpot_ms=median(each),
        tpot_ms_said=said["tpot_p50_ns"] / 1e6,
        tpot_ms_low=said["tpot_p50_low_ns"] / 1e6,
        tpot_ms_high=said["tpot_p50_high_ns"] / 1e6,
        ttft_ms=median(first),
        ttft_ms_said=said["ttft_p50_ns"] / 1e6,
        ttft_p95_ms=float(np.percentile(first, 95)),
        ttft_p95_ms_said=said["ttft_p95_ns"] / 1e6,
        batch=float((batches * took).sum() / took.sum()),
        batch_said=said["mean_batch"],
    )


def level(steps: Sequence[tuple[int, float]], step_s: Mapping[int, float]) -> float:
    """Time of steps over that of steps of the same batches in the trace."""
    return sum(took for _, took in steps) / sum(step_s[batch] for batch, _ in steps)


if __name__ == "__main__":
    main()
