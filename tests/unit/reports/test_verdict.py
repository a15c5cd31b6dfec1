"""Sentences of a verdict beside those of items: growth of memory, limits and transfers, and their figures as data."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.planted import host_scene
from tests.planted.patterns import PATTERNS
from tracebraid.model.analysis import Need
from tracebraid.model.answers.graph import ACCOUNTING, START_UP
from tracebraid.model.answers.job import ADVICE
from tracebraid.model.questions import Limit, Transfers
from tracebraid.reports.advice import verdict_data
from tracebraid.reports.verdict import verdict

_MB = 1_000_000


def lines_with(resident: list[int]) -> str:
    (scene,) = PATTERNS["host-work"].scenes
    scene.facts = {"resident_bytes": resident}
    return " ".join(verdict(tracebraid.advise(scene.linked())))


def test_growth_in_each_step_before_the_recording_is_said() -> None:
    resident = [_MB, *(90 * _MB + 2 * _MB * number for number in range(6))]
    assert "Memory of the process grows by 2.0 MB in each step" in lines_with(resident)


@pytest.mark.slow
@pytest.mark.parametrize(
    "resident",
    [
        [_MB, *[90 * _MB] * 6],
        [_MB, *(90 * _MB + 2 * _MB * number for number in (0, 1, 2, 2, 3, 4))],
        [90 * _MB, 92 * _MB, 94 * _MB, 96 * _MB],
        [90 * _MB + 131_072 * number for number in range(8)],
        [],
    ],
    ids=["even", "in some steps", "too few steps", "pages", "unknown"],
)
def test_what_is_no_trend_is_not_said(resident: list[int]) -> None:
    assert "Memory" not in lines_with(resident)


@pytest.mark.slow
def test_figures_of_limits_and_transfers_are_in_the_data() -> None:
    (scene,) = PATTERNS["host-work"].scenes
    judged = replace(
        tracebraid.advise(scene.linked()),
        items=ADVICE.empty(),
        accounting=ACCOUNTING.conform(
            pl.DataFrame(
                [
                    {"step": "1", "cause": "compute", "name": "gemm", "ns": 65, "share": 0.65},
                    {"step": "1", "cause": "communication", "name": "all_reduce", "ns": 35, "share": 0.35},
                ]
            ),
            fill_missing=True,
        ),
        limit=Limit("compute", 0.9, 0.35, 0.8),
        transfers=Transfers(2.5e9, 8),
    )
    said, data = " ".join(verdict(judged)), verdict_data(judged)
    assert "65.0 % compute, 35.0 % communication" in said
    assert "Compute: mostly matrix products (gemm) (65.0 %)." in said
    assert "90.0 % of what the device computes is bound by its matrix units, at 35.0 % of the peak." in said
    assert "reach 2.5 GB/s" in said
    assert data["limit"] == {"bound": "compute", "share": 0.9, "reached": 0.35, "known": 0.8}
    assert data["transfers"] == {"bytes_per_s": 2.5e9, "world_size": 8}
    hidden = replace(judged, unlaunched=0.5, accounting=judged.accounting.with_columns(cause=pl.lit("host")))
    assert "50.0 % of the device's work has no launch" in " ".join(verdict(hidden))
    assert verdict_data(hidden)["unlaunched_share"] == 0.5


@pytest.mark.slow
def test_parts_that_are_less_than_half_of_their_cause_are_not_most_of_it() -> None:
    (scene,) = PATTERNS["host-work"].scenes
    sites = [f"torch::autograd::generated::backward_of_a_long_name_{number}" * 2 for number in range(9)]
    rows = [{"step": "1", "cause": "compute", "name": name, "ns": 10, "share": 0.1} for name in sites]
    accounting = ACCOUNTING.conform(pl.DataFrame(rows), fill_missing=True)
    (said, *_) = verdict(
        replace(tracebraid.advise(scene.linked()), items=ADVICE.empty(), accounting=accounting)
    )[1:]
    assert said == f"Compute: {', '.join(f'{name} (11.1 %)' for name in sites[:3])} and others."


@pytest.mark.slow
def test_a_thread_and_the_start_up_are_no_place_of_host_code() -> None:
    (scene,) = PATTERNS["host-work"].scenes
    rows = [("thread 5 (main)", 40), (START_UP, 30), ("aten::add", 30)]
    accounting = pl.DataFrame(
        [{"step": "1", "cause": "host", "name": name, "ns": ns, "share": ns / 100} for name, ns in rows]
    )
    judged = replace(
        tracebraid.advise(scene.linked()),
        items=ADVICE.empty(),
        accounting=ACCOUNTING.conform(accounting, fill_missing=True),
    )
    said = " ".join(verdict(judged))
    assert f"30.0 % of the step is {START_UP}, and no saving" in said
    assert "Host code: mostly nothing recorded on thread 5 (main) (40.0 %), aten::add (30.0 %)." in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precisions", "needs", "is_said"),
    [
        (None, (), True),
        (frozenset({"fp16"}), (), False),
        (None, (Need.DEVICE_WORK,), False),
    ],
    ids=["unnamed device", "known device", "no device"],
)
def test_a_device_without_known_peaks_is_asked_for(
    precisions: frozenset[str] | None, needs: tuple[Need, ...], is_said: bool
) -> None:
    (scene,) = PATTERNS["host-work"].scenes
    advice = tracebraid.advise(scene.linked())
    row = {"step": "1", "cause": "compute", "name": "gemm", "ns": 100, "share": 1.0}
    judged = replace(
        advice,
        items=ADVICE.empty(),
        accounting=ACCOUNTING.conform(pl.DataFrame([row]), fill_missing=True),
        limit=None,
        precisions=precisions,
        lacks={"sync": dict.fromkeys(advice.ranks, needs)},
    )
    assert ("--device NAME" in " ".join(verdict(judged))) == is_said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "name", "expected"),
    [
        (
            "host",
            "ProfilerStep#1",
            "does not show what the host does in 100.0 % of the step: capture with stacks",
        ),
        ("host", "train.py(3): step", "or more: `tracebraid analyze ops` shows where it goes."),
        ("communication", "all_reduce", "or more: `tracebraid analyze collectives` shows where it goes."),
    ],
    ids=["nothing recorded", "host code", "communication"],
)
def test_without_a_change_it_says_what_to_do_next(cause: str, name: str, expected: str) -> None:
    (scene,) = PATTERNS["host-work"].scenes
    row = {"step": "1", "cause": cause, "name": name, "ns": 100, "share": 1.0}
    accounting = ACCOUNTING.conform(pl.DataFrame([row]), fill_missing=True)
    judged = replace(tracebraid.advise(scene.linked()), items=ADVICE.empty(), accounting=accounting)
    assert expected in " ".join(verdict(judged))


@pytest.mark.parametrize("has_items", [False, True])
def test_no_change_is_claimed_only_of_what_was_looked_for(has_items: bool) -> None:
    (scene,) = PATTERNS["host-work"].scenes
    advice = tracebraid.advise(scene.linked())
    row = {"step": "1", "cause": "host", "name": "train.py(3): step", "ns": 100, "share": 1.0}
    judged = replace(
        advice,
        items=advice.items.head(int(has_items)),
        accounting=ACCOUNTING.conform(pl.DataFrame([row]), fill_missing=True),
        lacks={
            "tiny-ops": dict.fromkeys(advice.ranks, (Need.STACKS,)),
            "item-sync": dict.fromkeys(advice.ranks, (Need.DEVICE_WORK,)),
        },
    )
    said = " ".join(verdict(judged))
    assert "found that would save" in said
    assert f"Not looked for: 1 of {len(advice.detectors)} causes, because {Need.STACKS.missing}." in said
    assert "Not looked for" not in " ".join(verdict(replace(judged, lacks={})))


def test_a_step_of_which_nothing_is_recorded_saves_nothing() -> None:
    scene, host = host_scene()
    for number in range(4):
        with host.step(number):
            host.spend(5_000_000)
    advice = tracebraid.advise(scene.linked())
    assert advice.items.is_empty()
    assert "does not show what the host does" in " ".join(verdict(advice))
