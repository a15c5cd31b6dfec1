"""The storages of the Execution Trace, each from the op that made it to its last use, and what they are used for."""

from __future__ import annotations

import re

import polars as pl

from tracebraid.analysis.memory.host import host_context, passes, phase_names
from tracebraid.analysis.memory.pairing import CPU
from tracebraid.model.answers.memory import TrainingPhase
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_schema import argument_names, written_positions

_WEIGHT = re.compile(r"(^|_)(weights?|bias)$|^running_(mean|var)$")
"""Names that schemas give to arguments that a module holds, its parameters and buffers: FBGEMM has `dev_weights`."""

_STATE = re.compile(r"^(momentum\d*|exp_avg(_sq)?)_(dev|uvm|host)$")
"""The same for state of an optimizer: FBGEMM's lookups take theirs (`momentum1_dev`), and update it in backward."""

_ACCUMULATES = "torch::autograd::AccumulateGrad"


def storage_uses(linked: LinkedTrace) -> pl.DataFrame:
    """One row per tensor that a linked op takes or gives, kept with the linked trace; empty without Execution Trace.

    Columns: device, storage_id, size_bytes (what the tensor spans), shape, dtype, event_id, row (of `host_context`),
    start_ns, end_ns, phase (as text), is_output, position, item, is_weight, is_state, is_written, accumulates,
    communicates.
    """
    return linked.derived(_storage_uses)


