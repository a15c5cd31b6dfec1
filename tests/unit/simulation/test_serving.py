"""A server under load: steps as planted are fitted, and queues are as long as closed forms say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.cases import cases
from tests.planted import device_scene
from tests.planted.serving import (
    BASE_NS,
    PROMPT_NS,
    SEQUENCE_NS,
    TOKEN_NS,
    annotated,
    forward,
    served,
    vllm_steps,
)
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.quantities import NS_PER_S
from tracebraid.results import ServingNote, ServingPolicy

GAP_NS = 1_000
DECODE_NS = {batch: BASE_NS + SEQUENCE_NS * batch + GAP_NS for batch in range(1, 65)}


def read_ns(tokens: int) -> int:
    return PROMPT_NS + TOKEN_NS * tokens + GAP_NS


@pytest.fixture(scope="module")
def vllm() -> tracebraid.LinkedTrace:
    return served(vllm_steps([1, 2, 4, 8], [32, 64, 128])).linked()


def test_the_time_of_a_step_is_fitted_as_planted(vllm: tracebraid.LinkedTrace) -> None:
    found = tracebraid.serving(vllm, max_batch=16, requests=100)
    fit = found.fit
    assert fit.base_ns == pytest.approx(BASE_NS + GAP_NS, rel=1e-5)
    assert fit.sequence_ns == pytest.approx(SEQUENCE_NS, rel=1e-5)
    assert fit.prompt_base_ns == pytest.approx(PROMPT_NS + GAP_NS, rel=1e-5)
    assert fit.prompt_token_ns == pytest.approx(TOKEN_NS, rel=1e-5)
    assert (fit.steps, fit.left_out) == (4 * (3 + 4 * 5), 0)
    assert fit.spread < 1e-6
    steps = found.batches.filter(pl.col("measured_ns").is_not_null())
    assert dict(steps.select("batch", "steps").iter_rows()) == dict.fromkeys((1, 2, 4, 8), 20)
    for row in found.batches.iter_rows(named=True):
        assert row["step_ns"] == pytest.approx(DECODE_NS[row["batch"]], rel=1e-5)
        assert row["step_low_ns"] <= row["step_ns"] * 1.000001 <= row["step_high_ns"] * 1.000002
        assert row["tokens_per_second"] == pytest.approx(row["batch"] / row["step_ns"] * 1e9)
    assert found.policy is ServingPolicy.PREFILL_FIRST
    assert set(found.notes) == {
        ServingNote.BEYOND_BATCH,
        ServingNote.CONTEXT_UNKNOWN,
        ServingNote.MEAN_OUTPUT,
    }


def test_pauses_without_requests_are_no_part_of_a_step(vllm: tracebraid.LinkedTrace) -> None:
    plan = vllm_steps([1, 2, 4, 8], [32, 64, 128])
    pause = ("sleep", 50_000_000)
    paused = [step for name, ns in plan for step in ([pause] * ("context_1" in name) + [(name, ns)])]
    fit, expected = (tracebraid.serving(each, requests=100).fit for each in (served(paused).linked(), vllm))
    for name in ("base_ns", "sequence_ns", "prompt_base_ns", "prompt_token_ns"):
        assert getattr(fit, name) == pytest.approx(getattr(expected, name), rel=1e-3)


@pytest.mark.full(keep=1)
@cases(
    "policy, period_ns",
    {
        "prompts read alone, then steps of eight": (
            "prefill-first",
            8 * read_ns(64) + 31 * DECODE_NS[8],
        ),
        "prompts read at once": ("static", read_ns(8 * 64) + 31 * DECODE_NS[8]),
        "prompts read beside those that decode": ("mixed", None),
    },
)
def test_the_capacity_is_that_of_a_server_without_pause(
    vllm: tracebraid.LinkedTrace, policy: str, period_ns: float | None
) -> None:
    found = tracebraid.serving(
        vllm, policy=policy, max_batch=8, prompt_tokens=64, output_tokens=32, step_tokens=64
    )
    row = found.capacity.row(0, named=True)
    least, most = 8 * NS_PER_S / (8 * read_ns(64) + 31 * DECODE_NS[8]), 8 * NS_PER_S / (31 * DECODE_NS[8])
    if period_ns is None:
        assert least < row["capacity"] < most
    else:
        assert row["capacity"] == pytest.approx(8 * NS_PER_S / period_ns, rel=0.02)
    assert row["capacity_low"] <= row["capacity"] * 1.0001
    assert row["capacity_high"] >= row["capacity"] * 0.9999
    assert row["tokens_per_second"] == pytest.approx(32 * row["capacity"], rel=1e-5)


POISSON = 60_000
"""Simulated requests where a mean is compared: its statistical error is 2 to 4 %."""


@pytest.mark.full(keep=1)
@cases(
    "output, load, squares",
    {
        "M/D/1 half full": ("200", 0.5, 1.0),
        "M/D/1 at 80 %": ("200", 0.8, 1.0),
        "M/M/1 half full": ("~200", 0.5, 2.0 - 1 / 200),
        "M/M/1 at 70 %": ("~200", 0.7, 2.0 - 1 / 200),
        "M/G/1 of two lengths": ("100,300", 0.7, 1.25),
    },
)
def test_waits_of_one_sequence_at_a_time_are_those_of_pollaczek_and_khinchine(
    vllm: tracebraid.LinkedTrace, output: str, load: float, squares: float
) -> None:
    """M/D/1, M/M/1 and M/G/1: the mean wait is load / (1 - load) * service * E[S^2] / (2 E[S]^2)."""
    service_ns = 200 * DECODE_NS[1]
    found = tracebraid.serving(
        vllm,
        rates=[load * NS_PER_S / service_ns],
        max_batch=1,
        prompt_tokens=0,
        output_tokens=output,
        requests=POISSON,
    )
    row = found.rates.row(0, named=True)
    wait_ns = load / (1 - load) * service_ns * squares / 2
    assert row["ttft_mean_ns"] - DECODE_NS[1] == pytest.approx(wait_ns, rel=0.1)
    assert row["tpot_p50_ns"] == pytest.approx(DECODE_NS[1], rel=1e-5)
    assert row["busy"] == pytest.approx(load, rel=0.03)
    assert row["mean_batch"] == 1.0
    assert row["load"] == pytest.approx(load, rel=0.03)


@pytest.mark.full
def test_noise_of_steps_counts_as_measured() -> None:
    """A tenth of the steps takes ten times as long: services vary by it, and waits with them."""
    rng = random.Random(1)
    noisy = vllm_steps([1, 2], [64], repeats=60, noise=lambda _: 10.0 if rng.random() < 0.1 else 1.0)
    found = tracebraid.serving(
        served(noisy).linked(), max_batch=1, prompt_tokens=0, output_tokens=1, requests=40_000
    )
    slow = sum(ns > 5_000_000 for name, ns in noisy if "generation_0" not in name) / (60 * 10)
    mean_ns = (1 - slow + 10 * slow) * DECODE_NS[1]
    assert found.capacity.item(0, "capacity") == pytest.approx(NS_PER_S / mean_ns, rel=0.1)
    row = found.rates.row(2, named=True)
    squares = (1 - slow + 100 * slow) / (1 - slow + 10 * slow) ** 2
    wait_ns = row["load"] / (1 - row["load"]) * mean_ns * squares / 2
    assert row["ttft_mean_ns"] - mean_ns == pytest.approx(wait_ns, rel=0.35)
    assert row["tpot_p50_ns"] is None


def test_the_queue_grows_above_the_capacity_alone(vllm: tracebraid.LinkedTrace) -> None:
    found = tracebraid.serving(vllm, prompt_tokens=64, output_tokens=32, requests=2000)
    capacity = found.capacity.item(0, "capacity")
    rates = [0.3 * capacity, 0.9 * capacity, 1.2 * capacity]
    again = tracebraid.serving(vllm, rates=rates, prompt_tokens=64, output_tokens=32, requests=2000)
    assert again.rates.get_column("queue_grows").to_list() == [False, False, True]
    quiet, busy, full = again.rates.iter_rows(named=True)
    assert full["ttft_p50_ns"] is None
    assert full["load"] == pytest.approx(1.2)
    for name in ("ttft_p50_ns", "ttft_p99_ns", "tpot_p50_ns", "mean_batch", "busy", "tokens_per_second"):
        assert quiet[name] < busy[name]
    # Nearly alone, a request waits for its prompt and for the step that runs.
    assert read_ns(64) <= quiet["ttft_p50_ns"] < read_ns(64) + DECODE_NS[8]
    assert busy["tokens_per_second"] == pytest.approx(32 * rates[1])
    assert quiet["ttft_p50_low_ns"] <= quiet["ttft_p50_high_ns"]


def test_a_notebook_shows_the_capacity(vllm: tracebraid.LinkedTrace) -> None:
    found = tracebraid.serving(vllm, requests=100)
    shown = found._repr_html_()
    assert "prefill-first" in shown
    assert "capacity" in shown
    assert repr(found).startswith("Serving(capacity=[")


def test_a_larger_batch_serves_more_and_takes_longer_for_a_token(vllm: tracebraid.LinkedTrace) -> None:
    found = tracebraid.serving(vllm, max_batch=[1, 4, 8], prompt_tokens=64, output_tokens=32, requests=1000)
    capacities = found.capacity.get_column("capacity").to_list()
    assert capacities == sorted(capacities)
    assert found.rates.height == 3 * 6
    # The sweep is up to the largest capacity, which one sequence at a time does not reach.
    of_one = found.rates.filter(pl.col("max_batch") == 1)
    assert of_one.get_column("queue_grows").to_list()[-1] is True
    assert found.rates.filter(pl.col("max_batch") == 8).get_column("queue_grows").any() is False


def varying(seed: int) -> Callable[[int], float]:
    rng = random.Random(seed)
    return lambda _: rng.lognormvariate(0, 0.1)


def test_the_interval_of_a_time_by_batch_holds_it() -> None:
    """Of steps whose times vary by a tenth: of eight sequences, twice as many as were measured, too."""
    held, widths = [], []
    for seed in range(8):
        plan = vllm_steps([1, 2, 4], [64], noise=varying(seed))
        found = tracebraid.serving(served(plan).linked(), max_batch=8, requests=100, seed=seed)
        for row in found.batches.filter(pl.col("batch").is_in([2, 3, 8])).iter_rows(named=True):
            held.append(row["step_low_ns"] <= DECODE_NS[row["batch"]] * 1.005 <= row["step_high_ns"])
            widths.append((row["step_high_ns"] - row["step_low_ns"]) / row["step_ns"])
    assert sum(held) / len(held) >= 0.7
    assert sum(widths) / len(widths) < 0.5


def test_the_same_seed_gives_the_same_answer(vllm: tracebraid.LinkedTrace) -> None:
    first, again, other = (tracebraid.serving(vllm, seed=seed, requests=500) for seed in (3, 3, 4))
    assert first.rates.equals(again.rates)
    assert not first.rates.equals(other.rates)


def test_a_factor_scales_all_times(vllm: tracebraid.LinkedTrace) -> None:
    one, half = (tracebraid.serving(vllm, scale=scale, requests=200) for scale in (1.0, 0.5))
    assert half.capacity.item(0, "capacity") == pytest.approx(2 * one.capacity.item(0, "capacity"), rel=1e-5)
    assert half.batches.item(2, "step_ns") == pytest.approx(one.batches.item(2, "step_ns") / 2, rel=1e-5)


def test_with_one_batch_size_others_lie_between_two_assumptions() -> None:
    found = tracebraid.serving(served(vllm_steps([4], [64])).linked(), max_batch=8, requests=200)
    assert {ServingNote.ONE_BATCH, ServingNote.ONE_PROMPT} <= set(found.notes)
    rows = {row["batch"]: row for row in found.batches.iter_rows(named=True)}
    assert rows[4]["step_low_ns"] == pytest.approx(rows[4]["step_high_ns"])
    low, high = rows[8]["step_low_ns"], rows[8]["step_high_ns"]
    assert (low, high) == (pytest.approx(DECODE_NS[4]), pytest.approx(2 * DECODE_NS[4]))
    assert low < rows[8]["step_ns"] < high
    assert rows[1]["step_low_ns"] == pytest.approx(DECODE_NS[4] / 4)


PATTERN = r"run (?P<decode>\d+) of (?P<cached_tokens>\d+)|fill (?P<prompts>\d+) x (?P<prompt_tokens>\d+)"


def test_own_annotations_are_read_by_a_pattern_with_the_tokens_in_the_caches() -> None:
    plan = []
    for number in range(6):
        plan.append((f"fill 2 x {100 + number}", 2_000_000))
        for batch in (1, 2, 3):
            for cached in (100, 400):
                plan += [
                    (f"run {batch} of {batch * cached}", 100_000 + 10_000 * batch + 200 * batch * cached)
                ]
    found = tracebraid.serving(
        served(plan).linked(), step_pattern=PATTERN, prompt_tokens=100, output_tokens="10-20", requests=300
    )
    assert found.fit.cached_token_ns == pytest.approx(200, rel=0.01)
    assert found.fit.base_ns == pytest.approx(100_000 + GAP_NS, rel=0.02)
    assert ServingNote.CONTEXT_UNKNOWN not in found.notes
    longer = tracebraid.serving(
        served(plan).linked(), step_pattern=PATTERN, prompt_tokens=1000, output_tokens="10-20", requests=300
    )
    assert longer.rates.item(0, "tpot_p50_ns") > 1.5 * found.rates.item(0, "tpot_p50_ns")


def test_vllm_states_the_tokens_in_the_caches_where_it_is_asked_for_details() -> None:
    plan = [
        (
            f"execute_{n}_context_0(sq0sk0sqsq0sqsk0)_generation_{n}(sq{n}sk{n * keys}sqsq{n}sqsk{n * keys})",
            1_000_000 + 50_000 * n + 10 * n * keys,
        )
        for keys in range(1000, 5000, 250)
        for n in (1, 2, 4)
    ]
    fit = tracebraid.serving(served(plan).linked(), prompt_tokens=0, output_tokens=20, requests=100).fit
    assert fit.cached_token_ns == pytest.approx(10, rel=0.01)
    assert fit.sequence_ns == pytest.approx(SEQUENCE_NS, rel=0.01)


def test_steps_without_counts_are_read_by_their_shapes() -> None:
    scene, host, stream = device_scene()
    with host.step(1):
        for batch in (1, 2, 4) * 4:
            with host.annotation("prefill"):
                forward(host, stream, batch, 16, 16)
            for keys in range(17, 20):
                with host.annotation("decode"):
                    forward(host, stream, batch, 1, keys)
                host.spend(5_000 * batch)
    found = tracebraid.serving(scene.linked(), requests=100)
    counted = found.batches.filter(pl.col("steps") > 0).get_column("batch").to_list()
    assert counted == [1, 2, 4]


BATCH = ["step[DECODE bs=2]"] * 9


@cases(
    "names, options, said",
    {
        "no iterations": ([], {}, "0 steps"),
        "no counts": (["decode"] * 9, {}, "unknown"),
        "few steps": (BATCH[:3], {}, "3 steps"),
        "no prompts, outputs left open": (BATCH, {}, "length of outputs"),
        "no prompts, but wanted": (BATCH, {"output_tokens": 5, "prompt_tokens": 7}, "reads prompts"),
        "length in words": (BATCH, {"output_tokens": "many"}, "'many'"),
        "output of nothing": (BATCH, {"output_tokens": 0}, "'0'"),
        "one output of nothing": (BATCH, {"output_tokens": [3, 0]}, "'3,0'"),
        "unknown policy": (BATCH, {"policy": "lifo"}, "prefill-first"),
        "batch of 0": (BATCH, {"max_batch": 0}, "max_batch"),
        "rate below 0": (BATCH, {"rates": [-1.0]}, "rates"),
        "broken pattern": (BATCH, {"step_pattern": "("}, "regular expression"),
        "pattern without group": (BATCH, {"step_pattern": "step"}, "no group decode"),
        "pattern with another group": (BATCH, {"step_pattern": r"(?P<batch>\d+)"}, "'batch'"),
    },
)
def test_what_cannot_be_answered_is_refused(names: list[str], options: dict[str, Any], said: str) -> None:
    scene, _ = annotated(names)
    with pytest.raises((ArgumentError, InputError), match=said):
        tracebraid.serving(scene.linked(), **options)
