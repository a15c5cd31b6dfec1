"""Scales and figures of the page's charts."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from tests.deno import evaluated
from tracebraid.reports.units import duration, number, percent, quantity, size

VALUES = (0.000123, 0.5, 12.345, 999.96, 1_234.5, 98_765_432.0, 3.2e12)
DOMAINS = ((0, 7), (0, 0.0031), (13, 94), (0, 1.2e9), (5, 5))

_SCRIPT = """
import { decadeText, figure, tickTexts } from "tracebraid/charts/figures.js";
import { linear, logarithmic } from "tracebraid/charts/scales.js";
const scales = input.domains.map((domain) => linear(domain, [0, 500], { widen: true }));
const log = logarithmic([3, 40000], [0, 400]);
const units = ["ns", "share", "bytes", "bytes_per_s", "count"];
output = {
  figures: Object.fromEntries(units.map((unit) => [unit, input.values.map((value) => figure(value, unit))])),
  scales: scales.map((s) => ({ ticks: s.ticks, domain: s.domain, px: s.domain.map(s.at), back: s.value(250) })),
  log: { ticks: log.ticks, px: [1, 10, 100000].map(log.at), texts: log.ticks.map((t) => decadeText(t, "bytes")) },
  texts: tickTexts([0, 500000, 1000000, 1500000], "ns"),
};
"""


@cache
def _found() -> Any:
    return evaluated(_SCRIPT, {"values": VALUES, "domains": DOMAINS})


def test_figures_are_those_of_the_tables() -> None:
    figures = _found()["figures"]
    assert figures["ns"] == [duration(value) for value in VALUES]
    assert figures["share"] == [percent(value) for value in VALUES]
    assert figures["bytes"] == [size(value) for value in VALUES]
    assert figures["bytes_per_s"] == [f"{quantity(value)}B/s" for value in VALUES]
    assert figures["count"] == [number(value) for value in VALUES]


def test_a_linear_scale_holds_its_domain_between_round_ticks() -> None:
    for (least, most), scale in zip(DOMAINS, _found()["scales"], strict=True):
        ticks = scale["ticks"]
        assert scale["domain"][0] <= least <= most <= scale["domain"][1]
        assert 2 <= len(ticks) <= 12
        steps = [after - before for before, after in pairwise(ticks)]
        assert steps == pytest.approx([steps[0]] * len(steps))
        assert f"{steps[0]:e}"[0] in "125"
        assert scale["px"] == pytest.approx([0, 500])
        assert scale["back"] == pytest.approx(sum(scale["domain"]) / 2)


def test_a_logarithmic_scale_has_a_tick_for_each_decade() -> None:
    log = _found()["log"]
    assert log["ticks"] == [1, 10, 100, 1_000, 10_000, 100_000]
    assert log["px"] == pytest.approx([0, 80, 400])
    assert log["texts"] == ["1 B", "10 B", "100 B", "1 KB", "10 KB", "100 KB"]


def test_ticks_of_an_axis_share_a_unit() -> None:
    assert _found()["texts"] == ["0", "0.5 ms", "1.0 ms", "1.5 ms"]