def _storage_uses(linked: LinkedTrace) -> pl.DataFrame:
    et = linked.et
    if et is None:
        return _EMPTY.clear()
    links = linked.node_links.filter(pl.col("event_id").is_not_null()).select("node_id", "event_id")
    nodes = et.nodes.select("node_id", as_text("name", "op_schema"))
    uses = (
        et.tensor_uses.join(_tensors(et), on="tensor")
        .join(links, on="node_id")
        .join(_host_events(linked), on="event_id")
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


def _host_events(linked: LinkedTrace) -> pl.DataFrame:
    context = host_context(linked)
    phase = passes(linked).phases(context.phase, context.start_ns)
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
    """Rows with a known storage."""
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
    """Weight arguments and written arguments of each schema."""
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


FACTS = {
    "as_weight": pl.Boolean,
    "as_state": pl.Boolean,
    "updated": pl.Boolean,
    "accumulated": pl.Boolean,
    "zeroed": pl.Boolean,
    "written_in_backward": pl.Boolean,
    "communicated": pl.Boolean,
    "in_forward": pl.Boolean,
    "in_backward": pl.Boolean,
    "in_optimizer": pl.Boolean,
    "last_forward_ns": pl.Int64,
    "first_backward_ns": pl.Int64,
    "shape": pl.String,
    "dtype": pl.String,
}
"""Facts about a storage's uses, and its first tensor."""


def of_first_tensor() -> list[pl.Expr]:
    """`size_bytes`, `shape` and `dtype` of the tensor with which a life begins, over its uses in the order of time."""
    # Ops around the one that made it give it on, as a view perhaps: they end later.
    first = pl.col("is_output").arg_max().fill_null(0)
    is_made = pl.col("made_event").first().is_not_null()
    return [
        pl.when(is_made).then(pl.col(name).get(first)).otherwise(pl.col(name).first()).alias(name)
        for name in ("size_bytes", "shape", "dtype")
    ]


def facts() -> list[pl.Expr]:
    """The columns of `FACTS` but for shape and dtype, over the uses of a life."""
    phase, is_input = pl.col("phase"), ~pl.col("is_output")
    forward, backward, optimizer = (
        phase == p.value for p in (TrainingPhase.FORWARD, TrainingPhase.BACKWARD, TrainingPhase.OPTIMIZER)
    )
    return [
        (pl.col("is_weight") & forward).any().alias("as_weight"),
        pl.col("is_state").any().alias("as_state"),
        (pl.col("is_written") & optimizer).any().alias("updated"),
        pl.col("accumulates").any().alias("accumulated"),
        (pl.col("is_written") & (phase == TrainingPhase.ZERO_GRAD.value)).any().alias("zeroed"),
        (pl.col("is_written") & backward).any().alias("written_in_backward"),
        pl.col("communicates").any().alias("communicated"),
        (is_input & forward).any().alias("in_forward"),
        (is_input & backward).any().alias("in_backward"),
        (is_input & optimizer).any().alias("in_optimizer"),
        pl.col("end_ns").filter(forward).max().alias("last_forward_ns"),
        pl.col("start_ns").filter(backward & is_input).min().alias("first_backward_ns"),
    ]


_KEY = ["device", "storage_id"]


def storages(linked: LinkedTrace) -> pl.DataFrame:
    """One row per storage and life of it, kept with the linked trace; empty without Execution Trace.

    Ids of storages are used again. A new life begins with an op that gives the storage and does not take it; of
    several such ops inside each other it is the innermost that made it.

    Columns: storage, device, storage_id, size_bytes (that of the first tensor: a lower bound), made_event (null: before
    the trace), made_row, begin_ns (start of that op), made_ns (its end), position, moment_ns (first use),
    last_use_ns, last_row, and `FACTS`.
    """
    return linked.derived(_storages)


def _storages(linked: LinkedTrace) -> pl.DataFrame:
    of_life = ("made_event", "made_row", "begin_ns", "made_ns", "position", "moment_ns")
    return (
        _uses_of_lives(linked)
        .group_by("storage", *_KEY, maintain_order=True)
        .agg(
            *of_first_tensor(),
            *(pl.col(name).first() for name in of_life),
            pl.max_horizontal(pl.col("end_ns").max(), pl.col("made_ns").first()).alias("last_use_ns"),
            pl.col("row").get(pl.col("end_ns").arg_max()).alias("last_row"),
            *facts(),
        )
        .sort("storage")
    )


def facts_until(linked: LinkedTrace, ends: pl.DataFrame) -> pl.DataFrame:
    """Uses of some storages until their release: `storage` and `FACTS`.

    An op that no trace shows may have made another storage under the same id: its uses count no longer.
    """
    until = ends.select("storage", pl.col("end_ns").alias("release_ns"))
    uses = _uses_of_lives(linked).join(until, on="storage", maintain_order="left")
    known = uses.filter(pl.col("release_ns").is_null() | (pl.col("start_ns") < pl.col("release_ns")))
    _, shape, dtype = of_first_tensor()
    return known.group_by("storage", maintain_order=True).agg(*facts(), shape, dtype)


def _uses_of_lives(linked: LinkedTrace) -> pl.DataFrame:
    """The uses with the life that each belongs to, in the order of time; kept."""
    return linked.derived(_with_lives)


def _with_lives(linked: LinkedTrace) -> pl.DataFrame:
    uses = storage_uses(linked)
    moment = pl.when("is_output").then("end_ns").otherwise("start_ns").alias("moment_ns")
    lives = _makers(uses).select(*_KEY, "begin_ns", "made_ns", "made_event", "made_row", "position")
    found = (
        uses.rename({"position": "use_position"})
        .with_columns(moment)
        .sort("moment_ns", maintain_order=True)
        .join_asof(
            lives.sort("begin_ns"),
            left_on="moment_ns",
            right_on="begin_ns",
            by=_KEY,
            strategy="backward",
            check_sortedness=False,
        )
    )
    key = [*_KEY, "begin_ns"]
    numbers = found.select(key).unique(maintain_order=True).with_row_index("storage")
    return found.join(numbers, on=key, how="left", nulls_equal=True, maintain_order="left")


def _makers(uses: pl.DataFrame) -> pl.DataFrame:
    """The ops that begin a life: the first of nested ones to end is the innermost."""
    by_op = uses.group_by(*_KEY, "event_id", maintain_order=True).agg(
        pl.col("start_ns").first().alias("begin_ns"),
        pl.col("end_ns").first().alias("made_ns"),
        pl.col("row").first().alias("made_row"),
        pl.col("is_output").all().alias("only_gives"),
        pl.col("position").filter("is_output").min(),
    )
    gives = by_op.filter("only_gives").sort(
        *_KEY, "made_ns", "begin_ns", "made_row", descending=[False, False, False, True, True]
    )
    before = pl.col("begin_ns").shift(1).over(_KEY)
    return gives.filter(before.is_null() | (pl.col("begin_ns") > before)).rename({"event_id": "made_event"})
