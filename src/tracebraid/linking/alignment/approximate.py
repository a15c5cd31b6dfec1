"""Link Execution Trace nodes to host ops without ids: sequences, interval, alignment, link tables."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.errors import ProgramError
from tracebraid.linking.alignment.intervals import Interval, choose_interval
from tracebraid.linking.alignment.op_sequences import (
    Codes,
    OpSequence,
    codes_of,
    sequence_of_nodes,
    sequence_of_ops,
    threads_of,
)
from tracebraid.linking.alignment.sequences import NONE, align, gaps
from tracebraid.model.column import Table
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.et_names import PROCESS_GROUP_INIT
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.matching import Matched, Matching
from tracebraid.model.rows import nearest_ancestors
from tracebraid.model.schema import HOST_LINKS, NODE_LINKS, NODE_TIMES
from tracebraid.model.timeline import Timeline


def depths_of(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows are around each row, in as many passes as the largest number has bits."""
    depth = (parent >= 0).astype(np.int64)
    ancestor = parent
    # Pointers are doubled: after k passes each row knows its 2^k nearest ancestors.
    while len(rows := np.flatnonzero(ancestor >= 0)):
        above = ancestor[rows]
        depth[rows], ancestor = depth[rows] + depth[above], ancestor.copy()
        ancestor[rows] = ancestor[above]
    return depth


_DIGITS = 16
"""Hexadecimal digits of a hash: 64 bits, so that no two of a million programs have one by chance (birthday bound)."""


def program_of(sequence: OpSequence) -> str:
    """A hash of the op trees of all threads: names and nesting in order; numbers of annotations do not count.

    Traces with equal hashes contain the same program, regardless of thread names.
    """
    rows = sequence.rows.with_row_index("row")
    enclosing = rows.select("parent").join(
        rows.select("id", pl.col("row").cast(pl.Int64)),
        left_on="parent",
        right_on="id",
        how="left",
        maintain_order="left",
    )
    parent = enclosing.get_column("row").fill_null(-1).to_numpy()
    lines = rows.select(
        "thread", pl.format("{} {}", pl.Series("depth", depths_of(parent)), "name").alias("line")
    )
    trees = lines.group_by("thread").agg(pl.col("line").str.join("\n"))
    threads = sorted(hashlib.sha256(tree.encode()).hexdigest() for tree in trees.get_column("line"))
    return hashlib.sha256("".join(threads).encode()).hexdigest()[:_DIGITS]


_Ints = NDArray[np.int64]


def node_times(interval: Interval, pairs: pl.DataFrame, timeline: Timeline) -> pl.DataFrame:
    """The table `node_times`, by aligning every iteration with the one that was matched, thread by thread."""
    if interval.longer is None or interval.of_row is None or interval.count != 1:
        return NODE_TIMES.empty()
    rows = interval.longer.rows.with_columns(
        pl.Series("iteration", interval.of_row), pl.col("name").rank("dense").cast(pl.Int64).alias("code")
    ).join(
        pairs.select(pl.col("event_id").alias("id"), "node_id"), on="id", how="left", maintain_order="left"
    )
    found = [
        _of_thread(thread, interval.chosen) for thread in rows.partition_by("thread", maintain_order=True)
    ]
    duration = pl.col("dur_ns")
    return (
        pl.concat(found)
        .join(timeline.events.select("event_id", "dur_ns"), on="event_id")
        .group_by("node_id")
        .agg(
            pl.len().alias("iterations"),
            duration.min().alias("min_ns"),
            duration.median().alias("median_ns"),
            duration.mean().alias("mean_ns"),
            duration.max().alias("max_ns"),
            duration.std().alias("std_ns"),
        )
        .pipe(NODE_TIMES.conform)
        .sort("node_id")
    )


def _of_thread(thread: pl.DataFrame, chosen: int) -> pl.DataFrame:
    """The events of all iterations by node: of each iteration those at the positions of the matched one's."""
    iterations = {int(key[0]): part for key, part in thread.partition_by("iteration", as_dict=True).items()}
    matched = iterations.get(chosen, thread.clear())
    codes = matched.get_column("code").to_numpy()
    nodes = matched.get_column("node_id").fill_null(NONE).to_numpy()
    events: list[_Ints] = [np.empty(0, np.int64)]
    of_nodes: list[_Ints] = [np.empty(0, np.int64)]
    for number, part in iterations.items():
        if number < 0:
            continue
        there = align(codes, part.get_column("code").to_numpy()).unambiguous
        both = (there != NONE) & (nodes != NONE)
        events.append(part.get_column("id").to_numpy()[there[both]])
        of_nodes.append(nodes[both])
    return pl.DataFrame({"node_id": np.concatenate(of_nodes), "event_id": np.concatenate(events)})


