"""Detectors of communication, products, tensors and ranks: each finds its planted pattern, and no other."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from tests.planted.patterns import PATTERNS
from tests.planted.scene import Scene
from tests.planted.scenes import clean
from tracebraid.analysis.antipatterns.catalog import job_detectors, rank_detectors
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace

DETECTORS = [detector for detector in rank_detectors() if detector.name in PATTERNS]
NAMES = [*(detector.name for detector in DETECTORS), *(detector.name for detector in job_detectors())]


@cache
def linked_scenes(name: str) -> tuple[LinkedTrace, ...]:
    scenes: list[Scene] = [clean(world_size=2)] if name == "clean" else PATTERNS[name].scenes
    return tuple(scene.linked() for scene in scenes)


@cache
def found(pattern: str) -> dict[str, pl.DataFrame]:
    traces = linked_scenes(pattern)
    rows = {
        detector.name: pl.concat([detector.detect(linked) for linked in traces]) for detector in DETECTORS
    }
    return rows | {detector.name: detector.detect(ranks_of(traces)) for detector in job_detectors()}


def ranks_of(traces: tuple[LinkedTrace, ...]) -> LinkedRanks:
    gathers = {gather for detector in job_detectors() for gather in detector.gathers}
    return link_ranks(
        [
            RankParts(
                rank_facts(linked),
                members(linked),
                {gather: gather(linked) for gather in gathers},
            )
            for linked in traces
        ]
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_detector_finds_its_pattern_with_what_it_costs(name: str) -> None:
    rows = found(name)[name]
    least, most = PATTERNS[name].saving_ns
    assert least <= rows.get_column("saving_ns").sum() <= most
    assert (rows.get_column("saving_ns") <= rows.get_column("end_ns") - rows.get_column("start_ns")).all()
    assert rows.get_column("event_id").null_count() == 0


@pytest.mark.parametrize("name", ["clean", *NAMES])
def test_no_other_detector_finds_anything(name: str) -> None:
    others = {detector: rows.height for detector, rows in found(name).items() if detector != name}
    assert {detector: height for detector, height in others.items() if height} == {}
