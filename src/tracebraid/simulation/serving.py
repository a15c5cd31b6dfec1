"""An inference server under load: requests arrive at random, and steps take the time that the trace shows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.answers.serving import SERVING_BATCHES, SERVING_CAPACITY, SERVING_RATES
from tracebraid.model.column import Table
from tracebraid.model.quantities import NS_PER_S
from tracebraid.model.serving import Serving, ServingNote, ServingPolicy
from tracebraid.simulation.step_times import StepModel, Steps, fit_steps, possible_models

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

Length = str | int | Sequence[int]
"""Lengths of prompts or outputs: see `lengths`."""

_LOADS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Default arrival rates, as shares of the largest capacity."""
_EDGE = 0.1
"""Share of the requests at the start and at the end that do not count: the server is emptier there than between."""
_INTERVAL = (10, 90)
"""Percentiles of intervals."""
_NOISE_STEPS = 1 << 16
_DIGITS = 6
_RUN = 16
"""Measured steps that follow each other in the simulated noise, too: slow steps come in rows."""
_SATURATED = 20
"""Batches that a server without pause is simulated for, at least, to find its capacity."""
_LEAST_SATURATED = 400


class Load(Struct, frozen=True):
    """What arrives, and how the server takes it: the arguments of `tracebraid.serving`."""

    rates: Sequence[float] = ()
    max_batch: Sequence[int] = ()
    prompt_tokens: Length | None = None
    output_tokens: Length | None = None
    policy: ServingPolicy | None = None
    step_tokens: int | None = None
    requests: int = 5000
    scale: float = 1.0
    seed: int = 0


class _Requests(Struct, frozen=True, eq=False):
    """Requests in the order of their arrival; gaps have a mean of 1."""

    gaps: _Floats
    prompts: list[int]
    outputs: list[int]


class _Server(Struct, frozen=True, eq=False):
    """A server: its model, its limits, and its noise as running sums, of `noise[i]` and of `i * noise[i]`.

    `decode_ns` is that of the model, as a list: the simulation is loops over numbers of Python.
    """

    model: StepModel
    decode_ns: list[float]
    max_batch: int
    policy: ServingPolicy
    step_tokens: int
    noise: tuple[list[float], list[float]]
    prompt_noise: list[float]


class _Run(Struct, frozen=True, eq=False):
    """A simulated run: moments of each request, in ns, and the time in which steps ran."""

    arrival: _Floats
    first: _Floats
    end: _Floats
    busy_ns: float
    decode_ns: float
    sequence_ns: float


def predict_serving(frame: pl.DataFrame, load: Load, path: str) -> Serving:
    """Predict a server under load from `measured_steps` of all ranks.

    Raises:
        ArgumentError: too few steps are known, or the trace does not say what `load` leaves open.
    """
    steps = Steps.of(frame, path)
    rng = np.random.default_rng(load.seed)
    sizes = sorted(set(load.max_batch)) or [int((steps.decode + steps.prompts).max())]
    model = fit_steps(steps, sizes[-1])
    prompts, outputs, notes = _requested_lengths(steps, load, path)
    mixed = bool(((steps.decode > 0) & (steps.prompts > 0)).any())
    policy = load.policy or (ServingPolicy.MIXED if mixed else ServingPolicy.PREFILL_FIRST)
    noise = _noise_sums(model.noise, int(max(outputs.draw(rng, 1000))) * 64 + _NOISE_STEPS, rng)
    requests = _requests(load.requests, prompts, outputs, rng)
    few = _requests(max(_LEAST_SATURATED, _SATURATED * sizes[-1]), prompts, outputs, rng)
    most_tokens = load.step_tokens or int(steps.tokens.max())
    prompt_noise = _blocks(model.prompt_noise, _NOISE_STEPS, rng).tolist()
    scaled = [each.scaled(load.scale) for each in (model, *possible_models(steps, model, rng))]
    servers = [
        [
            _Server(each, each.decode_ns.tolist(), size, policy, most_tokens, noise, prompt_noise)
            for each in scaled
        ]
        for size in sizes
    ]
    capacities = [np.array([_capacity(server, few) for server in same]) for same in servers]
    rates = sorted(set(load.rates)) or [
        float(f"{share * max(found[0] for found in capacities):.3g}") for share in _LOADS
    ]
    mean_output = float(np.mean(few.outputs))
    rows = [
        _rate_row(same, found, rate, requests)
        for same, found in zip(servers, capacities, strict=True)
        for rate in rates
    ]
    limits = [
        {
            "max_batch": size,
            "capacity": found[0],
            **_low_high("capacity", found[1:]),
            "tokens_per_second": found[0] * mean_output,
        }
        for size, found in zip(sizes, capacities, strict=True)
    ]
    return Serving(
        _table(SERVING_RATES, rows),
        _table(SERVING_CAPACITY, limits),
        _batches(steps, scaled, sizes[-1], load.scale),
        policy,
        prompts.text,
        outputs.text,
        scaled[0].fit(steps),
        tuple(dict.fromkeys((*steps.notes(sizes[-1]), *notes))),
    )