CONFIDENCE = {"alignment": 0.999, "alignment_name": 0.97, "position": 0.99}
"""Probability that a link is right, by method; measured, see docs/linking.md."""
_OTHER_PARENT = 0.998
"""Reduction if the enclosing ops are not a pair: PyTorch's recorder gets parents wrong."""
_LONGEST_GAP = 4
"""Maximum run of ops paired by position only (heuristic): a longer run may hide a missing op."""


class Aligned(Struct, frozen=True):
    """Result of an alignment.

    Args:
        pairs: one row per pair, `node_id`, `event_id`, `method`, `confidence`.
        candidates: one row per op that could be either of two, `node_id`, `event_id`; no pair holds one of these.
    """

    pairs: pl.DataFrame
    candidates: pl.DataFrame


class _Matches(Struct, frozen=True):
    """Rows of ops by rows of nodes, `NONE` where there is none: unambiguous ones, and candidates of the others."""

    op: _Ints
    method: NDArray[np.int8]
    candidates: list[tuple[int, int]]


_METHODS = tuple(CONFIDENCE)


def align_ops(nodes: OpSequence, ops: OpSequence) -> Aligned:
    """Pair the ops of both traces, thread by thread.

    A pair is made where every best alignment of the two threads makes it: first by all that is recorded of the ops
    (name, sequence number, shapes), between those pairs by names alone, and last of ops of another name that stand
    alone between the same neighbours and under the same parent.
    """
    codes = codes_of(nodes, ops)
    matches = _Matches(
        np.full(nodes.rows.height, NONE), np.zeros(nodes.rows.height, dtype=np.int8), candidates=[]
    )
    node_rows, op_rows = _rows_by_thread(nodes), _rows_by_thread(ops)
    threads = [(node_rows[thread], op_rows[lane]) for thread, lane in threads_of(nodes, ops, codes)]
    for of_nodes, of_ops in threads:
        _align_thread(of_nodes, of_ops, codes, matches)
    parents = _parent_rows(nodes.rows), _parent_rows(ops.rows)
    doubtful = {node for node, _ in matches.candidates}, {op for _, op in matches.candidates}
    for of_nodes, of_ops in threads:
        _align_by_position((of_nodes, of_ops), parents, doubtful, matches)
    return _aligned(nodes, ops, parents, matches)


def _rows_by_thread(sequence: OpSequence) -> dict[int, _Ints]:
    rows = sequence.rows.with_row_index("row").select("thread", pl.col("row").cast(pl.Int64))
    return {
        int(thread[0]): part.get_column("row").to_numpy()
        for thread, part in rows.partition_by("thread", as_dict=True, maintain_order=True).items()
    }


def _parent_rows(rows: pl.DataFrame) -> _Ints:
    """The row of each row's parent, `NONE` where it has none in this trace."""
    placed = rows.select("id").with_row_index("row")
    found = rows.select("parent").join(
        placed, left_on="parent", right_on="id", how="left", maintain_order="left"
    )
    parents: _Ints = found.get_column("row").cast(pl.Int64).fill_null(NONE).to_numpy()
    return parents


def _align_thread(node_rows: _Ints, op_rows: _Ints, codes: tuple[Codes, Codes], matches: _Matches) -> None:
    by_signature = align(codes[0].signatures[node_rows], codes[1].signatures[op_rows])
    agreed = by_signature.unambiguous
    matches.op[node_rows] = np.where(agreed == NONE, NONE, op_rows[agreed])
    for node_gap, op_gap in gaps(agreed, len(op_rows)):
        rows, candidates = node_rows[node_gap], op_rows[op_gap]
        by_name = align(codes[0].names[rows], codes[1].names[candidates])
        found = by_name.unambiguous
        if len(rows) != len(candidates) or np.any((found != NONE) & (found != np.arange(len(rows)))):
            # Signatures differ, and so do the numbers of ops: nothing shows which op is missing.
            found = np.full(len(rows), NONE)
        matches.op[rows] = np.where(found == NONE, NONE, candidates[found])
        matches.method[rows] = 1
        for alternative in (by_name.first, by_name.last):
            doubtful = (found == NONE) & (alternative != NONE)
            matches.candidates.extend(
                zip(rows[doubtful].tolist(), candidates[alternative[doubtful]].tolist(), strict=True)
            )


