"""Which op uses which storage of the Execution Trace, how, and in which phase of a step."""

from __future__ import annotations

import re

import polars as pl

from tracebraid.analysis.memory.blocks.pairing import CPU
from tracebraid.analysis.memory.host.host_context import host_context
from tracebraid.analysis.memory.host.passes import passes
from tracebraid.analysis.memory.host.phase_codes import phase_names
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_schema import argument_names, written_positions

__all__ = ["storage_uses"]

_WEIGHT = re.compile(r"(^|_)(weights?|bias)$|^running_(mean|var)$")
"""Names that schemas give to arguments that a module holds, its parameters and buffers: FBGEMM has `dev_weights`."""

_STATE = re.compile(r"^(momentum\d*|exp_avg(_sq)?)_(dev|uvm|host)$")
"""The same for state of an optimizer: FBGEMM's lookups take theirs (`momentum1_dev`), and update it in backward."""

_ACCUMULATES = "torch::autograd::AccumulateGrad"


def storage_uses(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per tensor that a linked op takes or gives, kept with the linked trace; empty without Execution Trace.

    Columns: device, storage_id, size_bytes (what the tensor spans), shape, dtype, event_id, row (of `host_context`),
    start_ns, end_ns, phase (as text), is_output, position, item, is_weight, is_state, is_written, accumulates,
    communicates.
    """
    return linked.derived(_storage_uses, annotation)


def _storage_uses(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    et = linked.et
    if et is None:
        return _EMPTY.clear()
    links = linked.node_links.filter(pl.col("event_id").is_not_null()).select("node_id", "event_id")
    nodes = et.nodes.select("node_id", as_text("name", "op_schema"))
    uses = (
        et.tensor_uses.join(_tensors(et), on="tensor")
        .join(links, on="node_id")
        .join(_host_events(linked, annotation), on="event_id")
        .join(nodes, on="node_id", how="left")
        .join(_arguments(nodes), on=["op_schema", "is_output", "position"], how="left")
    )
    accumulates = (pl.col("name") == _ACCUMULATES) & ~pl.col("is_output") & (pl.col("position") == 0)
    return uses.select(
        *(
            "device",
            "storage_id",
            "size_bytes",
            "shape",
            "dtype",
            "event_id",
            "row",
            "start_ns",
            "end_ns",
            "phase",
        ),
        *("is_output", "position", pl.col("item").fill_null(0)),
        pl.col("is_weight", "is_state", "is_written").fill_null(value=False),
        accumulates.fill_null(value=False).alias("accumulates"),
        "communicates",
    ).sort("start_ns", "event_id", "is_output", "position", "item")


_EMPTY = pl.DataFrame(
    schema={
        **dict.fromkeys(("device", "shape", "dtype", "phase"), pl.String),
        **dict.fromkeys(("storage_id", "size_bytes", "event_id", "row", "start_ns", "end_ns"), pl.Int64),
        **dict.fromkeys(("position", "item"), pl.Int64),
        **dict.fromkeys(
            ("is_output", "is_weight", "is_state", "is_written", "accumulates", "communicates"), pl.Boolean
        ),
    }
)


def _host_events(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    context = host_context(linked)
    phase = passes(linked, annotation).phases(context.phase, context.start_ns)
    columns = {"event_id": context.event_id, "start_ns": context.start_ns, "end_ns": context.end_ns}
    return pl.DataFrame(
        [
            *(pl.Series(name, values, dtype=pl.Int64) for name, values in columns.items()),
            pl.Series("row", range(len(context.event_id)), dtype=pl.Int64),
            phase_names(phase).alias("phase"),
            pl.Series("communicates", context.in_collective, dtype=pl.Boolean),
        ]
    )


def _tensors(et: ExecutionTrace) -> pl.DataFrame:
    """Those whose storage is known."""
    device = as_text("device").str.extract(r":(\d+)$")
    name = as_text("device").str.split(":").list.first().fill_null("")
    return et.tensors.filter(pl.col("storage_id") > 0, name != "").select(
        "tensor",
        pl.when(name == CPU).then(pl.lit(CPU)).otherwise(pl.coalesce(device, pl.lit("0"))).alias("device"),
        "storage_id",
        ((pl.col("storage_offset").fill_null(0) + pl.col("numel")) * pl.col("itemsize_bytes")).alias(
            "size_bytes"
        ),
        as_text("shape", "dtype"),
    )


def _arguments(nodes: pl.DataFrame) -> pl.DataFrame:
    """Of each schema the arguments that are weights, and those that are written."""
    rows: list[tuple[str, bool, int, bool, bool, bool]] = []
    for schema in nodes.get_column("op_schema").drop_nulls().unique().to_list():
        inputs, outputs = written_positions(schema)
        names = argument_names(schema)
        weights, states = ({i for i, name in enumerate(names) if p.search(name)} for p in (_WEIGHT, _STATE))
        known = sorted(weights | states | inputs)
        rows += [(schema, False, i, i in weights, i in states, i in inputs) for i in known]
        rows += [(schema, True, i, False, False, True) for i in sorted(outputs)]
    schema_of = {
        "op_schema": pl.String,
        "is_output": pl.Boolean,
        "position": pl.Int64,
        "is_weight": pl.Boolean,
        "is_state": pl.Boolean,
        "is_written": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=schema_of, orient="row")
