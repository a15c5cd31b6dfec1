"""Common form of both traces' host ops: properties of ops, in order of start."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.linking.nesting import as_kineto_writes
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

_Ints = NDArray[np.int64]

_ENOUGH = 0.5
"""Minimum share of ops that agree in a property; below, the property means different things and is ignored."""
_NO_THREAD = -1
"""The thread of the nodes that name none: they are aligned together. PyTorch counts threads from 1."""
_MOST_LIKELY = 0.8
"""Share of nodes with an op of equal sequence number and name from which the numbers correspond (heuristic)."""
_MOST_PAIRS = 10_000
"""Names that occur in more pairs of a node and an op cast no votes: they are too frequent to identify a shift, and
would cost time in proportion to the pairs."""


class OpSequence(Struct, frozen=True):
    """The host ops of one trace.

    Args:
        rows: one row per op, by thread and start: `id`, `thread`, `order` (of their starts in the trace), `parent` (id
            of the op that encloses it, or null), `title` (the whole name), `name` (as both traces write it), `seq`
            (null: none), `shapes` (null: none).
    """

    rows: pl.DataFrame

    def of(self, kept: pl.Expr) -> OpSequence:
        """Some of the ops."""
        return OpSequence(self.rows.filter(kept))


class Codes(Struct, frozen=True):
    """Properties of each op, as numbers that are equal in both traces for equal properties.

    Args:
        names: the name alone.
        signatures: name, sequence number and input shapes, as far as both traces have them.
    """

    names: _Ints
    signatures: _Ints


def sequence_of_nodes(et: ExecutionTrace) -> OpSequence:
    """The nodes of an Execution Trace, but for the process's and the threads' own."""
    shapes = (
        et.values.filter(~pl.col("is_output"))
        .sort("node_id", "position")
        .group_by("node_id", maintain_order=True)
        .agg(as_text("shape").str.join(","))
        .select("node_id", pl.format("[{}]", "shape").alias("shapes"))
    )
    rows = (
        et.op_nodes.join(shapes, on="node_id", how="left")
        .select(
            pl.col("node_id").alias("id"),
            pl.col("tid").fill_null(_NO_THREAD).alias("thread"),
            pl.col("node_id").alias("order"),
            pl.col("parent_id").alias("parent"),
            as_text("name").alias("title"),
            _plain(pl.col("name")).alias("name"),
            pl.when(pl.col("seq_id") >= 0).then("seq_id").alias("seq"),
            _normal_shapes(pl.col("shapes")).alias("shapes"),
        )
        .sort("thread", "id")
    )
    return OpSequence(rows)


def sequence_of_ops(timeline: Timeline, tree: pl.DataFrame) -> OpSequence:
    """The operators and annotations of a Kineto trace."""
    rows = (
        timeline.host_ops.select("event_id", "sequence_number", "input_dims")
        .join(timeline.events.select("event_id", "name", "lane", "ts_ns"), on="event_id")
        .join(tree.select("event_id", "op_event"), on="event_id", how="left")
        .sort("lane", "ts_ns", "event_id")
        .select(
            pl.col("event_id").alias("id"),
            pl.col("lane").alias("thread"),
            pl.col("ts_ns").alias("order"),
            pl.col("op_event").alias("parent"),
            as_text("name").alias("title"),
            _plain(pl.col("name")).alias("name"),
            pl.when(pl.col("sequence_number") >= 0).then("sequence_number").alias("seq"),
            _normal_shapes(as_text("input_dims")).alias("shapes"),
        )
    )
    return OpSequence(rows)


def codes_of(nodes: OpSequence, ops: OpSequence) -> tuple[Codes, Codes]:
    """The codes of both traces' ops. Sequence numbers may be larger in one trace by the same amount throughout."""
    both = pl.concat(
        [
            nodes.rows.select("name", "seq", "shapes").with_columns(pl.lit(True).alias("is_node")),
            ops.rows.select("name", "seq", "shapes").with_columns(pl.lit(False).alias("is_node")),
        ]
    )
    shift = _shift(both)
    seq = pl.when(pl.col("is_node")).then(pl.col("seq") + (shift or 0)).otherwise("seq")
    if shift is None or not _agrees_in_both(both, "seq", seq):
        seq = pl.lit(None, dtype=pl.Int64)
    shapes = pl.col("shapes")
    if not _agrees_in_both(both, "shapes", shapes):
        shapes = pl.lit(None, dtype=pl.String)
    # What only one trace records of the ops of a name is no difference.
    in_single_trace = both.group_by("name").agg(
        *(
            (pl.col(what).filter(pl.col("is_node")).count() > 0)
            .ne(pl.col(what).filter(~pl.col("is_node")).count() > 0)
            .alias(f"no_{what}")
            for what in ("seq", "shapes")
        )
    )
    ranked = both.join(in_single_trace, on="name", maintain_order="left").select(
        pl.col("name").rank("dense").cast(pl.Int64).alias("names"),
        pl.struct(
            "name",
            pl.when(~pl.col("no_seq")).then(seq).alias("seq"),
            pl.when(~pl.col("no_shapes")).then(shapes).alias("shapes"),
        )
        .rank("dense")
        .cast(pl.Int64)
        .alias("signatures"),
    )
    names, codes = ranked.get_column("names").to_numpy(), ranked.get_column("signatures").to_numpy()
    count = nodes.rows.height
    return Codes(names[:count], codes[:count]), Codes(names[count:], codes[count:])


