"""Arguments of each op, from the Kineto trace, else from the Execution Trace; and its cost by them."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device import device_events, fetched, rows_of_events
from tracebraid.analysis.efficiency.movement_formulas import COLLECTIVE_PREFIX
from tracebraid.analysis.efficiency.operands import (
    TYPE_OF_COLLECTIVE,
    CachedKeysError,
    Cost,
    UnknownOperandError,
    operands_of,
)
from tracebraid.analysis.efficiency.rules import cost_of, family_of, rule_of
from tracebraid.model.answers.efficiency import UnknownFlops
from tracebraid.model.category import Role, categories_of
from tracebraid.model.device_peaks import COMPUTE
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

_LIST = '"TensorList"'
"""All that a Kineto trace says of the types of a list, in the JSON text of an op's types."""

_ELEMENT = (
    r"(?:CatArrayBatchedCopy\w*|[a-z]Functor)<(?:[^<,]*::)?"
    r"(float|double|(?:c10::)?(?:Half|BFloat16)|long|int|short|signed char|unsigned char|bool|OpaqueType<\d+u>)[,>]"
)
"""The first template argument of PyTorch's kernels for lists: that of `cat`, and of what `multi_tensor_apply` calls."""

_TWO_TYPES = "CopyFunctor<"
"""Ops that copy a list to another type."""


