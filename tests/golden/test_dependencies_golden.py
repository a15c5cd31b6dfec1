"""Dependencies of real traces: how many of each kind, by what evidence, and all of them forward in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import names_of, pair
from tests.golden.test_launches_golden import KINETO_FILES, alone
from tracebraid.linking.dependencies.dependencies import find_dependencies
from tracebraid.linking.nesting import TOLERANCE_NS
from tracebraid.model.linked_trace import LinkedTrace

COUNTS = {
    "a100_alexnet_cuda_sync": {"event_wait": 6, "launch": 98, "stream_order": 96, "sync": 25},
    "a100_event_sync": {"launch": 5, "stream_order": 4, "sync": 5},
    "a100_event_sync_multi_stream": {"event_wait": 1, "launch": 6, "stream_order": 3, "sync": 5},
    "a100_ddp_nccl_rank0of2": {
        "forward_backward": 1086,
        "inter_thread": 6,
        "launch": 3774,
        "stream_order": 3772,
    },
    "mi250_minitoy_train": {"forward_backward": 8, "inter_thread": 2, "launch": 16, "stream_order": 15},
    "mi300x_decode_graph_launch": {"launch": 558, "stream_order": 556, "sync": 1},
    "v100_rank1of2_54MB": {
        "forward_backward": 20,
        "inter_thread": 10,
        "launch": 22_290,
        "stream_order": 22_288,
    },
}


def counts(linked: LinkedTrace) -> dict[str, int]:
    kinds = linked.dependencies.get_column("kind").cast(pl.String).value_counts()
    return dict(sorted(kinds.iter_rows()))


def named(linked: LinkedTrace, kind: str) -> list[tuple[str, str, str, str]]:
    names = names_of(linked)
    rows = linked.dependencies.filter(pl.col("kind").cast(pl.String) == kind)
    columns = ("before_event", "before_moment", "after_event", "after_moment")
    return [(names[a], m, names[b], k) for a, m, b, k in rows.select(columns).iter_rows()]


@pytest.mark.parametrize("name", COUNTS)
def test_how_many_dependencies_of_each_kind(real_traces: Path, name: str) -> None:
    assert counts(alone(real_traces / f"kineto/{name}.json.gz")) == COUNTS[name]


@pytest.mark.parametrize("name", KINETO_FILES)
def test_all_dependencies_hold_in_time_and_none_is_contradicted(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"{name}.json.gz")
    slack = linked.dependencies.get_column("slack_ns")
    assert (slack >= -TOLERANCE_NS).all()
    assert [one for one in linked.findings if one.code == "dependency-backward"] == []


@pytest.mark.parametrize("name", KINETO_FILES)
def test_all_work_of_a_stream_but_the_first_follows_other_work_there(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"{name}.json.gz")
    lanes = (
        linked.timeline.device_work.join(linked.timeline.events, on="event_id").get_column("lane").n_unique()
    )
    followed = counts(linked).get("stream_order", 0)
    assert followed == linked.device_links.height - lanes


def test_each_step_hands_over_to_backward_and_back(real_traces: Path) -> None:
    linked = alone(real_traces / "kineto/v100_rank1of2_54MB.json.gz")
    there = ("aten::ones_like", "end", "autograd::engine::evaluate_function: SumBackward0", "start")
    last = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    back = (last, "end", "Optimizer.step#SGD.step", "start")
    assert sorted(named(linked, "inter_thread")) == [there] * 5 + [back] * 5


def test_dlrms_hand_overs_and_blocking_calls(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank")
    assert counts(linked) == {
        "forward_backward": 76,
        "inter_thread": 2,
        "launch": 261,
        "stream_order": 257,
        "sync": 10,
    }
    assert named(linked, "inter_thread")[1] == ("aten::_local_scalar_dense", "end", "## backward ##", "end")
    sync = linked.dependencies.filter(pl.col("kind").cast(pl.String) == "sync").get_column("evidence")
    assert dict(sorted(sync.value_counts().iter_rows())) == {
        "cudaMemcpyAsync outlasts it": 2,
        "cudaStreamSynchronize outlasts it": 8,
    }


def test_what_the_device_recorded_agrees_with_what_the_effect_alone_proves(real_traces: Path) -> None:
    """Without its `cuda_sync` events, alexnet's blocking calls lead to the same work wherever they had to wait."""
    linked = alone(real_traces / "kineto/a100_alexnet_cuda_sync.json.gz")
    bare = replace(
        linked.timeline, tables={**linked.timeline.tables, "syncs": linked.timeline.tables["syncs"].clear()}
    )
    found = find_dependencies(bare, linked.host_tree, linked.device_links, linked.forward_backward).table
    pairs = [
        set(
            one.filter(pl.col("kind").cast(pl.String) == "sync")
            .select("before_event", "after_event")
            .iter_rows()
        )
        for one in (found, linked.dependencies)
    ]
    assert pairs[0] <= pairs[1]
    assert (len(pairs[0]), len(pairs[1])) == (17, 25)
