"""Whether the ranks of a job communicate the same: collectives in the same order, and both ends of each message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from tracebraid.chakra.checking.astra_sim import MEETS_NOBODY
from tracebraid.chakra.checking.communication import ALL_RANKS, COMMUNICATION_TYPES
from tracebraid.chakra.checking.groups import Groups, listed
from tracebraid.chakra.checking.lint_located import short
from tracebraid.chakra.checking.rank_facts import RankFacts
from tracebraid.model.chakra.lint import LintFinding, RankNode
from tracebraid.model.chakra.lint_code import LintCode

__all__ = ["collective_faults", "message_faults", "rank_number_faults", "world_group_faults"]

_COLLECTIVE, _SEND, _RECEIVE = COMMUNICATION_TYPES
_ENDS = ["src", "dst", "comm_tag", "comm_size"]


def rank_number_faults(ranks: Sequence[int], path: str) -> list[LintFinding]:
    """Whether the ranks are those from 0 up, without a gap.

    Args:
        ranks: all that have a file, also one that cannot be read.
        path: of the job.
    """
    there = set(ranks)
    if not there or there == set(range(len(there))):
        return []
    last = max(there)
    details = {
        "shown": listed(sorted(there)),
        "last": last,
        "missing": listed([rank for rank in range(min(last, len(there) + 64)) if rank not in there]),
    }
    return [LintFinding(LintCode.RANKS_MISSING, path, details=details)]


def collective_faults(ranks: Sequence[RankFacts], groups: Groups) -> list[LintFinding]:
    """Where the members of a group issue other collectives than each other; of each group the first such position."""
    issued = _collectives(ranks)
    members = pl.DataFrame(
        [(group, rank) for group, own in groups.members.items() for rank in own],
        schema={"group": pl.String, "rank": pl.Int64},
        orient="row",
    )
    issued = issued.join(members, on=["group", "rank"], how="semi", maintain_order="left")
    return [
        *_differing(issued, "comm_type", LintCode.COLLECTIVES_DIFFER),
        *_differing(issued, "comm_size", LintCode.SIZES_DIFFER),
        *_missing(issued, members),
    ]


def world_group_faults(ranks: Sequence[RankFacts]) -> list[LintFinding]:
    """Collectives of the unnamed group of all ranks that ASTRA-sim numbers otherwise on each rank."""
    sent = _collectives(ranks).filter(~pl.col("comm_type").is_in(list(MEETS_NOBODY)))
    sent = sent.with_columns(before=pl.int_range(pl.len()).over("rank"))
    sent = sent.filter(pl.col("group") == ALL_RANKS)
    sent = sent.with_columns(position=pl.int_range(pl.len()).over("rank"))
    return _differing(sent, "before", LintCode.ASTRA_WORLD_GROUP)


def _collectives(ranks: Sequence[RankFacts]) -> pl.DataFrame:
    """The collectives of all ranks in the order in which each issues them, with their position in their group."""
    columns = ("node_id", "comm_type", "comm_size", "group")
    parts = [
        facts.communication.filter(pl.col("type") == _COLLECTIVE).select(
            *columns, rank=pl.lit(facts.checked.rank, dtype=pl.Int64)
        )
        for facts in ranks
    ]
    text, number = pl.String, pl.Int64
    empty = {"node_id": number, "comm_type": text, "comm_size": number, "group": text, "rank": number}
    issued = pl.concat(parts) if parts else pl.DataFrame(schema=empty)
    return issued.with_columns(position=pl.int_range(pl.len()).over("group", "rank"))


def _differing(issued: pl.DataFrame, column: str, code: LintCode) -> list[LintFinding]:
    """The first position in each group at which a column differs, with two ranks that differ there."""
    met = issued.group_by("group", "position", maintain_order=True).agg(
        values=pl.col(column).n_unique(), types=pl.col("comm_type").n_unique()
    )
    wrong = met.filter(pl.col("values") > 1)
    if column == "comm_size":
        # Where even the types differ, that is said.
        wrong = wrong.filter(pl.col("types") == 1)
    firsts = wrong.group_by("group", maintain_order=True).agg(pl.col("position").min(), count=pl.len())
    found = []
    for group, position, count in firsts.iter_rows():
        at = issued.filter((pl.col("group") == group) & (pl.col("position") == position)).sort("rank")
        first = at.row(0, named=True)
        other = at.filter(pl.col(column).ne_missing(first[column])).row(0, named=True)
        details = _details(first, other, column)
        nodes = (RankNode(first["rank"], first["node_id"]), RankNode(other["rank"], other["node_id"]))
        found.append(LintFinding(code, "", nodes, count, details))
    return found


def _details(first: dict[str, Any], other: dict[str, Any], column: str) -> dict[str, object]:
    unknown = "an unknown type" if column == "comm_type" else 0
    return {
        "group": short(first["group"]),
        "position": first["position"],
        "type": first["comm_type"] or "of an unknown type",
        "first": unknown if first[column] is None else first[column],
        "first_rank": first["rank"],
        "other": unknown if other[column] is None else other[column],
        "other_rank": other["rank"],
    }


def _missing(issued: pl.DataFrame, members: pl.DataFrame) -> list[LintFinding]:
    """Groups of which members issue more collectives than others; the first that a member lacks is named."""
    used = members.filter(pl.col("group").is_in(issued.get_column("group").unique().to_list()))
    counts = issued.group_by("group", "rank").len("count")
    counts = used.join(counts, on=["group", "rank"], how="left").with_columns(pl.col("count").fill_null(0))
    found = []
    for (group,), own in counts.sort("group", "rank").group_by("group", maintain_order=True):
        if own.get_column("count").n_unique() < 2:
            continue
        least, most = (
            own.sort("count", "rank").row(0, named=True),
            own.sort("count", "rank").row(-1, named=True),
        )
        extra = issued.filter(
            (pl.col("group") == group)
            & (pl.col("rank") == most["rank"])
            & (pl.col("position") >= least["count"])
        )
        nodes = tuple(RankNode(most["rank"], node) for node in extra.get_column("node_id").head(3))
        details = {
            "group": short(str(group)),
            "first_rank": most["rank"],
            "first": most["count"],
            "other_rank": least["rank"],
            "other": least["count"],
        }
        found.append(LintFinding(LintCode.COLLECTIVES_MISSING, "", nodes, 1, details))
    return found


def message_faults(ranks: Sequence[RankFacts]) -> list[LintFinding]:
    """Sends that nobody receives, receives that nobody sends, and peers that are not there."""
    parts = [
        facts.communication.filter(pl.col("type") != _COLLECTIVE)
        .filter(pl.col("src").is_not_null() & pl.col("dst").is_not_null())
        .select(
            "node_id",
            "type",
            "src",
            "dst",
            pl.col("comm_tag").fill_null(0),
            "comm_size",
            rank=pl.lit(facts.checked.rank, dtype=pl.Int64),
        )
        for facts in ranks
    ]
    ends = pl.concat(parts) if parts else pl.DataFrame()
    if not ends.height:
        return []
    there = [facts.checked.rank for facts in ranks]
    peer = pl.when(pl.col("rank") == pl.col("src")).then("dst").otherwise("src")
    ends = ends.with_columns(peer=peer)
    absent = ends.filter(~pl.col("peer").is_in(there))
    found = [
        LintFinding(LintCode.PEER_ABSENT, "", _nodes(own), own.height, {"peer": name})
        for (name,), own in absent.group_by("peer", maintain_order=True)
    ]
    present = ends.filter(pl.col("peer").is_in(there))
    present = present.with_columns(position=pl.int_range(pl.len()).over("type", *_ENDS))
    for kind, other, code in (
        (_SEND, _RECEIVE, LintCode.SEND_WITHOUT_RECEIVE),
        (_RECEIVE, _SEND, LintCode.RECEIVE_WITHOUT_SEND),
    ):
        alone = present.filter(pl.col("type") == kind).join(
            present.filter(pl.col("type") == other),
            on=[*_ENDS, "position"],
            how="anti",
            nulls_equal=True,
            maintain_order="left",
        )
        for _, own in alone.group_by("src", "dst", maintain_order=True):
            first = own.row(0, named=True)
            details = {
                "src": first["src"],
                "dst": first["dst"],
                "tag": first["comm_tag"],
                "size": first["comm_size"] or 0,
            }
            found.append(LintFinding(code, "", _nodes(own), own.height, details))
    return found


def _nodes(ends: pl.DataFrame) -> tuple[RankNode, ...]:
    return tuple(RankNode(rank, node) for rank, node in ends.select("rank", "node_id").head(3).iter_rows())