def _plain(name: pl.Expr) -> pl.Expr:
    """A name without what differs between runs and recorders: characters that Kineto writes otherwise, `#7`."""
    return as_kineto_writes(name.cast(pl.String)).str.replace(r"#\d+$", "#")


def _normal_shapes(shapes: pl.Expr) -> pl.Expr:
    """Shapes in one form: an Execution Trace gives each number of a list a shape of its own, Kineto gives none."""
    plain = shapes.str.replace_all(r"\s", "")
    for _ in range(2):
        plain = plain.str.replace_all(r"\[\[\](,\[\])*\]", "[]")
    return plain


def _agrees_in_both(both: pl.DataFrame, what: str, value: pl.Expr) -> bool:
    """Return whether most nodes with a value have an op of the same name with the same value."""
    telling = both.filter(pl.col(what).is_not_null()).select("is_node", "name", value.alias("value"))
    asked = telling.filter("is_node")
    names = telling.filter(~pl.col("is_node")).select("name").unique()
    asked = asked.join(names, on="name", how="semi")
    given = telling.filter(~pl.col("is_node")).select("name", "value").unique()
    if asked.is_empty():
        return False
    return asked.join(given, on=["name", "value"], how="semi").height >= _ENOUGH * asked.height


def _shift(both: pl.DataFrame) -> int | None:
    """Return the offset of sequence numbers of ops from those of nodes; None if none fits.

    Each number is identified by the names that carry it in both traces; rare ones vote for the differences at which
    they are found again.
    """
    telling = both.filter(pl.col("seq").is_not_null())
    shared = (
        telling.group_by("name")
        .agg(pl.col("is_node").n_unique().alias("traces"))
        .filter(pl.col("traces") == 2)
    )
    signed = (
        telling.join(shared, on="name", how="semi")
        .sort("is_node", "seq", "name")
        .group_by("is_node", "seq", maintain_order=True)
        .agg(pl.col("name").str.join("\0").alias("names"))
    )
    nodes = signed.filter("is_node").select("names", pl.col("seq").alias("node_seq"))
    ops = signed.filter(~pl.col("is_node")).select("names", pl.col("seq").alias("op_seq"))
    if nodes.is_empty() or ops.is_empty():
        return None
    if nodes.join(ops, left_on=["names", "node_seq"], right_on=["names", "op_seq"], how="semi").height >= (
        _MOST_LIKELY * nodes.height
    ):
        return 0
    rare = (
        nodes.group_by("names")
        .len("in_nodes")
        .join(ops.group_by("names").len("in_ops"), on="names")
        .filter(pl.col("in_nodes") * pl.col("in_ops") <= _MOST_PAIRS)
    )
    votes = (
        nodes.join(rare, on="names")
        .join(ops, on="names")
        .select(
            (pl.col("op_seq") - pl.col("node_seq")).alias("shift"),
            1 / (pl.col("in_nodes") * pl.col("in_ops")),
        )
    )
    if votes.is_empty():
        return None
    best = (
        votes.group_by("shift")
        .agg(pl.len().alias("count"))
        .sort("count", "shift", descending=[True, False])
        .row(0)
    )
    return int(best[0]) if best[1] >= _ENOUGH * nodes.height else None


_LEAST_ALIKE = 0.1
"""Threads that share less (Dice's coefficient) are no pair.."""
_DIGITS = 2
"""Digits of similarity; threads that are equal to this precision are distinguished by time."""
_NEARLY = 0.03
"""Similarity difference below which pairs could be exchanged: the effect of a few lost ops in a hundred (heuristic)."""
_MOMENTS = np.linspace(0, 1, 11)
"""The shares of a thread's ops at which threads are compared: none, a tenth, ... all."""

