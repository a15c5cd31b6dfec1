"""Steps, overlap and exposed collectives on real traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from tests.builders import write
from tests.golden.test_analyze_golden import FILES, as_hta, hta, linked_file, linked_of
from tests.golden.test_validity_golden import DLRM, is_kernel, launched_within
from tests.property.test_time_parts import check_communication, check_steps
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.exposed_collectives import exposed_collectives
from tracebraid.analysis.time.overlap import overlap
from tracebraid.analysis.time.step_times import step_times
from tracebraid.api import link

ALL = {**FILES, **DLRM}


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
