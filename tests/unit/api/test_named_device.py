"""A device that the caller names where the trace does not, in a job of traces, of a store, and with the cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracebraid
from tests.planted import A100
from tests.planted.scenes import clean
from tracebraid import analyses
from tracebraid.model.analysis import Need

STEPS = 3


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unnamed")
    file = clean(STEPS).write(folder)
    header = json.loads(file.read_text())
    header["deviceProperties"] = [{**A100, "name": "AMD Radeon Graphics"}]
    file.write_text(json.dumps(header))
    return folder


def opened(path: Path, how: str, tmp_path: Path, device: str | None) -> tracebraid.Job:
    if how == "store":
        tracebraid.pack(path, tmp_path / "job.tbstore")
        return tracebraid.open(tmp_path / "job.tbstore", device=device)
    if how == "cache":
        list(tracebraid.open(path, cache=True))
    return tracebraid.open(path, device=device, cache=how == "cache")


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("how", ["traces", "store", "cache"])
def test_a_named_device_gives_the_peaks(unnamed: Path, tmp_path: Path, how: str) -> None:
    without = tracebraid.analyze("roofline", opened(unnamed, how, tmp_path, None))
    assert without.lacks == {0: (Need.DEVICE_PEAKS,)}
    assert without.frame.is_empty()
    job = tracebraid.open(
        tmp_path / "job.tbstore" if how == "store" else unnamed, device="A100 SXM 80GB", cache=how == "cache"
    )
    answer = tracebraid.analyze("roofline", job)
    assert answer.lacks == {0: ()}
    assert set(answer.frame.get_column("peak_bytes_per_s")) == {2039e9}
    (utilisation,) = job.ask(analyses.mfu)
    assert set(utilisation.get_column("peak_flops_per_s")) == {19.5e12}
    assert tracebraid.metrics(job, only=["mfu"]).get_column("value").null_count() == 0


def test_a_named_device_counts_before_that_of_the_trace(tmp_path: Path) -> None:
    job = tracebraid.open(clean(STEPS).write(tmp_path), device="H100 SXM")
    (rows,) = job.ask(analyses.roofline)
    assert set(rows.get_column("peak_bytes_per_s")) == {3350e9}