_Floats = NDArray[np.float64]


def threads_of(nodes: OpSequence, ops: OpSequence, codes: tuple[Codes, Codes]) -> list[tuple[int, int]]:
    """Pairs of a thread of the nodes and one of the ops, one to one, the most alike first.

    Two threads are alike by the share of ops that both have (Dice's coefficient). Where several are equally alike,
    those are a pair that have the same rank in the order of their starts, of their first tenths, and so on.
    """
    alike = _alike(nodes, ops, codes)
    moments = _moments(nodes.rows), _moments(ops.rows)
    first = _best_pairs(
        (-round(share, _DIGITS), float(np.abs(moments[0][thread] - moments[1][lane]).mean()), thread, lane)
        for (thread, lane), share in alike.items()
    )
    pairs: list[tuple[int, int]] = []
    for group in _interchangeable(first, alike):
        threads, lanes = [thread for thread, _ in group], [lane for _, lane in group]
        ranks = [_ranks(sequence, which) for sequence, which in zip(moments, (threads, lanes), strict=True)]
        pairs += _best_pairs(
            (0.0, float(np.abs(ranks[0][i] - ranks[1][j]).sum()), thread, lane)
            for i, thread in enumerate(threads)
            for j, lane in enumerate(lanes)
        )
    return sorted(pairs)


def _alike(nodes: OpSequence, ops: OpSequence, codes: tuple[Codes, Codes]) -> dict[tuple[int, int], float]:
    """Return the similarity of two threads, 0 to 1, if it is sufficient."""
    counts = [_counts(sequence, code) for sequence, code in zip((nodes, ops), codes, strict=True)]
    sizes = [of_thread.group_by("thread").agg(pl.col("count").sum().alias("size")) for of_thread in counts]
    shared = (
        counts[0]
        .join(counts[1], on="code", suffix="_op")
        .group_by("thread", "thread_op")
        .agg(pl.min_horizontal("count", "count_op").sum().alias("shared"))
        .join(sizes[0], on="thread")
        .join(sizes[1].rename({"thread": "thread_op", "size": "size_op"}), on="thread_op")
        .with_columns((2 * pl.col("shared") / (pl.col("size") + pl.col("size_op"))).alias("alike"))
        .filter(pl.col("alike") >= _LEAST_ALIKE)
        .sort("thread", "thread_op")
    )
    return {
        (thread, lane): alike
        for thread, lane, alike in shared.select("thread", "thread_op", "alike").iter_rows()
    }


def _best_pairs(candidates: Iterable[tuple[float, float, int, int]]) -> list[tuple[int, int]]:
    """The best candidates, each thread once."""
    threads: set[int] = set()
    lanes: set[int] = set()
    pairs = []
    for _, _, thread, lane in sorted(candidates):
        if thread not in threads and lane not in lanes:
            pairs.append((thread, lane))
            threads.add(thread)
            lanes.add(lane)
    return pairs


def _interchangeable(
    pairs: list[tuple[int, int]], alike: dict[tuple[int, int], float]
) -> list[list[tuple[int, int]]]:
    """Groups of pairs whose threads could be exchanged, being nearly equally similar."""
    groups: list[list[tuple[int, int]]] = []
    for thread, lane in pairs:
        least = alike[thread, lane] - _NEARLY
        for group in groups:
            lead = group[0]
            if alike.get((thread, lead[1]), 0.0) >= least and alike.get((lead[0], lane), 0.0) >= least:
                group.append((thread, lane))
                break
        else:
            groups.append([(thread, lane)])
    return groups


def _ranks(moments: dict[int, _Floats], threads: list[int]) -> _Floats:
    """For each of some threads its rank among them by each of its moments."""
    reached = np.array([moments[thread] for thread in threads])
    ranks: _Floats = np.argsort(np.argsort(reached, axis=0, kind="stable"), axis=0).astype(np.float64)
    return ranks


def _counts(sequence: OpSequence, codes: Codes) -> pl.DataFrame:
    coded = sequence.rows.select("thread", pl.Series("code", codes.signatures))
    return coded.group_by("thread", "code").agg(pl.len().cast(pl.Int64).alias("count"))


def _moments(rows: pl.DataFrame) -> dict[int, _Floats]:
    """For each thread at which part of the trace it has done 0, a tenth, ... all of its ops."""
    ranked = rows.select("thread", (pl.col("order").rank("ordinal") / pl.len()).alias("moment"))
    return {
        int(thread[0]): np.quantile(part.get_column("moment").to_numpy(), _MOMENTS)
        for thread, part in ranked.partition_by("thread", as_dict=True).items()
    }
