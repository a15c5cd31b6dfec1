"""Collectives of real traces: of several ranks, of sampled ones, and of a single one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import write
from tests.golden.test_analyze_golden import FILES, as_hta, hta, linked_file, linked_of
from tests.golden.test_idle_golden import DLRM as DLRM_RANKS
from tests.golden.test_idle_golden import is_kernel, launched_within
from tests.linked_ranks import linked_ranks
from tests.property.test_time import check_communication, check_steps
from tracebraid import link
from tracebraid.analysis.catalog import all_analyses
from tracebraid.analysis.collectives.matched_groups import MATCHED_GROUPS
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.device import device_events
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.exposed_collectives import exposed_collectives
from tracebraid.analysis.time.overlap import overlap
from tracebraid.analysis.time.step_times import step_times
from tracebraid.linking.ranks.clocks import clocks_of
from tracebraid.model.analysis import Family, JobAnalysis
from tracebraid.model.collectives import SAME_CLOCK_NS, ClockMethod, CollectiveType, TransferMethod
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import MEMBERS

ANALYSES = [found for found in all_analyses() if found.family is Family.COLLECTIVES]

SAMPLED = "kineto/sampled_2_of_128"
DLRM = "pairs/dlrm_v100_8rank"
CLOCK_NS = 10_000
"""How well the ends of a collective agree between ranks of one host, with times in whole µs."""


def parts_add_up(ranks: LinkedRanks) -> None:
    found = next(a for a in ANALYSES if a.name == "collective_ranks").answer(ranks)
    parts = pl.sum_horizontal("waiting_ns", "transfer_ns", "rest_ns")
    assert found.select((parts == pl.col("dur_ns")).all()).item()
    assert found.select(pl.all_horizontal(pl.col("waiting_ns", "transfer_ns", "rest_ns") >= 0).all()).item()
    assert found.height == ranks.members.height


@pytest.mark.parametrize("name", FILES)
def test_every_trace_is_answered_as_a_job_of_one_rank(real_traces: Path, name: str) -> None:
    gathers = {
        gather for analysis in ANALYSES if isinstance(analysis, JobAnalysis) for gather in analysis.gathers
    }
    ranks = linked_ranks(linked_of(real_traces, name), tuple(gathers))
    for analysis in ANALYSES:
        found = analysis.answer(ranks)
        assert dict(found.schema) == analysis.table.polars_schema()
    parts_add_up(ranks)


@pytest.mark.parametrize("name", [DLRM, SAMPLED])
def test_parts_of_members_add_up(real_traces: Path, name: str) -> None:
    parts_add_up(linked_ranks(tracebraid.open(real_traces / name)))


def test_four_ranks_of_dlrm(real_traces: Path) -> None:
    job = tracebraid.open(real_traces / DLRM)
    found = tracebraid.analyses.collectives(job)
    assert found.height == 8
    assert found.get_column("ranks").to_list() == [[0, 1, 2, 3]] * 8
    # All end together: from the last arrival on it takes as long as the shortest member, clocks aside.
    members = tracebraid.analyses.collective_ranks(job)
    shortest = members.group_by("collective").agg(pl.col("dur_ns").min())
    both = found.join(shortest, on="collective")
    assert both.select(((pl.col("transfer_ns") - pl.col("dur_ns")).abs() <= CLOCK_NS).all()).item()
    # Four of eight ranks are missing, and the traces do not say so: nothing says that a transfer is no bound.
    assert found.get_column("is_bound").null_count() == 8
    totals = tracebraid.analyses.collective_totals(job).sort("caused_ns", descending=True)
    assert totals.item(0, "rank") == 2
    assert totals.item(0, "times_last") == 5
    assert totals["caused_ns"].sum() == totals["waiting_ns"].sum()


def test_a_single_rank_of_two_bounds_its_transfers(real_traces: Path) -> None:
    linked = linked_of(real_traces, "a100_ddp_nccl_rank0of2")
    found = tracebraid.analyses.collectives(linked)
    assert set(found.get_column("transfer_method")) == {TransferMethod.DURATION.value}
    assert found.filter(pl.col("group_size") == 2).get_column("is_bound").all()
    assert found.get_column("waiting_ns").null_count() == found.height
    assert found.get_column("bus_bytes_per_s").null_count() < found.height


def test_sampled_ranks_wait_only_where_they_are_matched(real_traces: Path) -> None:
    members = tracebraid.analyses.collective_ranks(tracebraid.open(real_traces / SAMPLED))
    alone = pl.col("collective").is_null()
    assert members.filter(alone).get_column("waiting_ns").null_count() == members.filter(alone).height
    assert members.filter(~alone).get_column("waiting_ns").null_count() == 0


def test_the_demo_has_no_bound() -> None:
    job = tracebraid.open(tracebraid.demo_path())
    found = tracebraid.analyses.collectives(job)
    assert found.height == 9
    assert set(found.get_column("transfer_method")) == {TransferMethod.LAST_ARRIVAL.value}
    assert not found.get_column("is_bound").any()
    assert found.get_column("bus_bytes_per_s").null_count() == 0


# --- Members of real ranks: all that DLRM's four ranks have in common, and of sampled ranks onl ------


TYPES = {kind.value for kind in CollectiveType}


def test_all_collectives_of_dlrms_four_ranks_are_matched(real_traces: Path) -> None:
    linked = linked_ranks(tracebraid.open(real_traces / "pairs/dlrm_v100_8rank"))
    assert linked.members.height == 32
    assert linked.members.get_column("collective").null_count() == 0
    assert linked.collectives.get_column("ranks").to_list() == [[0, 1, 2, 3]] * 8
    assert linked.collectives.get_column("type").value_counts().sort("type").rows() == [
        ("all_reduce", 3),
        ("all_to_all", 5),
    ]
    assert linked.collectives.get_column("agrees").all()
    assert not linked.findings
    # The ends of a collective's members lie within 10 us on one host; the next collective's are far.
    spread = linked.members.group_by("collective").agg(pl.col("end_ns").max() - pl.col("end_ns").min())
    assert spread.get_column("end_ns").to_list() == pytest.approx([0] * 8, abs=10_000)


def test_of_sampled_ranks_only_collectives_that_ended_together_are_matched(real_traces: Path) -> None:
    linked = linked_ranks(tracebraid.open(real_traces / "kineto/sampled_2_of_128"))
    assert linked.members.height == 20
    assert linked.collectives.height == 5
    assert linked.collectives.get_column("type").sort().to_list() == [
        "all_gather",
        "all_gather",
        "all_reduce",
        "all_reduce",
        "all_to_all",
    ]
    matched = linked.members.drop_nulls("collective").group_by("collective")
    spread = matched.agg(pl.col("end_ns").max() - pl.col("end_ns").min()).get_column("end_ns")
    assert spread.to_list() == pytest.approx([0] * 5, abs=400_000)


def test_all_collectives_of_the_demo_are_matched(demo: Path) -> None:
    linked = linked_ranks(tracebraid.open(demo))
    assert linked.members.height == 18
    assert linked.collectives.height == 9
    assert linked.collectives.get_column("missing").list.len().sum() == 0
    assert linked.collectives.get_column("agrees").all()


@pytest.mark.full
def test_members_of_real_traces_have_types_bytes_and_groups(real_traces: Path) -> None:
    for path in sorted((real_traces / "kineto").glob("*.json.gz")):
        linked = tracebraid.link(None, path)
        found = members(linked)
        assert found.schema == pl.Schema(MEMBERS.polars_schema())
        assert set(found.get_column("type").drop_nulls()) <= TYPES
        assert (found.get_column("end_ns") >= found.get_column("start_ns")).all()
        assert found.get_column("event_id").is_unique().all()
        table = tracebraid.analyses.matched_groups(linked)
        assert table.schema == pl.Schema(MATCHED_GROUPS.polars_schema())
        assert table.get_column("members").sum() == found.height
        assert table.get_column("unmatched").sum() == found.height


def test_arguments_of_nccl_say_bytes_groups_and_launches(real_traces: Path) -> None:
    found = members(tracebraid.link(None, real_traces / "kineto/a100_ddp_nccl_rank0of2.json.gz"))
    assert found.height == 21
    assert found.get_column("group_ranks").to_list() == ["[0,1]"] * 21
    assert found.filter(pl.col("type") == "all_reduce").get_column("in_bytes").min() == 8_196_000
    assert (found.get_column("issued_ns") < found.get_column("start_ns")).all()
    assert found.get_column("algorithm").unique().to_list() == ["RING"]


# --- The clocks of real jobs: ranks of one host have one clock ---------------------------------------


DEMO = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"


@pytest.mark.full
def test_four_ranks_of_a_host_that_no_trace_names_have_one_clock(real_traces: Path) -> None:
    """V100s of one host by their process ids; times are in whole microseconds."""
    folder = real_traces / "pairs" / "dlrm_v100_8rank"
    linked = linked_ranks(tracebraid.open(folder))
    assert linked.ranks.get_column("host").null_count() == 4
    others = linked.clocks.filter(linked.clocks.get_column("rank") > 0)
    assert others.get_column("method").to_list() == [ClockMethod.COLLECTIVES.value] * 3
    assert others.get_column("collectives").to_list() == [8] * 3
    # One of the eight is an uneven all-to-all, whose ends say little.
    assert (others.get_column("offset_ns").abs() <= 2_500).all()
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


# --- Steps, overlap and exposed collectives on real traces -------------------------------------------


ALL = {**FILES, **DLRM_RANKS}


@pytest.mark.parametrize("name", sorted(ALL))
def test_parts_add_up_on_real_traces(real_traces: Path, name: str) -> None:
    linked = linked_file(real_traces / ALL[name])
    check_steps(linked)
    check_communication(linked)


@pytest.mark.parametrize("rank", [0, 1])
def test_parts_add_up_on_the_demo(demo: Path, rank: int) -> None:
    linked = linked_file(demo / f"kineto_trace_{rank}.json.gz")
    check_steps(linked)
    check_communication(linked)
    assert step_times(linked).height == 3


@pytest.mark.parametrize("name", ["sampled_2_of_128:0", "sampled_2_of_128:1"])
def test_the_share_is_htas_where_it_leaves_out_the_last_step(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    """HTA leaves out what was launched in the last ProfilerStep or after it."""
    assert share(real_traces, tmp_path, name) == hta(real_traces, name)["comp_comm_overlap_pctg"]


def test_htas_share_of_a_trace_in_ns_is_that_of_events_cut_to_whole_us(
    real_traces: Path, tmp_path: Path
) -> None:
    """HTA rounds each start up and each end down: the hidden share of this trace is 14.76 %, and it says 14.31 %."""
    name = "a100_ddp_nccl_rank0of2"
    linked = linked_of(real_traces, name)
    calls = linked.timeline.events.filter(pl.col("ts_ns") < step_times(linked).get_column("start_ns").max())
    start = pl.col("ts_ns") - linked.timeline.base_time_ns
    counted = device_events(linked).join(calls, left_on="call_event", right_on="event_id", how="semi")
    cut = counted.with_columns(
        ((start + 999) // 1000 * 1000).alias("ts_ns"),
        ((start + pl.col("dur_ns")) // 1000 * 1000).alias("end"),
    ).with_columns((pl.col("end") - pl.col("ts_ns")).alias("dur_ns"))
    expected, found = hta(real_traces, name), as_hta(cut)
    assert found == {key: expected[key] for key in found}
    assert share(real_traces, tmp_path, name) == as_hta(counted)["comp_comm_overlap_pctg"]
    assert found["comp_comm_overlap_pctg"] != as_hta(counted)["comp_comm_overlap_pctg"]


def test_nothing_is_hidden_on_the_v100_to_hta_and_to_us(real_traces: Path) -> None:
    linked = linked_of(real_traces, "v100_rank1of2_54MB")
    assert hta(real_traces, "v100_rank1of2_54MB")["comp_comm_overlap_pctg"] == 0
    assert overlap(linked).get_column("overlap_ns").to_list() == [0, 0]


def share(folder: Path, scratch: Path, name: str) -> float:
    """The share of hidden communication in percent, without what was launched in the last step or after it."""
    path = folder / FILES[name]
    last = step_times(linked_file(path)).get_column("start_ns").max()
    assert isinstance(last, int)
    trace = json.loads(gzip.decompress(path.read_bytes()))
    events = trace["traceEvents"]
    last_us = (last - trace.get("baseTimeNanoseconds", 0)) / 1000
    left_out = launched_within(events, last_us, float("inf"))
    trace["traceEvents"] = [
        e for e in events if not (is_kernel(e) and e["args"].get("correlation") in left_out)
    ]
    row = overlap(link(None, write(scratch / "kineto_trace_0.json", json.dumps(trace)))).row(0, named=True)
    return round(100 * float(row["overlap_share"]), 2)


def test_collectives_of_ddp_are_its_buckets(real_traces: Path) -> None:
    """Five buckets of gradients and two broadcasts of buffers, in each of three steps."""
    found = exposed_collectives(linked_of(real_traces, "a100_ddp_nccl_rank0of2"), per_step=True)
    steps = found.partition_by("step", as_dict=True)
    assert len(steps) == 3
    for rows in steps.values():
        counts = dict(rows.group_by("name").agg(pl.col("count").sum()).rows())
        assert set(counts) == {"allreduce", "broadcast"}
    whole = exposed_collectives(linked_of(real_traces, "a100_ddp_nccl_rank0of2"))
    assert dict(whole.group_by("name").agg(pl.col("count").sum()).rows()) == {"allreduce": 15, "broadcast": 6}
    assert set(whole.get_column("process_group")) == {"0"}


def test_the_exposed_communication_of_the_v100_is_all_in_its_collectives(real_traces: Path) -> None:
    linked = linked_of(real_traces, "v100_rank1of2_54MB")
    whole = breakdown(linked).filter(pl.col("step").is_null()).row(0, named=True)
    found = exposed_collectives(linked)
    assert found.get_column("exposed_ns").sum() == whole["exposed_communication_ns"]
    assert found.get_column("count").sum() == 2020
