"""Links of real pairs without ids: DLRM, whose ids drift, and an iteration among forty."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import names_of, node_names_of, pair, reasons
from tracebraid.api import link, write_et_plus
from tracebraid.errors import ArgumentError
from tracebraid.model.coverage import Count
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.reason import ChoiceReason, OrphanReason


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_node_of_dlrm_is_linked(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.coverage.et_nodes == Count(1672, 1672, {})
    assert linked.coverage.host_ops == Count(1673, 1672, {"alignment": 1649, "alignment_name": 23})
    # Kineto alone has this one.
    (left,) = linked.host_links.filter(pl.col("node_id").is_null()).get_column("event_id")
    assert names_of(linked)[left] == "ProfilerStep#10"


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_names_of_dlrm_agree_and_each_thread_is_one_thread(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.et is not None
    events, nodes = names_of(linked), node_names_of(linked)
    links = linked.host_links.drop_nulls("node_id").select("event_id", "node_id")
    assert all(events[event] == nodes[node] for event, node in links.iter_rows())
    threads = (
        links.join(linked.et.nodes.select("node_id", "tid"), on="node_id")
        .join(linked.timeline.events.select("event_id", "lane"), on="event_id")
        .select("tid", "lane")
        .unique()
    )
    assert threads.height == 2


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_nccl_kernel_of_dlrm_hangs_under_its_op(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    nodes = node_names_of(linked)
    name = pl.col("name").cast(pl.String)
    kernels = linked.device_links.join(
        linked.timeline.events.filter(name.str.starts_with("nccl")).select("event_id"), on="event_id"
    ).filter(pl.col("op_event").is_not_null())
    assert kernels.height == 8
    assert all(nodes[node].startswith("nccl:") for node in kernels.get_column("node_id"))


def test_the_one_iteration_of_linear_is_found_among_forty(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    assert linked.coverage.et_nodes == Count(928, 928, {})
    assert linked.coverage.host_ops == Count(928, 928, {"alignment": 928})
    assert reasons(linked, "host_op") == {OrphanReason.OTHER_ITERATION: 36_150}
    matched = linked.matched
    assert matched is not None
    assert (matched.agreement, matched.is_same_program) == (1.0, True)
    assert matched.iterations.height == 40
    assert matched.iterations.filter("is_chosen").get_column("iteration").to_list() == [10]
    assert matched.choice is not None
    assert matched.choice.reason is ChoiceReason.SAME_SEQUENCE_NUMBERS


def seqs(linked: LinkedTrace) -> set[int]:
    ops = linked.host_links.drop_nulls("node_id").join(linked.timeline.host_ops, on="event_id")
    return set(ops.get_column("sequence_number").drop_nulls())


def test_the_spread_over_all_iterations_of_linear_is_given(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    assert linked.matched is not None
    times = linked.matched.node_times
    assert times.height == 928
    # The first iteration has no gradients to add to.
    assert dict(times.get_column("iterations").value_counts().iter_rows()) == {40: 802, 39: 126}
    whole = linked.host_links.drop_nulls("node_id").join(linked.timeline.events, on="event_id")
    joined = times.join(whole, on="node_id")
    assert joined.select((pl.col("dur_ns").is_between("min_ns", "max_ns")).all()).item()
    assert joined.select((pl.col("median_ns").is_between("min_ns", "max_ns")).all()).item()


def test_the_et_plus_of_linear_holds_the_device_events_of_its_iteration(
    real_traces: Path, tmp_path: Path
) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    write_et_plus(linked, tmp_path / "et_plus.json")
    nodes = json.loads((tmp_path / "et_plus.json").read_text())["nodes"]
    device = [one for one in nodes if "cat" in one]
    mine = linked.device_links.filter(pl.col("node_id").is_not_null())
    assert len(device) == mine.height == 261
    assert all("orphan" not in one for one in device)


def test_an_iteration_of_linear_can_be_asked_for(real_traces: Path) -> None:
    folder = real_traces / "pairs/linear_2080ti"
    files = folder / "torch_et_0.json.gz", folder / "kineto_trace_0.json.gz"
    best = pair(folder)
    assert min(seqs(best)) == 660
    for number, count in ((0, 802), (7, 928), (39, 928)):
        linked = link(*files, matching=Matching(iteration=number))
        assert linked.coverage.et_nodes.linked == count
        assert min(seqs(linked)) == 66 * number
    median = link(*files, matching=Matching(iteration="median"))
    assert median.matched is not None
    assert median.matched.choice is not None
    assert median.matched.choice.reason is ChoiceReason.MEDIAN_LENGTH
    by_mark = link(*files, matching=Matching(annotation="Optimizer.zero_grad"))
    # The annotation stands behind the forward pass, and begins an iteration of its own.
    assert by_mark.coverage.et_nodes.linked == 758
    with pytest.raises(ArgumentError, match="there is no iteration 40; there are 40"):
        link(*files, matching=Matching(iteration=40))
    with pytest.raises(ArgumentError, match="'Nowhere'"):
        link(*files, matching=Matching(annotation="Nowhere"))
