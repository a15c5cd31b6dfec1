"""Whole jobs as Chakra traces, on lanes of their own: the simulation ends when the job ended, whatever the detail."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tracebraid.api.chakra.running import ChakraHardware
from tracebraid.model.chakra.codes import Detail, MissingRanks

_ERROR_NS = 20_000
"""Durations are written in whole us, and clocks of ranks are known to within some."""


def _check(source: Path, folder: Path) -> None:
    job = tracebraid.open(source)
    moments = tracebraid.dependency_graph(job).moments.time_ns
    measured_ns = int(moments.max() - moments.min())
    for detail in (Detail.FULL, Detail.DEVICE):
        options = tracebraid.ChakraOptions(detail, missing=MissingRanks.SHRINK)
        out = folder / detail.value
        tracebraid.export(job, out, "chakra", tracebraid.ExportOptions(chakra=options))
        found = tracebraid.run_chakra(out, hardware=ChakraHardware(lanes="unlimited"))
        assert found.waits.is_empty()
        assert abs(found.runs.get_column("end_ns").item() - measured_ns) <= _ERROR_NS


def test_the_demo_ends_when_it_did(demo: Path, tmp_path: Path) -> None:
    _check(demo, tmp_path)


@pytest.mark.parametrize("name", ["pairs/dlrm_v100_8rank", "kineto/sampled_2_of_128"])
def test_real_jobs_end_when_they_did(name: str, real_traces: Path, tmp_path: Path) -> None:
    _check(real_traces / name, tmp_path)
