"""Execution Trace node to host op without ids: by what both record of an op, and by its position among the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.alignment.op_sequences import Codes, OpSequence, codes_of
from tracebraid.linking.alignment.sequences import NONE, align, gaps
from tracebraid.linking.alignment.threads import threads_of
from tracebraid.model.nearest import nearest_ancestors

__all__ = ["CONFIDENCE", "Aligned", "align_ops"]

_Ints = NDArray[np.int64]

CONFIDENCE = {"alignment": 0.999, "alignment_name": 0.97, "position": 0.99}
"""How likely a link is right, by method; measured, see docs/linking.md."""
_OTHER_PARENT = 0.998
"""By how much less where the ops that enclose the two are no pair: PyTorch's recorder gets parents wrong."""
_LONGEST_GAP = 4
"""Up to how many ops in a row are paired by position alone: chosen, since a longer row may hide a missing op."""


@dataclass(frozen=True)
class Aligned:
    """What alignment found.

    Args:
        pairs: one row per pair, `node_id`, `event_id`, `method`, `confidence`.
        candidates: one row per op that could be either of two, `node_id`, `event_id`; no pair holds one of these.
    """

    pairs: pl.DataFrame
    candidates: pl.DataFrame


@dataclass(frozen=True)
class _Matches:
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
    """Pair what stands alone between the same neighbours: as many ops in both traces, under the same parents."""
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
