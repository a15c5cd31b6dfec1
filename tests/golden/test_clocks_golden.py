"""The clocks of real jobs: ranks of one host have one clock."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tracebraid.api.job.whole_job import linked_ranks
from tracebraid.linking.ranks.clocks.clocks import clocks_of
from tracebraid.model.collectives.codes import SAME_CLOCK_NS, ClockMethod
from tracebraid.model.finding_code import FindingCode

DEMO = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"


def test_four_ranks_of_a_host_that_no_trace_names_have_one_clock(real_traces: Path) -> None:
    """V100s of one host by their process ids; times are in whole microseconds."""
    folder = real_traces / "pairs" / "dlrm_v100_8rank"
    linked = linked_ranks(tracebraid.open(folder))
    assert linked.ranks.get_column("host").null_count() == 4
    others = linked.clocks.filter(linked.clocks.get_column("rank") > 0)
    assert others.get_column("method").to_list() == [ClockMethod.COLLECTIVES.value] * 3
    assert others.get_column("collectives").to_list() == [8] * 3
    assert (others.get_column("offset_ns").abs() <= 2_000).all()
    assert (others.get_column("offset_low_ns") < 0).all()
    assert (others.get_column("offset_high_ns") > 0).all()
    assert others.get_column("drift_ppm").to_list() == [0.0] * 3
    found = {diagnosis.finding.code for diagnosis in tracebraid.check(folder).diagnoses}
    assert FindingCode.CLOCKS_DIFFER not in found


@pytest.mark.parametrize("named", [True, False])
def test_two_ranks_of_gloo_on_one_host(named: bool) -> None:
    """The host is named; where it is not, the ends of gloo's ranges, up to 6 ms apart, agree with one clock too."""

    linked = linked_ranks(tracebraid.open(DEMO))
    ranks = linked.ranks if named else linked.ranks.with_columns(host=None)
    row = clocks_of(linked.members, linked.collectives, ranks).row(1, named=True)
    assert row["method"] == (ClockMethod.SAME_HOST if named else ClockMethod.COLLECTIVES).value
    assert abs(row["offset_ns"]) < SAME_CLOCK_NS
    assert row["offset_low_ns"] <= 0 <= row["offset_high_ns"]
