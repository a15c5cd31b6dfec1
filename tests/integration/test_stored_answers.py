"""What was answered while a store was packed is what its tables and the traces answer, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import tracebraid
from tests.planted import write_ranks
from tests.unit.reports.runs import planted_scene
from tracebraid.api.stored_questions import stored_questions
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.store.answers.answered_trace import AnsweredTrace


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks with device work and collectives."""
    return write_ranks(tmp_path_factory.mktemp("devices"), [planted_scene(rank, 3) for rank in range(2)])


@pytest.fixture(scope="module")
def stores(devices: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Folders of traces and their stores."""
    folder = tmp_path_factory.mktemp("stores")
    found = {}
    for name, traces in (("devices", devices), ("demo", tracebraid.demo_path())):
        tracebraid.pack(traces, folder / f"{name}.tbstore", engine="in-process")
        found[name] = traces, folder / f"{name}.tbstore"
    return found


def compare_all(traces: Path, store: Path) -> int:
    """Compare every stored answer of every rank with what is computed; returns how many there were."""
    count = 0
    computed, stored = (tracebraid.open(path, engine="in-process") for path in (traces, store))
    for rank in computed.ranks:
        linked = computed[rank]
        linked.compute_all()
        for key, question in stored_questions(linked.timeline.events.height).items():
            fresh = tracebraid.open(store, engine="in-process")[rank]
            assert isinstance(fresh, AnsweredTrace)
            count += _is_stored(fresh, key)
            expected, found = linked.answered(key, question), fresh.answered(key, question)
            if isinstance(expected, bool):
                assert found == expected, key
            else:
                assert_frame_equal(found, expected), key
    assert stored.ranks == computed.ranks
    return count


def _is_stored(linked: AnsweredTrace, key: str) -> bool:
    asked: list[LinkedTrace] = []
    linked.answered(key, asked.append)
    return not asked


@pytest.mark.parametrize("name", ["devices", "demo"])
def test_every_stored_answer_is_the_computed_one(stores: dict[str, tuple[Path, Path]], name: str) -> None:
    assert compare_all(*stores[name]) == 2 * len(stored_questions(0))
