"""Cards of the verdict link to an occurrence in the timeline, or to the step where none is drawn."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.planted import write_ranks
from tests.planted.patterns import PATTERNS
from tracebraid.api.reporting import run_results
from tracebraid.model.report import Card, Cards, RunResults
from tracebraid.reports.sections.verdict import verdict_section


@cache
def results_of(pattern: str) -> RunResults:
    with TemporaryDirectory() as folder:
        write_ranks(Path(folder), list(PATTERNS[pattern].scenes))
        return run_results(tracebraid.open(folder))


def cards_of(results: RunResults) -> list[Card]:
    section = verdict_section(results)
    assert section is not None
    return [card for part in section.parts if isinstance(part, Cards) for card in part.cards]


def slice_of(results: RunResults, card: Card) -> dict[str, object]:
    assert card.shown_at is not None
    slices, tracks = results.views["timeline-slices"], results.views["timeline-tracks"]
    found = slices.row(card.shown_at, named=True)
    return {**found, "rank": tracks.item(found["track"], "rank")}


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["host-work", "late-rank"])
def test_each_card_links_to_an_occurrence(pattern: str) -> None:
    results = results_of(pattern)
    assert results.advice is not None
    cards, evidence = cards_of(results), results.advice.evidence
    assert cards
    for number, card in enumerate(cards, 1):
        shown, own = slice_of(results, card), evidence.filter(pl.col("item") == number)
        assert card.is_drawn
        assert (shown["rank"], shown["event_id"]) in own.select("rank", "event_id").rows()


def test_a_card_of_which_nothing_is_drawn_links_to_the_step() -> None:
    results = results_of("late-rank")
    assert results.advice is not None
    nowhere = replace(
        results.advice,
        evidence=results.advice.evidence.with_columns(event_id=pl.lit(None, dtype=pl.Int64)),
        items=results.advice.items.with_columns(op=pl.lit(None, dtype=pl.String)),
    )
    cards = cards_of(replace(results, advice=nowhere))
    assert [card.is_drawn for card in cards] == [False] * len(cards)
    for card, ranks in zip(cards, nowhere.items.get_column("ranks"), strict=False):
        shown = slice_of(results, card)
        assert shown["rank"] in ranks
        assert shown["duration_ns"] == results.views["timeline-slices"].get_column("duration_ns").max()