def with_list_types(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """`input_types` with `TensorList(float)` for `TensorList`, where all kernels of the op name one type.

    Kernels of `cat` name but the size of an element: `TensorList(OpaqueType<2u>)`.
    """
    types = pl.col("input_types")
    lists = calls.filter(types.str.contains(_LIST, literal=True)).select(pl.col("event_id").alias("op_event"))
    if lists.is_empty() or not linked.timeline.has_device:
        return calls
    name, element = pl.col("name"), pl.col("element")
    found = (
        device_events(linked)
        .filter(pl.col("kind") == COMPUTE)
        .join(lists, on="op_event", how="semi")
        .select(
            pl.col("op_event").alias("event_id"),
            pl.when(~name.str.contains(_TWO_TYPES, literal=True))
            .then(name.str.extract(_ELEMENT))
            .str.replace(r"^(Half|BFloat16)$", "c10::$1")
            .alias("element"),
        )
        .group_by("event_id")
        .agg(element.first(), element.null_count().alias("unnamed"), element.n_unique().alias("types"))
        .filter((pl.col("unnamed") == 0) & (pl.col("types") == 1))
    )
    named = pl.concat_str(pl.lit('"TensorList('), "element", pl.lit(')"'))
    joined = calls.join(
        found.select("event_id", named.alias("named")), on="event_id", how="left", maintain_order="left"
    )
    replaced = types.str.split(_LIST).list.join(pl.col("named"))
    return joined.with_columns(
        pl.when(pl.col("named").is_not_null()).then(replaced).otherwise(types).alias("input_types")
    ).drop("named")


SIGNATURE = [
    "rule",
    "input_dims",
    "input_types",
    "input_strides",
    "concrete_inputs",
    "output_dims",
    "output_types",
    "group_size",
]
"""Key of ops with equal cost."""

_LIST_TYPE = "TensorList"
"""All that a Kineto trace says of the types of a list of tensors."""


def calls_of(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op or annotation: event_id, name, is_op, ts_ns, and the columns of `SIGNATURE`, as text.

    `rule` is the name by which a rule is found: the op's, or that of the collective whose arguments it has. Where both
    traces have the arguments, Kineto's count, but for an op with a list of tensors, whose types they lack. Outputs are
    the Execution Trace's. The types of lists that neither tells are those that kernels name: see `with_list_types`.
    """
    return linked.derived(_calls)


def has_shapes(linked: LinkedTrace) -> bool:
    """Return whether either trace has the shapes of any op: without, no cost is known but that of collectives."""
    return linked.derived(_has_shapes)


def _has_shapes(linked: LinkedTrace) -> bool:
    recorded = linked.timeline.host_ops.select(as_text("input_dims")).to_series()
    if (recorded.fill_null("") != "").any():
        return True
    return linked.has_et and linked.derived(_arguments).get_column("et_dims").is_not_null().any()


def _calls(linked: LinkedTrace) -> pl.DataFrame:
    timeline = linked.timeline
    recorded = [name for name in SIGNATURE if name in timeline.host_ops.columns]
    ops = timeline.of_role(Role.OP, Role.ANNOTATION)
    rows = rows_of_events(timeline.host_ops.get_column("event_id"), ops.get_column("event_id"))
    found = ops.select(
        "event_id",
        as_text("name"),
        as_text("category").is_in(categories_of(Role.OP)).alias("is_op"),
        "ts_ns",
        *fetched(timeline.host_ops.select(recorded), rows).get_columns(),
    ).with_columns(as_text(*recorded))
    found = with_list_types(_with_execution_trace(found, linked), linked)
    return _with_collectives(found, linked)


def _with_execution_trace(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    if not linked.has_et:
        missing = [pl.lit(None, dtype=pl.String).alias(name) for name in ("output_dims", "output_types")]
        return calls.with_columns(missing)
    found = calls.join(linked.derived(_arguments), on="event_id", how="left", maintain_order="left")
    types, of_et = pl.col("input_types"), pl.col("et_types")
    has_list = types.str.contains(_LIST_TYPE, literal=True) & of_et.is_not_null()
    pairs = {
        "input_dims": "et_dims",
        "input_types": "et_types",
        "input_strides": "et_strides",
        "concrete_inputs": "et_values",
    }
    return found.with_columns(
        pl.when(has_list).then(pl.col(other)).otherwise(pl.coalesce(name, other)).alias(name)
        for name, other in pairs.items()
    ).drop("et_dims", "et_types", "et_strides", "et_values")


def _arguments(linked: LinkedTrace) -> pl.DataFrame:
    """Inputs and outputs of each op's node, as JSON text of lists."""
    et = linked.et
    assert et is not None, "it has an Execution Trace"
    quoted = pl.concat_str(pl.lit('"'), as_text("type"), pl.lit('"'))
    values = (
        et.values.with_columns(as_text("shape", "value", "strides"), quoted.alias("type"))
        .with_columns(pl.col("shape", "strides").fill_null("[]"), pl.col("value").fill_null("null"))
        .sort("node_id", "is_output", "position")
        .group_by("node_id", "is_output", maintain_order=True)
        .agg(
            pl.concat_str(pl.lit("["), pl.col(name).str.join(","), pl.lit("]")).first().alias(name)
            for name in ("shape", "type", "strides", "value")
        )
    )
    inputs = values.filter(~pl.col("is_output")).select(
        "node_id",
        pl.col("shape").alias("et_dims"),
        pl.col("type").alias("et_types"),
        pl.col("strides").alias("et_strides"),
        pl.col("value").alias("et_values"),
    )
    outputs = values.filter("is_output").select(
        "node_id", pl.col("shape").alias("output_dims"), pl.col("type").alias("output_types")
    )
    links = linked.host_links.select("event_id", "node_id").filter(pl.col("node_id").is_not_null())
    return (
        links.join(inputs, on="node_id", how="left").join(outputs, on="node_id", how="left").drop("node_id")
    )


def _with_collectives(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """A collective's own arguments give its sizes; without them, its group is taken to be all ranks."""
    dtype = as_text("dtype").replace_strict(
        TYPE_OF_COLLECTIVE, default=as_text("dtype"), return_dtype=pl.String
    )
    sizes = [pl.col("in_msg_nelems"), pl.col("out_msg_nelems")]
    stated = (
        linked.timeline.collectives.filter(pl.all_horizontal(size.is_not_null() for size in sizes))
        .unique("event_id")
        .select(
            "event_id",
            pl.concat_str(pl.lit(COLLECTIVE_PREFIX), as_text("collective_name").str.to_lowercase()).alias(
                "rule"
            ),
            pl.format("[[{}],[{}]]", *sizes).alias("stated_dims"),
            pl.format('["{}","{}"]', dtype, dtype).alias("stated_types"),
            "group_size",
        )
    )
    found = calls.join(stated, on="event_id", how="left", maintain_order="left")
    is_stated = pl.col("stated_dims").is_not_null()
    world = pl.lit(linked.timeline.world_size, dtype=pl.Int64)
    return found.with_columns(
        pl.coalesce("rule", "name").alias("rule"),
        pl.coalesce("stated_dims", "input_dims").alias("input_dims"),
        pl.coalesce("stated_types", "input_types").alias("input_types"),
        *(
            pl.when(~is_stated).then(pl.col(name)).alias(name)
            for name in ("input_strides", "concrete_inputs", "output_dims", "output_types")
        ),
        pl.coalesce("group_size", world).alias("group_size"),
    ).drop("stated_dims", "stated_types")


_COST_COLUMNS = {
    "family": pl.String,
    "has_rule": pl.Boolean,
    "is_composite": pl.Boolean,
    "precision": pl.String,
    "flops": pl.Int64,
    "unknown_flops": pl.String,
    "causal_flops": pl.Int64,
    "bytes": pl.Int64,
    "repeated_flops": pl.Int64,
}
_UNKNOWN_COST = Cost(None, None)


def calls_with_costs(linked: LinkedTrace) -> pl.DataFrame:
    """The rows of `calls_of` with family, has_rule, is_composite, precision, flops, unknown_flops, causal_flops, bytes
    and repeated_flops.

    An op that lies in another of these has its own cost all the same: who adds them up says which count.
    """
    return linked.derived(_calls_with_costs)


def _calls_with_costs(linked: LinkedTrace) -> pl.DataFrame:
    calls = calls_of(linked)
    unique = calls.select(SIGNATURE).unique(maintain_order=True)
    rows = [_costs_of_call(signature) for signature in unique.iter_rows()]
    costs = pl.concat([unique, pl.DataFrame(rows, schema=_COST_COLUMNS, orient="row")], how="horizontal")
    return calls.join(costs, on=SIGNATURE, how="left", nulls_equal=True, maintain_order="left")


def _costs_of_call(signature: tuple[object, ...]) -> tuple[object, ...]:
    name, *texts, group_size = signature
    rule = rule_of(str(name))
    if rule is None:
        family = family_of(str(name)).value
        return (family, False, False, None, None, UnknownFlops.NO_FORMULA.value, None, None, None)
    inputs = [text if isinstance(text, str) else None for text in texts]
    size = group_size if isinstance(group_size, int) else None
    why = UnknownFlops.OPERANDS
    try:
        operands = operands_of(str(name), tuple(inputs[:4]), tuple(inputs[4:]), size)
        found = cost_of(rule, operands)
    except (UnknownOperandError, RecursionError) as error:
        found = _UNKNOWN_COST
        if isinstance(error, CachedKeysError):
            why = UnknownFlops.CACHED_KEYS
    precision = None if found.precision is None else found.precision.value
    unknown = why.value if found.flops is None else None
    amounts = (found.flops, unknown, found.causal_flops, found.size_bytes, found.repeated_flops)
    return (rule.family.value, True, rule.composite, precision, *amounts)