# Lengths of prompts and outputs


class Lengths(Struct, frozen=True, eq=False):
    """Lengths that can be drawn: any of `values` alike, or with a geometric distribution of that mean.

    Args:
        text: for people.
        values: the lengths; a range is open at its end.
        is_geometric: whether they are the mean of a geometric distribution.
    """

    text: str
    values: _Ints
    is_geometric: bool = False

    def draw(self, rng: np.random.Generator, count: int) -> _Ints:
        """Lengths in random order, each as often as its probability says: their mean is no matter of chance."""
        place = (rng.permutation(count) + 0.5) / count
        drawn: _Ints = np.sort(self.values)[(place * len(self.values)).astype(np.int64)]
        if self.is_geometric:
            drawn = np.ceil(np.log1p(-place) / np.log1p(-1 / self.values[0])).astype(np.int64)
        return drawn


_ONE, _RANGE = re.compile(r"(~?)(\d{1,9})"), re.compile(r"(\d{1,7})-(\d{1,7})")


def lengths(value: Length, what: str, least: int) -> Lengths:
    """Parse lengths: `128`, any of `64-512`, any of `32,512`, or `~128`, geometric with this mean; or a list.

    Raises:
        ArgumentError: it is none of these, or a length is below `least`.
    """
    text = (
        value if isinstance(value, str) else ",".join(map(str, [value] if isinstance(value, int) else value))
    )
    one, span = _ONE.fullmatch(text), _RANGE.fullmatch(text)
    if span is not None:
        found = np.arange(int(span[1]), int(span[2]) + 1)
    else:
        try:
            found = np.array([int(one[2])] if one else [int(part) for part in text.split(",")])
        except ValueError:
            found = np.array([], dtype=np.int64)
    if not len(found) or found.min() < least or (found.min() == 0 and len(found) > 1):
        raise ArgumentError(
            f"{text!r} is no length of {what}: give tokens, such as 128, 64-512 (any of these), 32,512 (either), or "
            "~128 (geometric with this mean)"
        )
    return Lengths(text, found, is_geometric=one is not None and bool(one[1]) and found[0] > 1)


def _requested_lengths(
    steps: Steps, load: Load, path: str
) -> tuple[Lengths, Lengths, tuple[ServingNote, ...]]:
    """Lengths of prompts and outputs: as given, or else as in the trace."""
    reads = steps.prompts > 0
    notes: tuple[ServingNote, ...] = ()
    if load.prompt_tokens is not None:
        prompts = lengths(load.prompt_tokens, "prompts", 0)
    elif reads.any():
        of_prompts = np.rint(steps.tokens[reads] / steps.prompts[reads]).astype(np.int64)
        values = np.maximum(np.repeat(of_prompts, steps.prompts[reads]), 1)
        prompts = Lengths(f"{values.mean():,.0f} on average, as in the trace", values)
    else:
        prompts = lengths(0, "prompts", 0)
    if prompts.values.max() > 0 and not reads.any():
        raise ArgumentError(
            f"no step of {path} reads prompts, so their time is unknown: capture more, or give prompts of 0 tokens"
        )
    if load.output_tokens is not None:
        outputs = lengths(load.output_tokens, "outputs", 1)
    elif reads.any():
        mean = max(round(1 + steps.decode.sum() / steps.prompts.sum()), 1)
        outputs, notes = (
            Lengths(f"{mean:,}, the mean of the trace", np.array([mean])),
            (ServingNote.MEAN_OUTPUT,),
        )
    else:
        raise ArgumentError(
            f"no step of {path} starts a request, so the length of outputs is unknown: give it"
        )
    return prompts, outputs, notes


def _requests(count: int, prompts: Lengths, outputs: Lengths, rng: np.random.Generator) -> _Requests:
    gaps = rng.exponential(1.0, count)
    return _Requests(gaps, prompts.draw(rng, count).tolist(), outputs.draw(rng, count).tolist())


# Simulation


