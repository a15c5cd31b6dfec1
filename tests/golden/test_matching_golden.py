"""Members of real ranks: all that DLRM's four ranks have in common, and of sampled ranks only what they share."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tracebraid.analysis.collectives.members.members import members
from tracebraid.api.job.whole_job import linked_ranks
from tracebraid.model.answers import MATCHED_GROUPS
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.schema.ranks import MEMBERS

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


def test_members_of_real_traces_have_types_bytes_and_groups(real_traces: Path) -> None:
    for path in sorted((real_traces / "kineto").glob("*.json.gz")):
        linked = tracebraid.link(None, path)
        found = members(linked)
        assert found.schema == pl.Schema(MEMBERS.polars_schema())
        assert set(found.get_column("type").drop_nulls()) <= TYPES
        assert (found.get_column("end_ns") >= found.get_column("start_ns")).all()
        assert found.get_column("event_id").is_unique().all()
        table = tracebraid.matched_groups(linked)
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
