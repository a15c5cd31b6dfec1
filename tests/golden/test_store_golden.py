"""A store holds what the traces do: every table and stage, finding and error, of the bundled and of real traces."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.conftest import find_real_traces
from tests.stores import differences

_TRACES = find_real_traces()
_ALONE = sorted(path.name for path in (_TRACES / "kineto").glob("*.json.gz")) if _TRACES else ["absent"]
_PAIRS = sorted(path.name for path in (_TRACES / "pairs").iterdir()) if _TRACES else ["absent"]


def check_store(path: Path, folder: Path, **options: object) -> None:
    packed = tracebraid.pack(path, folder / "job.tbstore", **options)  # type: ignore[arg-type]
    traces, store = tracebraid.open(path, **options), tracebraid.open(folder / "job.tbstore")  # type: ignore[arg-type]
    assert packed.failed == ()
    assert (store.path, store.files, store.findings) == (traces.path, traces.files, traces.findings)
    assert {rank: differences(traces[rank], store[rank]) for rank in traces.ranks} == {
        rank: [] for rank in traces.ranks
    }


def test_the_store_of_the_demo_holds_what_its_traces_do(demo: Path, tmp_path: Path) -> None:
    check_store(demo, tmp_path)


def test_a_store_holds_what_was_matched_without_ids(demo: Path, tmp_path: Path) -> None:
    check_store(demo, tmp_path, matching="approximate")


@pytest.mark.traces
@pytest.mark.parametrize("name", _PAIRS)
def test_the_stores_of_real_pairs_hold_what_their_traces_do(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    check_store(real_traces / "pairs" / name, tmp_path)


@pytest.mark.traces
@pytest.mark.parametrize("name", _ALONE)
def test_the_stores_of_real_kineto_traces_hold_what_they_do(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    check_store(real_traces / "kineto" / name, tmp_path)