def _blocks(noise: _Floats, count: int, rng: np.random.Generator) -> _Floats:
    """Noise of so many steps: measured runs of steps, drawn at random."""
    run = min(_RUN, len(noise))
    starts = rng.integers(0, len(noise) - run + 1, -(-count // run))
    drawn: _Floats = noise[(starts[:, None] + np.arange(run)).ravel()[:count]]
    return drawn


def _noise_sums(noise: _Floats, count: int, rng: np.random.Generator) -> tuple[list[float], list[float]]:
    drawn = _blocks(noise, count, rng)
    rising = drawn * np.arange(count)
    return [0.0, *accumulate(drawn.tolist())], [0.0, *accumulate(rising.tolist())]


def _decode_time(server: _Server, start: int, steps: int, batch: int, cached: float) -> float:
    """Time of some steps of one batch, from a position of the noise; each adds a token per sequence to the caches."""
    ones, rising = server.noise
    token_ns = server.model.cached_token_ns
    sum_ones = ones[start + steps] - ones[start]
    found = (server.decode_ns[batch] + token_ns * cached) * sum_ones
    if token_ns:
        found += token_ns * batch * (rising[start + steps] - rising[start] - start * sum_ones)
    return found


def _steps_until(server: _Server, start: int, most: int, batch: int, cached: float, wait_ns: float) -> int:
    """Steps of one batch, `most` at most, until a time has passed."""
    if server.model.cached_token_ns:
        steps = range(1, most + 1)
        found = bisect_left(
            steps, wait_ns, key=lambda count: _decode_time(server, start, count, batch, cached)
        )
        return min(found + 1, most)
    ones = server.noise[0]
    target = ones[start] + wait_ns / server.decode_ns[batch]
    return min(bisect_left(ones, target, start + 1, start + most) - start, most)


def _simulate(server: _Server, requests: _Requests, arrival_ns: _Floats) -> _Run:
    """Serve requests by the policy; several steps of one batch count at once.

    A static batch takes no further request, and its steps do not get shorter when some of it have ended.
    """
    model, prompts, outputs, arrival = server.model, requests.prompts, requests.outputs, arrival_ns.tolist()
    mixed, static = server.policy is ServingPolicy.MIXED, server.policy is ServingPolicy.STATIC
    limit, count, longest = len(server.noise[0]) - 1, len(arrival), max(outputs)
    first, end = [0.0] * count, [0.0] * count
    now = busy = decode_ns = sequence_ns = cached = 0.0
    head = at = steps = reads = batch = 0
    running: list[tuple[int, int]] = []  # number of the step after which it ends, request
    starting: list[int] = []  # without a prompt: their first token comes with the next step
    while head < count or running:
        batch = batch if static and running else len(running)
        room = 0 if static and running else server.max_batch - batch
        if room and head < count and arrival[head] <= now:
            began, tokens = head, 0
            while head < count and arrival[head] <= now and head - began < room:
                if head > began and tokens + prompts[head] > server.step_tokens and not static:
                    break
                tokens += prompts[head]
                head += 1
            if tokens:
                took = model.prompt_base_ns + model.prompt_token_ns * tokens
                if mixed and batch:
                    took += server.decode_ns[batch] - server.decode_ns[0] + model.cached_token_ns * cached
                    steps, cached = steps + 1, cached + batch
                took *= server.prompt_noise[reads % len(server.prompt_noise)]
                now, busy, reads = now + took, busy + took, reads + 1
            read = int(tokens > 0)
            for request in range(began, head):
                first[request] = now
                heappush(running, (steps + outputs[request] - read, request))
                cached += prompts[request] + read
            starting += () if read else range(began, head)
            batch = len(running)
        elif running:
            most = running[0][0] - steps
            if at + most > limit:
                at = (at * 7 + 1) % max(limit - longest, 1)
            if room and head < count:
                most = _steps_until(server, at, most, batch, cached, arrival[head] - now)
            for request in starting:
                first[request] = now + _decode_time(server, at, 1, batch, cached)
            starting.clear()
            took = _decode_time(server, at, most, batch, cached)
            now, busy, decode_ns, sequence_ns = (
                now + took,
                busy + took,
                decode_ns + took,
                sequence_ns + took * batch,
            )
            steps, at, cached = steps + most, at + most, cached + most * batch
        else:
            now = max(now, arrival[head])
        while running and running[0][0] <= steps:
            request = heappop(running)[1]
            end[request] = now
            cached -= prompts[request] + outputs[request]
    return _Run(arrival_ns, np.array(first), np.array(end), busy, decode_ns, sequence_ns)


def _capacity(server: _Server, requests: _Requests) -> float:
    """Requests in a second that a server ends without pause: their output tokens over the mean of a request."""
    end = _simulate(server, requests, np.zeros(len(requests.gaps))).end
    edge, ordered, outputs = int(_EDGE * len(end)), np.sort(end), np.array(requests.outputs)
    begin, until = float(ordered[edge]), float(ordered[-1 - edge])
    # Requests may end at once: those at the begin do not count, those at the end do.
    tokens = outputs[(end > begin) & (end <= until)].sum()
    return float(tokens / outputs.mean()) / (until - begin) * NS_PER_S


def _rate_row(
    servers: list[_Server], capacities: _Floats, rate: float, requests: _Requests
) -> dict[str, Any]:
    """Row of a rate: of the first model, with the medians of models at both ends of the capacity's interval."""
    low, high = np.percentile(capacities[1:], _INTERVAL)
    row: dict[str, Any] = {
        "max_batch": servers[0].max_batch,
        "rate": rate,
        "load": rate / capacities[0],
        "queue_grows": rate > capacities[0] if not low < rate < high else None,
    }
    if rate >= capacities[0]:
        return row
    arrival = np.cumsum(requests.gaps) * (NS_PER_S / rate)
    run = _simulate(servers[0], requests, arrival)
    edge = int(_EDGE * len(arrival))
    counted = slice(edge, len(arrival) - edge)
    found = _times(run, requests, counted)
    for name, times in found.items():
        row |= dict(zip((f"{name}_p{p}_ns" for p in (50, 95, 99)), _percentiles(times), strict=True))
        row[f"{name}_mean_ns"] = float(times.mean()) if len(times) else None
    span = run.end.max() - arrival[0]
    row["busy"] = run.busy_ns / span
    row["mean_batch"] = run.sequence_ns / run.decode_ns if run.decode_ns else None
    row["tokens_per_second"] = rate * float(np.mean(requests.outputs))
    order = 1 + np.argsort(capacities[1:])
    ends = [int(order[round((len(order) - 1) * percentile / 100)]) for percentile in _INTERVAL]
    others = [_simulate(servers[each], requests, arrival) for each in ends if rate < capacities[each]]
    for name, times in found.items():
        medians = [_percentiles(_times(each, requests, counted)[name])[0] for each in others]
        known = [value for value in (*medians, _percentiles(times)[0]) if value is not None]
        if known:
            row[f"{name}_p50_low_ns"] = min(known)
            row[f"{name}_p50_high_ns"] = max(known) if len(others) == len(ends) else None
    return row


def _times(run: _Run, requests: _Requests, counted: slice) -> dict[str, _Floats]:
    """Times to the first token, and per output token after it."""
    outputs = np.array(requests.outputs[counted])
    first, end = run.first[counted], run.end[counted]
    several = outputs > 1
    return {
        "ttft": first - run.arrival[counted],
        "tpot": (end - first)[several] / (outputs[several] - 1),
    }


def _percentiles(times: _Floats) -> list[float | None]:
    return [float(value) for value in np.percentile(times, (50, 95, 99))] if len(times) else [None] * 3


def _low_high(name: str, values: _Floats) -> dict[str, float]:
    low, high = np.percentile(values, _INTERVAL)
    return {f"{name}_low": float(low), f"{name}_high": float(high)}


def _batches(steps: Steps, models: list[StepModel], largest: int, scale: float) -> pl.DataFrame:
    """`SERVING_BATCHES` of a model and of those that are possible as well."""
    own = steps.rows(np.flatnonzero(steps.only_decode))
    context = float(np.nan_to_num(np.median(own.cached / own.decode)))
    mean = float(models[0].noise.mean())
    rows = []
    for batch in range(1, largest + 1):
        times = [(each.decode_ns[batch] + each.cached_token_ns * context * batch) * mean for each in models]
        of_batch = own.ns[own.decode == batch]
        low, high = np.percentile(times[1:], _INTERVAL)
        rows.append(
            {
                "batch": batch,
                "steps": len(of_batch),
                "measured_ns": float(np.median(of_batch)) * scale if len(of_batch) else None,
                "step_ns": times[0],
                "step_low_ns": float(low),
                "step_high_ns": float(high),
                "tokens_per_second": batch / times[0] * NS_PER_S,
            }
        )
    return _table(SERVING_BATCHES, rows)


def _table(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Make a table, in whole ns and with the digits that another machine's arithmetic gives as well."""
    schema = {
        name: pl.Float64() if name.endswith("_ns") else of for name, of in table.polars_schema().items()
    }
    return table.conform(
        pl.DataFrame(rows, schema=schema).with_columns(
            pl.col("^.*_ns$").round(), cs.float().exclude("^.*_ns$").round_sig_figs(_DIGITS)
        )
    )
