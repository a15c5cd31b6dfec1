"""Execution Trace node to host op where ids do not prove links: sequences, interval, alignment, link tables."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.errors import ProgramError
from tracebraid.linking.alignment.alignment import Aligned, align_ops
from tracebraid.linking.alignment.intervals import Interval, choose_interval
from tracebraid.linking.alignment.node_times import node_times
from tracebraid.linking.alignment.op_sequences import OpSequence, sequence_of_nodes, sequence_of_ops
from tracebraid.linking.alignment.program import program_of
from tracebraid.model.column import Table
from tracebraid.model.et_names import PROCESS_GROUP_INIT
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.matched import Matched
from tracebraid.model.matching import Matching
from tracebraid.model.reason import OrphanReason
from tracebraid.model.schema import HOST_LINKS, NODE_LINKS
from tracebraid.model.timeline import Timeline

__all__ = ["Approximate", "link_approximately"]

_LEAST_AGREEMENT = 0.5
"""Where fewer ops of the smaller trace find a partner, the two are of different programs."""
_LEAST_LIKENESS = 0.9
"""Unless so many have a partner, or could be several."""
_FEW = 20
"""Ops; of fewer in the smaller trace, shares say nothing on whether both are of one program. Chosen."""


@dataclass(frozen=True)
class Approximate:
    """The tables `host_links` and `node_links`, with rows that were linked before as they were."""

    hosts: pl.DataFrame
    nodes: pl.DataFrame
    matched: Matched


def link_approximately(
    et: ExecutionTrace,
    timeline: Timeline,
    tree: pl.DataFrame,
    known: tuple[pl.DataFrame, pl.DataFrame],
    matching: Matching,
) -> Approximate:
    """Link by alignment what is not linked yet.

    Args:
        et: the Execution Trace.
        timeline: the Kineto trace.
        tree: its `host_tree`.
        known: the tables `host_links` and `node_links` so far.
        matching: how.

    Raises:
        ProgramError: too little of the one is in the other.
        ArgumentError: the annotation or iteration that was asked for is not there.
    """
    hosts, node_links = known
    open_nodes = node_links.filter(pl.col("event_id").is_null()).get_column("node_id")
    open_ops = hosts.filter(pl.col("node_id").is_null()).get_column("event_id")
    nodes = _within(sequence_of_nodes(et), open_nodes)
    nodes = OpSequence(nodes.rows.filter(pl.col("name") != PROCESS_GROUP_INIT))
    ops = _within(sequence_of_ops(timeline, tree), open_ops)
    interval = choose_interval(nodes, ops, matching)
    aligned = align_ops(interval.nodes, interval.ops)
    pairs = aligned.pairs
    agreement, ambiguous = _shares(interval, aligned)
    if open_nodes.len() == node_links.height:
        _check_program(interval, agreement, ambiguous, (et, timeline))
    matched = Matched(
        agreement,
        (program_of(interval.nodes), program_of(interval.ops)),
        ambiguous,
        interval.choice,
        interval.table,
        node_times(interval, pairs, timeline),
    )
    return Approximate(*_tables(known, (nodes, ops), interval, aligned), matched)


def _tables(
    known: tuple[pl.DataFrame, pl.DataFrame],
    sequences: tuple[OpSequence, OpSequence],
    interval: Interval,
    aligned: Aligned,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both link tables, with what was found."""
    pairs, candidates = aligned.pairs, aligned.candidates
    hosts = _updated(
        known[0],
        pairs.rename({"node_id": "found"}),
        candidates.rename({"node_id": "could_be"}),
        (sequences[1], interval.ops),
        HOST_LINKS,
    )
    nodes = _updated(
        known[1],
        pairs.select("node_id", pl.col("event_id").alias("found")),
        candidates.rename({"event_id": "could_be"}),
        (sequences[0], interval.nodes),
        NODE_LINKS,
    )
    return hosts, nodes


def _shares(interval: Interval, aligned: Aligned) -> tuple[float, float]:
    """The shares of the smaller trace's ops that are paired, and that could be several."""
    nodes, ops = interval.nodes.rows.height, interval.ops.rows.height
    if min(nodes, ops) == 0:
        return 1.0, 0.0
    doubtful = aligned.candidates.get_column("node_id" if nodes <= ops else "event_id").n_unique()
    return aligned.pairs.height / min(nodes, ops), doubtful / min(nodes, ops)


def _check_program(
    interval: Interval, agreement: float, ambiguous: float, traces: tuple[ExecutionTrace, Timeline]
) -> None:
    """An error where too little of one trace is in the other for both to be of one program."""
    smaller = min(interval.nodes.rows.height, interval.ops.rows.height)
    # What recurs has its like everywhere: all of it could be several, and it is the same program.
    if smaller < _FEW or agreement >= _LEAST_AGREEMENT or agreement + ambiguous >= _LEAST_LIKENESS:
        return
    et, timeline = traces
    raise ProgramError(
        et.path,
        f"it is not of the program of {timeline.path}: of {smaller:,} ops, {round(agreement * smaller):,} have a "
        f"partner in the other trace ({agreement:.0%})",
        "Give traces of one program, or match them exactly, which links by ids alone",
    )


def _within(sequence: OpSequence, ids: pl.Series) -> OpSequence:
    return OpSequence(sequence.rows.filter(pl.col("id").is_in(ids.implode())))


def _updated(
    links: pl.DataFrame,
    pairs: pl.DataFrame,
    candidates: pl.DataFrame,
    sequences: tuple[OpSequence, OpSequence],
    table: Table,
) -> pl.DataFrame:
    """A link table with what was found: its first column is the key, its second one what it is linked to."""
    key, partner, *others = (column.name for column in table.columns)
    could_be = candidates.group_by(key).agg(pl.col("could_be").unique().sort())
    # What could be linked, and of it what was in scope.
    expected, in_scope = (
        pl.col(key).is_in(sequence.rows.get_column("id").implode()) for sequence in sequences
    )
    found = links.join(pairs, on=key, how="left", suffix="_found", maintain_order="left").join(
        could_be, on=key, how="left", maintain_order="left"
    )
    is_found = pl.col("found").is_not_null()
    reason = (
        pl.when(is_found)
        .then(None)
        .when(pl.col("could_be").is_not_null())
        .then(pl.lit(OrphanReason.SEVERAL_CANDIDATES.value))
        .when(expected & ~in_scope)
        .then(pl.lit(OrphanReason.OTHER_ITERATION.value))
        .when(expected)
        .then(pl.lit(OrphanReason.NO_COUNTERPART.value))
        .otherwise(as_text("reason"))
    )
    extra = {
        name: pl.when(is_found).then(f"{name}_found").otherwise(pl.col(name).cast(dtype))
        for name, dtype in (("method", pl.String), ("confidence", pl.Float64))
        if name in others
    }
    updated = found.with_columns(
        reason.alias("reason"),
        pl.col("could_be").alias("candidates"),
        pl.coalesce(partner, "found").alias(partner),
        **extra,
    )
    return table.conform(updated)