def _align_by_position(
    rows: tuple[_Ints, _Ints],
    parents: tuple[_Ints, _Ints],
    doubtful: tuple[set[int], set[int]],
    matches: _Matches,
) -> None:
    """Pair ops between the same neighbours: equally many in both traces, under the same parents."""
    node_rows, op_rows = rows
    position = np.full(int(op_rows.max()) + 1, NONE)
    position[op_rows] = np.arange(len(op_rows))
    matched = matches.op[node_rows]
    for node_gap, op_gap in gaps(np.where(matched == NONE, NONE, position[matched]), len(op_rows)):
        nodes, ops = node_rows[node_gap].tolist(), op_rows[op_gap].tolist()
        if len(nodes) != len(ops) or len(nodes) > _LONGEST_GAP:
            continue
        if doubtful[0].intersection(nodes) or doubtful[1].intersection(ops):
            continue
        for node, op in zip(nodes, ops, strict=True):
            enclosing, op_enclosing = int(parents[0][node]), int(parents[1][op])
            expected = NONE if enclosing == NONE else int(matches.op[enclosing])
            if expected == op_enclosing:
                matches.op[node] = op
                matches.method[node] = 2


def _aligned(nodes: OpSequence, ops: OpSequence, parents: tuple[_Ints, _Ints], matches: _Matches) -> Aligned:
    matched = np.flatnonzero(matches.op != NONE)
    op = matches.op[matched]
    has_node = np.zeros(ops.rows.height, dtype=bool)
    has_node[op] = True
    enclosing = nearest_ancestors(parents[0], matches.op != NONE)[matched]
    op_enclosing = nearest_ancestors(parents[1], has_node)[op]
    agrees = np.where(enclosing == NONE, NONE, matches.op[np.maximum(enclosing, 0)]) == op_enclosing
    contradicted = ~agrees & (matches.method[matched] > 0)
    matched, op, agrees = matched[~contradicted], op[~contradicted], agrees[~contradicted]
    confidence = np.array(list(CONFIDENCE.values()))[matches.method[matched]]
    node_ids, op_ids = nodes.rows.get_column("id"), ops.rows.get_column("id")
    pairs = pl.DataFrame(
        {
            "node_id": node_ids[matched],
            "event_id": op_ids[op],
            "method": np.array(_METHODS)[matches.method[matched]],
            "confidence": np.where(agrees, confidence, confidence * _OTHER_PARENT),
        }
    )
    rows = np.array(sorted(set(matches.candidates)), dtype=np.int64).reshape(-1, 2)
    rows = rows[(matches.op[rows[:, 0]] == NONE) & ~has_node[rows[:, 1]]]
    candidates = pl.DataFrame({"node_id": node_ids[rows[:, 0]], "event_id": op_ids[rows[:, 1]]})
    return Aligned(pairs, candidates)


_LEAST_AGREEMENT = 0.5
"""Minimum share of ops of the smaller trace with a partner; below, the programs differ."""
_LEAST_LIKENESS = 0.9
"""Unless this share has a partner or is ambiguous."""
_FEW = 20
"""Ops; of fewer in the smaller trace, shares say nothing on whether both are of one program. Chosen."""


class Approximate(Struct, frozen=True):
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
    """Link by alignment what is still unlinked."""
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
    """Return both link tables with the results."""
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
    """Make an error if the traces have too little in common to be of one program."""
    smaller = min(interval.nodes.rows.height, interval.ops.rows.height)
    # What recurs has its like everywhere: all of it could be several, and it is the same program.
    if smaller < _FEW or agreement >= _LEAST_AGREEMENT or agreement + ambiguous >= _LEAST_LIKENESS:
        return
    et, timeline = traces
    raise ProgramError(
        et.path,
        f"it is of another program than {timeline.path}: of {smaller:,} ops, {round(agreement * smaller):,} have a "
        f"partner in the other trace ({agreement:.0%})",
        "Give traces of one program, or use exact matching, which links by ids only",
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
    """Build a link table from the results: the first column is the key, the second the link."""
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
