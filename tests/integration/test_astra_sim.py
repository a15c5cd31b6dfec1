"""ASTRA-sim runs to the end what Tracebraid writes; our own simulation of the same files agrees with it.

Where `ASTRA_SIM` names its binary it is run; else our simulation is held against the cycles that it needed when they
were recorded (`python -m tests.integration.astra_sim`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.astra_sim import JOBS, binary, cycles_of, our_ends_ns, recorded, written

TOLERANCE = 0.01
GOLDEN_CYCLES = 193_000
QUICK = {
    "golden",
    "all 16",
    "ddp4, merged",
    "pipeline2, full",
    "pipeline2, device",
    "pipeline2, merged",
    "simple_add twice, device",
}
"""Of each kind; the others are slow together."""


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in JOBS]
)
def test_every_rank_ends_when_astra_sim_says(name: str, tmp_path: Path) -> None:
    folder = written(name, tmp_path / "job")
    if folder is None:
        pytest.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
    if binary() is None and name not in recorded():
        pytest.skip(
            "ASTRA-sim's cycles are not recorded since the export changed: name its binary in ASTRA_SIM"
        )
    cycles = recorded()[name] if binary() is None else cycles_of(folder)
    assert our_ends_ns(folder) == pytest.approx(cycles, rel=TOLERANCE)


def test_records_are_of_jobs() -> None:
    assert set(recorded()) <= set(JOBS)
    assert set(recorded()) >= QUICK
    assert recorded()["golden"] == [GOLDEN_CYCLES] * 4
