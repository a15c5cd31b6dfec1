"""Both traces' host ops in one form: what each says of an op, in the order in which they started."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.names import as_kineto_writes
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["Codes", "OpSequence", "codes_of", "sequence_of_nodes", "sequence_of_ops"]

_Ints = NDArray[np.int64]

_ENOUGH = 0.5
"""Where fewer than this share of ops agree in what both have, it is not the same thing, and left out."""
_NO_THREAD = -1
"""The thread of the nodes that name none: they are aligned together. PyTorch counts threads from 1."""
_MOST_LIKELY = 0.8
"""Where this share of nodes has an op with the same sequence number and names, the numbers are the same. Chosen."""
_MOST_PAIRS = 10_000
"""Names that occur in more pairs of a node and an op cast no votes: they are too frequent to identify a shift, and
would cost time in proportion to the pairs."""


@dataclass(frozen=True)
class OpSequence:
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


@dataclass(frozen=True)
class Codes:
    """What is recorded of each op of a trace, as numbers that are equal in both traces where that is the same.

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
    """Whether most nodes with a value have an op of the same name with the same value."""
    telling = both.filter(pl.col(what).is_not_null()).select("is_node", "name", value.alias("value"))
    asked = telling.filter("is_node")
    names = telling.filter(~pl.col("is_node")).select("name").unique()
    asked = asked.join(names, on="name", how="semi")
    given = telling.filter(~pl.col("is_node")).select("name", "value").unique()
    if asked.is_empty():
        return False
    return asked.join(given, on=["name", "value"], how="semi").height >= _ENOUGH * asked.height


def _shift(both: pl.DataFrame) -> int | None:
    """By how much the sequence numbers of ops are larger than those of nodes; None where no amount fits.

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
