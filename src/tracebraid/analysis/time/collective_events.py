"""The collectives of a rank: operation, process group, type and size."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracebraid.analysis.device import device_events, event_columns, fetched, rows_of_events
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.time.breakdown import HOST, work_events
from tracebraid.model.category import Role, categories_of
from tracebraid.model.collectives import (
    BACKEND_RANGE,
    COALESCED,
    CollectiveType,
    GroupEvidence,
    Says,
    Subject,
    library_of,
    rule_of,
    text_of_peers,
    type_of,
)
from tracebraid.model.device_peaks import COMMUNICATION
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does, flags_by_name, mapped_by_name
from tracebraid.model.op_schema import argument_names

_ISSUES = r"^c10d::"
"""Ops of which the implementation calls the backend."""
_GROUP_ARGUMENT = "group_name"
"""The argument of functional collectives that names their process group."""
_ARGUMENTS_OP = "record_param_comms"
_MOST_RANKS = 2**20
"""More ranks than any job has: a size beyond is damaged."""

_IMPLEMENTED_BY = {CollectiveType.REDUCE_SCATTER.value: CollectiveType.ALL_REDUCE.value}
"""Types that gloo carries out as another one: its range has the name of that."""

_FACTS = {
    "recorded_name": pl.String(),
    "recorded_desc": pl.String(),
    "recorded_size": pl.Int64(),
    "recorded_ranks": pl.List(pl.Int64),
    "named": pl.String(),
    "argument_name": pl.String(),
    "argument_desc": pl.String(),
}


def issuing_ops(linked: LinkedTrace, ranges: pl.Series) -> pl.Series:
    """The `c10d` op that issued each range of a backend on the host, by event id; null: unknown.

    A backend makes the range's record function in the op, on the op's thread, and begins it later on a thread of its
    own. So the range's record-function id lies between that of the op and that of the next op of its thread.
    """
    timeline = linked.timeline
    unknown = pl.Series("issuer", [None] * len(ranges), dtype=pl.Int64)
    if ranges.is_empty():
        return unknown
    ops = timeline.of_role(Role.OP).select("event_id", "lane", "ts_ns", "dur_ns", as_text("name"))
    issuing = ops.filter(pl.col("name").str.contains(_ISSUES))
    if issuing.is_empty():
        return unknown
    own_lanes = ops.filter(pl.col("lane").is_in(issuing.get_column("lane").unique().implode()))
    ids = own_lanes.with_columns(_function_ids(linked, own_lanes.get_column("event_id")))
    (title,) = event_columns(timeline, ranges, title="name")
    wanted = pl.DataFrame(
        [ranges.alias("range"), title, _function_ids(linked, ranges), _types(title).alias("type")]
    )
    wanted = wanted.with_row_index("row").filter(pl.col("function_id") > 0).sort("function_id")
    parts = [
        wanted.join_asof(_until_next(lane), on="function_id", strategy="backward", check_sortedness=False)
        for lane in ids.filter(pl.col("function_id") > 0).partition_by("lane", maintain_order=True)
    ]
    if not parts:
        return unknown
    fits = (pl.col("type") == pl.col("op_type")) | (
        pl.col("type") == pl.col("op_type").replace_strict(_IMPLEMENTED_BY, default=None)
    )
    found = pl.concat(parts).filter((pl.col("function_id") < pl.col("next_id")) & fits)
    single = found.group_by("row").agg(pl.len(), pl.col("issuer").first()).filter(pl.col("len") == 1)
    rows = pl.DataFrame({"row": range(len(ranges))}, schema={"row": pl.UInt32})
    return rows.join(single, on="row", how="left", maintain_order="left").get_column("issuer")


def _function_ids(linked: LinkedTrace, events: pl.Series) -> pl.Series:
    table = linked.timeline.host_ops
    rows = rows_of_events(table.get_column("event_id"), events)
    return table.get_column("record_function_id").gather(rows).fill_null(0).alias("function_id")


def _until_next(lane: pl.DataFrame) -> pl.DataFrame:
    """The issuing ops of one thread with `next_id`, the id of the first op that starts after each ended."""
    ordered = lane.sort("ts_ns", "function_id")
    starts, ids = ordered.get_column("ts_ns").to_numpy(), ordered.get_column("function_id").to_numpy()
    ops = ordered.filter(pl.col("name").str.contains(_ISSUES))
    ends = (ops.get_column("ts_ns") + ops.get_column("dur_ns")).to_numpy()
    following = np.append(ids, np.iinfo(np.int64).max)[np.searchsorted(starts, ends)]
    return ops.select(
        "function_id",
        pl.col("event_id").alias("issuer"),
        _types(ops.get_column("name")).alias("op_type"),
        pl.Series("next_id", following),
    ).sort("function_id")


def _types(names: pl.Series) -> pl.Series:
    return mapped_by_name(names, type_of)


def with_groups(events: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add process_group, description, known_size, known_ranks and evidence (`GroupEvidence`); null: unknown.

    The best evidence counts: the process group that the recorder read behind the op's argument, the name in a
    functional op's arguments, the arguments of `record_param_comms`, and where the file lists a single group, that.
    Evidence that disagrees leaves the group unknown. The Execution Trace is read only where the timeline leaves groups
    open.
    """
    groups = linked.timeline.process_groups
    is_open = events.select(pl.col("pg_name").is_null().any()).item() and groups.height != 1
    et = linked.et if is_open and linked.has_et else None
    facts = _nearest_facts(events.get_column("anchor"), linked, et)
    listed = _listed_groups(groups, et)
    only = groups.select("pg_name", "pg_desc").row(0) if groups.height == 1 else (None, None)
    joined = events.hstack(facts).with_columns(argument_name=pl.coalesce("pg_name", "argument_name"))
    evidence = (
        ("recorded_name", GroupEvidence.PROCESS_GROUP),
        ("named", GroupEvidence.GROUP_NAME),
        ("argument_name", GroupEvidence.ARGUMENTS),
    )
    names = [pl.col(name) for name, _ in evidence]
    joined = joined.with_columns(pl.coalesce(*names, pl.lit(only[0], dtype=pl.String)).alias("process_group"))
    joined = joined.join(
        listed, left_on="process_group", right_on="listed_name", how="left", maintain_order="left"
    )
    differ = pl.any_horizontal((name != pl.col("process_group")).fill_null(value=False) for name in names)
    other_ranks = (pl.col("recorded_ranks") != pl.col("listed_ranks")).fill_null(value=False)
    is_conflict = differ | other_ranks
    how = pl.coalesce(
        pl.when(is_conflict).then(pl.lit(GroupEvidence.CONFLICT.value)),
        *(pl.when(pl.col(name).is_not_null()).then(pl.lit(kind.value)) for name, kind in evidence),
        pl.when(pl.col("process_group").is_not_null()).then(pl.lit(GroupEvidence.ONLY_GROUP.value)),
    )
    description = pl.coalesce(
        "recorded_desc", "pg_desc", "argument_desc", "listed_desc", pl.lit(only[1], dtype=pl.String)
    )
    known = {
        "process_group": pl.col("process_group"),
        "description": description,
        "known_size": pl.col("recorded_size"),
        "known_ranks": pl.coalesce("recorded_ranks", "listed_ranks"),
    }
    return joined.select(
        pl.exclude(*_FACTS, "process_group", "listed_desc", "listed_ranks"),
        *(pl.when(~is_conflict).then(value).alias(name) for name, value in known.items()),
        how.alias("evidence"),
    )


def _listed_groups(groups: pl.DataFrame, et: ExecutionTrace | None) -> pl.DataFrame:
    """The groups by name, of the timeline first; ranks are null if a list is empty, which means all."""
    both = groups if et is None else pl.concat([groups, et.process_groups])
    ranks = pl.col("ranks").cast(pl.List(pl.Int64))
    return (
        both.filter(pl.col("pg_name").is_not_null())
        .select(
            pl.col("pg_name").alias("listed_name"),
            pl.col("pg_desc").alias("listed_desc"),
            pl.when(ranks.list.len() > 0).then(ranks).alias("listed_ranks"),
        )
        .unique("listed_name", keep="first", maintain_order=True)
    )


def _nearest_facts(anchors: pl.Series, linked: LinkedTrace, et: ExecutionTrace | None) -> pl.DataFrame:
    """For each op what the Execution Trace says of its group, or of the nearest enclosing op of which it says that."""
    facts = _facts(et, linked) if et is not None and len(anchors) else pl.DataFrame(schema=_FACTS)
    found = pl.DataFrame({name: [None] * len(anchors) for name in _FACTS}, schema=_FACTS)
    if facts.is_empty():
        return found
    tree = host_ops(linked)
    events = anchors.fill_null(-1).to_numpy()
    known = np.isin(events, tree.event_id)
    for key, columns in (
        ("recorded_name", ("recorded_name", "recorded_desc", "recorded_size", "recorded_ranks")),
        ("named", ("named",)),
        ("argument_name", ("argument_name", "argument_desc")),
    ):
        own = facts.filter(pl.col(key).is_not_null()).unique("event_id", keep="first").sort("event_id")
        if own.is_empty() or not known.any():
            continue
        nearest = np.full(len(events), -1, dtype=np.int64)
        rows = tree.nearest(np.isin(tree.event_id, own.get_column("event_id").to_numpy()))[
            tree.rows(events[known])
        ]
        nearest[known] = np.where(rows < 0, -1, tree.event_id[rows])
        at = rows_of_events(own.get_column("event_id"), pl.Series(nearest))
        found = found.with_columns(own.get_column(name).gather(at) for name in columns)
    return found


def _facts(et: ExecutionTrace, linked: LinkedTrace) -> pl.DataFrame:
    """Columns event_id and `_FACTS` of the ops of which the Execution Trace says something of their group."""
    links = linked.node_links.filter(pl.col("event_id").is_not_null()).select("node_id", "event_id")
    parts = [_recorded(et), _named(et)]
    found = pl.concat([part for part in parts if part.height] or parts, how="diagonal")
    joined = found.join(links, on="node_id", how="inner", maintain_order="left").drop("node_id")
    missing = [
        pl.lit(None, dtype=dtype).alias(name) for name, dtype in _FACTS.items() if name not in joined.columns
    ]
    return joined.with_columns(missing)


def _recorded(et: ExecutionTrace) -> pl.DataFrame:
    """The process groups that the recorder wrote of ops, and those in the arguments of `record_param_comms`."""
    rows = et.collectives.filter(pl.col("pg_name").is_not_null())
    if rows.is_empty():
        return pl.DataFrame(schema={"node_id": pl.Int64()})
    named = rows.join(
        et.nodes.select("node_id", as_text("name")), on="node_id", how="inner", maintain_order="left"
    )
    is_op = pl.col("name") != _ARGUMENTS_OP
    size, start, stride = (pl.col(name) for name in ("pg_size", "global_rank_start", "global_rank_stride"))
    is_regular = size.is_between(1, _MOST_RANKS) & (start >= 0) & (stride > 0)
    counted = pl.int_ranges(
        pl.when(is_regular).then(start),
        pl.when(is_regular).then(start + size * stride),
        pl.when(is_regular).then(stride).otherwise(1),
    )
    listed = named.get_column("pg_ranks").cast(pl.String)
    decoded = {text: _ranks(text) for text in listed.unique().to_list() if text is not None}
    ranks = pl.Series("_ranks", [decoded.get(text) for text in listed.to_list()], dtype=pl.List(pl.Int64))
    named = named.with_columns(ranks, as_text("pg_name", "pg_desc"))
    return named.select(
        "node_id",
        pl.when(is_op).then("pg_name").alias("recorded_name"),
        pl.when(is_op).then("pg_desc").alias("recorded_desc"),
        pl.when(is_op).then(size).alias("recorded_size"),
        pl.when(is_op).then(pl.coalesce("_ranks", pl.when(is_regular).then(counted))).alias("recorded_ranks"),
        pl.when(~is_op).then("pg_name").alias("argument_name"),
        pl.when(~is_op).then("pg_desc").alias("argument_desc"),
    )


def _ranks(text: str) -> list[int] | None:
    try:
        return msgspec.json.decode(text, type=list[int])
    except msgspec.MsgspecError:
        return None


def _named(et: ExecutionTrace) -> pl.DataFrame:
    """The names of groups in the arguments of functional collectives."""
    nodes = et.nodes.select("node_id", as_text("op_schema")).filter(
        pl.col("op_schema").str.contains(rf"\b{_GROUP_ARGUMENT}\b")
    )
    positions = {
        schema: names.index(_GROUP_ARGUMENT)
        for schema in nodes.get_column("op_schema").unique().to_list()
        if _GROUP_ARGUMENT in (names := argument_names(schema))
    }
    at = pl.col("op_schema").replace_strict(positions, default=None, return_dtype=pl.Int64)
    wanted = nodes.select("node_id", at.alias("position")).drop_nulls()
    texts = et.values.filter(
        ~pl.col("is_output") & pl.col("node_id").is_in(wanted.get_column("node_id").implode())
    ).filter(as_text("type") == "String")
    joined = wanted.join(texts, on=["node_id", "position"], how="inner", maintain_order="left")
    return joined.select("node_id", as_text("value").str.strip_chars('"').alias("named"))


MOST_ELEMENTS = 2**55
"""More elements than any tensor has: their bytes still fit into int64."""

_SIZES = {
    1: (
        "bool byte char uint8 int8 unsigned_char signed_char "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu qint8 quint8"
    ),
    2: "half float16 bfloat16 short int16 uint16",
    4: "float float32 int int32 uint32 qint32 complexhalf complex<half>",
    8: "double float64 long int64 uint64 long_int complexfloat complex<float>",
    16: "complexdouble complex<double>",
}
_SIZE_BY_NAME = {name: size for size, names in _SIZES.items() for name in names.split()}
"""Bytes of an element: names of `c10::ScalarType` and of C++ types, in lower case."""


def itemsize_of(dtype: str) -> int | None:
    """Bytes of an element of a type, by its name in a collective's arguments or in `Input type`; None: unknown."""
    name = dtype.lower().replace("c10::", "").removeprefix("tensor(").removesuffix(")")
    return _SIZE_BY_NAME.get(name.strip().replace(" ", "_"))


def elements_of(input_dims: str, input_types: str | None = None, *, of_all: bool = False) -> int | None:
    """Elements of the first input of an op, of all its tensors where it is a list; None: it has none, or is unreadable.

    A tensor without dimensions has one element; only its type tells it from a scalar, which has none.
    """
    try:
        inputs = msgspec.json.decode(input_dims)
        types = msgspec.json.decode(input_types) if input_types is not None else []
        if not isinstance(inputs, list) or not isinstance(types, list):
            return None
        types += [None] * (len(inputs) - len(types))
        wanted = len(inputs) if of_all else 1
        found = [_elements(shape, kind) for shape, kind in zip(inputs[:wanted], types, strict=False)]
    except (msgspec.MsgspecError, RecursionError):
        return None
    total = sum(size for size in found if size is not None)
    return total if any(size is not None for size in found) and 0 <= total < MOST_ELEMENTS else None


def _elements(shape: Any, kind: Any) -> int | None:
    if not isinstance(shape, list):
        return None
    if not shape:
        return 1 if isinstance(kind, str) and itemsize_of(kind) is not None else None
    if all(isinstance(size, int) for size in shape):
        return math.prod(shape)
    tensors = [1 if tensor == [] else _elements(tensor, None) for tensor in shape]
    return sum(size for size in tensors if size is not None)


_HOST_RANGE = r"^(?:gloo|mpi):[^:]"
"""Ranges of backends that communicate on the host, among these."""

_BETWEEN_TWO = "(?i)send|recv"
"""Names of communication between two ranks."""

_IS_RANGE = (pl.col("device") == HOST) & pl.col("name").str.contains(BACKEND_RANGE)
"""Expression: whether an event is a range of a backend on the host."""

_NEVER_NS = -(2**63)

_DESCRIBED = {
    "event_id": pl.Int64(),
    "device": pl.String(),
    "lane": pl.Int64(),
    "ts_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "stream": pl.String(),
    "name": pl.String(),
    "process_group": pl.String(),
    "description": pl.String(),
    "known_size": pl.Int64(),
    "known_ranks": pl.List(pl.Int64),
    "evidence": pl.String(),
    "issuer": pl.Int64(),
    "dtype": pl.String(),
    "message_bytes": pl.Int64(),
    "asks": pl.Boolean(),
    "kernel": pl.String(),
    "op_event": pl.Int64(),
    "source": pl.Int64(),
    "first_bytes": pl.Int64(),
    "counts": pl.Boolean(),
}
"""The columns of `collective_events`: most traces of one process have no rows of it, and cost nothing then."""


def collective_events(linked: LinkedTrace) -> pl.DataFrame:
    """Describe the communicating `work_events`, in order of start.

    Columns: event_id, device, lane, ts_ns, end_ns, stream (its number, or the thread's), name, process_group,
    description, known_size, known_ranks and evidence (of the process group, see `collective_groups`), issuer (the op
    that issued a backend's range; null: unknown), dtype, message_bytes, asks (whether it is a host op that only asks a
    backend to communicate), counts (whether it is a collective of its own: false for ops that ask where the backend's
    ranges are in the trace), kernel (the event's own name), op_event, source (the event with the collective's
    arguments; null: none), first_bytes (of the op's first input by its shapes, of a backend's range of all inputs).

    Arguments are those of the event itself, else those of the innermost op around its launch that has any, else those
    of the ops that were coalesced into it (`collective_arguments`). Where there are none: the name is that of the op,
    else of the kernel; type and size are those of the op's first input. A host op within another of its thread that
    communicates is left out: the outer has its time. A backend's range of a send or receive within another such is
    not: that one is under way, not its caller.
    """
    return linked.derived(_collective_events)


def host_ranges(linked: LinkedTrace) -> pl.DataFrame:
    """The ranges in which the host itself communicates (gloo, MPI), in a trace that has device work; else none.

    Their columns are those of `collective_events`, which has them where there is no device work.
    """
    return linked.derived(_host_ranges)


def _host_ranges(linked: LinkedTrace) -> pl.DataFrame:
    if not linked.timeline.has_device:
        return pl.DataFrame(schema=_DESCRIBED)
    host = linked.timeline.of_role(Role.OP, Role.ANNOTATION).with_columns(as_text("name"))
    ranges = host.filter(pl.col("name").str.contains(_HOST_RANGE))
    return _described(
        ranges.select(
            "event_id",
            "name",
            pl.lit(COMMUNICATION).alias("kind"),
            pl.lit(HOST).alias("device"),
            "lane",
            "ts_ns",
            "dur_ns",
            pl.col("event_id").alias("op_event"),
        ),
        linked,
    )


def _collective_events(linked: LinkedTrace) -> pl.DataFrame:
    return _described(work_events(linked).filter(pl.col("kind") == COMMUNICATION), linked)


def _described(events: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Communicating events with type, size and group."""
    if events.is_empty():
        return pl.DataFrame(schema=_DESCRIBED)
    events = _outermost(events).sort("ts_ns", "event_id")
    lanes = linked.timeline.lanes.select(
        "lane", pl.coalesce(as_text("tid"), pl.col("tid_text"), pl.lit("unknown")).alias("stream")
    )
    asks = (pl.col("device") == HOST) & ~_IS_RANGE
    ranges = events.filter(_IS_RANGE).get_column("event_id")
    issuers = pl.DataFrame([ranges, issuing_ops(linked, ranges)])
    described = _with_arguments(events, linked).join(
        issuers, on="event_id", how="left", maintain_order="left"
    )
    described = described.with_columns(pl.coalesce("issuer", "op_event").alias("anchor"))
    return (
        with_groups(described, linked)
        .join(lanes, on="lane", how="left", maintain_order="left")
        .select(
            "event_id",
            "device",
            "lane",
            "ts_ns",
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            "stream",
            pl.coalesce("collective_name", "op_name", "name").alias("name"),
            "process_group",
            "description",
            "known_size",
            "known_ranks",
            "evidence",
            "issuer",
            "dtype",
            "message_bytes",
            asks.alias("asks"),
            pl.col("name").alias("kernel"),
            "op_event",
            pl.when(pl.col("source") >= 0).then("source").alias("source"),
            "first_bytes",
        )
        .pipe(_with_counts)
    )


def _with_counts(events: pl.DataFrame) -> pl.DataFrame:
    """Add `counts`: an issuing op and the backend's range are one collective if both are present.

    An op that asks counts if no backend has a range in its process group; one that sends to or receives from a single
    rank, if no backend has such a range. Unknown groups may be any.
    """
    single = pl.col("name").str.contains(_BETWEEN_TWO).alias("single")
    backends = (
        events.filter((pl.col("device") == HOST) & ~pl.col("asks")).select("process_group", single).unique()
    )
    any_group = pl.col("process_group").is_null()
    asking = events.filter("asks").select("event_id", pl.col("process_group").alias("asked"), single)
    ranged = asking.join(backends, on="single").filter(
        any_group | pl.col("asked").is_null() | (pl.col("asked") == pl.col("process_group"))
    )
    return events.with_columns(
        (~pl.col("event_id").is_in(ranged.get_column("event_id").implode())).alias("counts")
    )


def _outermost(events: pl.DataFrame) -> pl.DataFrame:
    """Without the host's ops that run wholly within another one of their thread, but for sends and receives at once."""
    end = pl.col("ts_ns") + pl.col("dur_ns")
    name = as_text("name")
    at_once = name.str.contains(_HOST_RANGE) & name.str.contains(_BETWEEN_TWO)
    callers_end = pl.when(~at_once).then(end).otherwise(pl.lit(_NEVER_NS))
    before = pl.when(at_once).then(_before(callers_end)).otherwise(_before(end))
    ordered = events.sort(pl.col("ts_ns"), end, pl.col("event_id"), descending=[False, True, False])
    return ordered.filter((pl.col("device") != HOST) | ~(end <= before).fill_null(value=False))


def _before(end: pl.Expr) -> pl.Expr:
    """The last end of all rows of the lane above each."""
    return end.cum_max().shift(1).over("lane")


def _with_arguments(events: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """The events with collective_name, pg_name, pg_desc, dtype, message_bytes and op_name; null if unknown."""
    timeline = linked.timeline
    given = collective_arguments(linked).select(
        pl.col("event_id").alias("source"),
        as_text("collective_name", "pg_name", "pg_desc", "dtype"),
        pl.max_horizontal("in_msg_nelems", "out_msg_nelems").alias("elements"),
    )
    op = events.get_column("op_event")
    rows = rows_of_events(timeline.host_ops.get_column("event_id"), op)
    arguments = fetched(timeline.host_ops.select("input_dims", "input_types"), rows)
    found = (
        events.with_columns(
            _source(events, linked),
            *arguments.get_columns(),
            *event_columns(timeline, op, op_name="name"),
        )
        .with_columns(as_text("input_dims", "input_types", "op_name"))
        .join(given, on="source", how="left", maintain_order="left")
        .with_columns(pl.col("input_types").str.json_path_match("$[0]").alias("first_type"))
    )
    is_type = mapped_by_name(found.get_column("first_type"), itemsize_of, pl.Int64).is_not_null()
    found = found.with_columns(pl.coalesce("dtype", pl.when(is_type).then("first_type")))
    by_shapes = _element_counts(found)
    itemsize = mapped_by_name(found.get_column("dtype"), itemsize_of, pl.Int64)
    elements = pl.coalesce("elements", by_shapes)
    possible = elements.is_between(0, MOST_ELEMENTS)
    return found.with_columns(
        pl.when(possible).then(elements * itemsize).alias("message_bytes"),
        (by_shapes * itemsize).alias("first_bytes"),
    )


def _element_counts(events: pl.DataFrame) -> pl.Series:
    """The elements of the inputs of each event's op, by their shapes; null: unknown."""
    inputs = events.select("input_dims", "input_types", _IS_RANGE.alias("of_all"))
    known = {
        (dims, types, of_all): elements_of(dims, types, of_all=of_all)
        for dims, types, of_all in inputs.filter(pl.col("input_dims").is_not_null()).unique().iter_rows()
    }
    return pl.Series("elements", [known.get(row) for row in inputs.iter_rows()], dtype=pl.Int64)


def _source(events: pl.DataFrame, linked: LinkedTrace) -> pl.Series:
    """The event whose `collective_arguments` are those of each event; -1: none."""
    return nearest_event(events, linked, collective_arguments(linked).get_column("event_id"))


def nearest_event(events: pl.DataFrame, linked: LinkedTrace, known: pl.Series) -> pl.Series:
    """Each event itself, else the innermost op around its `op_event`, if it is among the known ones; -1: none is."""
    with_arguments, event = known.to_numpy(), events.get_column("event_id").to_numpy()
    tree = host_ops(linked)
    op = events.get_column("op_event").fill_null(-1).to_numpy()
    is_op = np.isin(op, tree.event_id)
    nearest = np.full(len(event), -1, dtype=np.int64)
    if len(with_arguments) and is_op.any():
        rows = tree.nearest(np.isin(tree.event_id, with_arguments))[tree.rows(op[is_op])]
        nearest[is_op] = np.where(rows < 0, -1, tree.event_id[rows])
    return pl.Series("source", np.where(np.isin(event, with_arguments), event, nearest))


def collective_arguments(linked: LinkedTrace) -> pl.DataFrame:
    """`collectives` of the timeline with `peers`, and a row for each kernel into which ops were coalesced.

    Within a group (`batch_isend_irecv`, a coalescing manager, `ncclGroupStart`) ops launch nothing. Its end launches a
    kernel, around which there is no op, and whose event has no arguments: it carries out the ops that its thread issued
    since the last launch of communication. Several are one row: elements and sizes are sums, `peers` has each send
    and receive. Ops of several process groups or types say nothing about a kernel.
    """
    return linked.derived(_collective_arguments)


def _collective_arguments(linked: LinkedTrace) -> pl.DataFrame:
    given = linked.timeline.collectives.with_columns(pl.lit(None, dtype=pl.String).alias("peers"))
    coalesced = _coalesced_ops(linked)
    if coalesced.is_empty():
        return given
    ops = coalesced.join(given, on="event_id", how="left", maintain_order="left").with_columns(
        as_text("collective_name", "dtype", "pg_name"), pl.len().over("kernel").alias("count")
    )
    frames = (ops.filter(pl.col("count") == 1), _together(ops.filter(pl.col("count") > 1)))
    columns = [pl.col("kernel").alias("event_id"), *(pl.col(name) for name in given.columns[1:])]
    rows = pl.concat(
        frame.select(column.cast(dtype) for column, dtype in zip(columns, given.dtypes, strict=True))
        for frame in frames
    )
    return pl.concat([given, rows]).sort("event_id")


_OF_GROUP = ("group_size", "global_rank_start", "global_rank_stride", "pg_name", "pg_desc", "pg_ranks")
_OF_OP = ("in_split_size", "out_split_size", "src_rank", "dst_rank", "sequence", "comms_id")


def _together(ops: pl.DataFrame) -> pl.DataFrame:
    """A row for each kernel of several ops of one group: either sends and receives, or all of one type."""
    ops = ops.with_columns(
        pl.max_horizontal("in_msg_nelems", "out_msg_nelems").alias("elements"),
        _types(ops.get_column("collective_name")).alias("type"),
        pl.Series("itemsize", mapped_by_name(ops.get_column("dtype"), itemsize_of, pl.Int64)),
    )
    sends, receives = (pl.col("type") == kind.value for kind in (CollectiveType.SEND, CollectiveType.RECEIVE))
    peer = pl.when(sends).then("dst_rank").otherwise("src_rank")
    possible = pl.col("elements").is_between(0, MOST_ELEMENTS)
    size = pl.when(possible).then(pl.col("elements") * pl.col("itemsize"))
    each = pl.struct("type", pl.when(peer >= 0).then(peer).alias("peer"), size.alias("size_bytes"))
    paired, name = (sends | receives).all(), pl.col("collective_name").first()
    is_one = pl.col("type").n_unique() == 1
    same_dtype = pl.col("dtype").n_unique() == 1
    found = (
        ops.group_by("kernel", maintain_order=True)
        .agg(
            pl.when(paired).then(pl.lit(COALESCED)).otherwise(name).alias("collective_name"),
            _sum(pl.when(receives).then(0).otherwise("in_msg_nelems")).alias("in_msg_nelems"),
            _sum(pl.when(sends).then(0).otherwise("out_msg_nelems")).alias("out_msg_nelems"),
            pl.when(same_dtype).then(pl.col("dtype").first()).alias("dtype"),
            *(pl.col(name).first() for name in _OF_GROUP),
            *(pl.lit(None).alias(name) for name in _OF_OP),
            pl.when(paired).then(each.implode()).first().alias("peers"),
            ((paired | is_one) & (pl.col("pg_name").n_unique() == 1)).alias("is_clear"),
        )
        .filter("is_clear")
    )
    texts = map(text_of_peers, found.get_column("peers").to_list())
    return found.with_columns(pl.Series("peers", texts, dtype=pl.String))


def _sum(elements: pl.Expr) -> pl.Expr:
    """The sum; null where one is unknown."""
    return pl.when(elements.null_count() == 0).then(elements.sum())


def _coalesced_ops(linked: LinkedTrace) -> pl.DataFrame:
    """`kernel` and `event_id`: the ops that each NCCL kernel without arguments carries out, in the order of issue."""
    timeline, known = linked.timeline, linked.timeline.collectives.get_column("event_id")
    nothing = pl.DataFrame(schema={"kernel": pl.Int64, "event_id": pl.Int64})
    if known.is_empty() or not timeline.has_device:
        return nothing
    kernels = device_events(linked).filter(pl.col("kind") == COMMUNICATION)
    kernels = kernels.with_columns(nearest_event(kernels, linked, known))
    open_ = kernels.filter((pl.col("source") < 0) & (pl.len().over("call_event") == 1))
    (call,) = event_columns(timeline, open_.get_column("call_event"), name="name")
    open_ = open_.filter(_launches_a_kernel(call))
    open_ = open_.filter(
        mapped_by_name(open_.get_column("name"), _is_nccl, pl.Boolean) & ~_in_communicating_op(open_, linked)
    )
    if open_.is_empty():
        return nothing
    alone, ends = _launches(linked, kernels, open_.get_column("op_event"))
    # A kernel with arguments of its own has them from the op around its launch.
    around = nearest_event(kernels.with_columns(pl.lit(-1, dtype=pl.Int64).alias("event_id")), linked, known)
    launched = pl.concat([around, alone]).implode()
    ops = timeline.of_role(Role.OP).filter(pl.col("event_id").is_in(known.implode()))
    type_ = _types(timeline.collectives.get_column("collective_name"))
    named = timeline.collectives.get_column("event_id").filter(type_.is_not_null())
    issued = (
        ops.select("event_id", "lane", (pl.col("ts_ns") + pl.col("dur_ns")).alias("at_ns"))
        .filter(pl.col("event_id").is_in(named.implode()) & ~pl.col("event_id").is_in(launched))
        .sort("at_ns", "event_id")
    )
    closed = issued.join_asof(ends, on="at_ns", by="lane", strategy="forward", check_sortedness=False)
    carried = open_.select("call_event", pl.col("event_id").alias("kernel"))
    return closed.join(carried, on="call_event", how="inner", maintain_order="left").select(
        "kernel", "event_id"
    )


def _launches_a_kernel(calls: pl.Series) -> pl.Series:
    return pl.Series(flags_by_name(calls, lambda name: call_does(name, CallAction.LAUNCH_KERNEL)))


def _launches(
    linked: LinkedTrace, kernels: pl.DataFrame, places: pl.Series
) -> tuple[pl.Series, pl.DataFrame]:
    """The ops that launched work which is not in the trace, and the launches that end a group of ops.

    These are the launches of communication, and those of which the work is not in the trace, at a place (an op, an
    annotation) where others launch coalesced ops.

    Returns:
        Ops, and a frame with call_event, lane and at_ns, by time.
    """
    timeline = linked.timeline
    calls = timeline.of_role(Role.CALL)
    has_work = pl.col("event_id").is_in(linked.launches.get_column("call_event").implode())
    lost = calls.filter(_launches_a_kernel(calls.get_column("name")) & ~has_work)
    lost = lost.join(linked.host_tree.select("event_id", "op_event"), on="event_id", how="left")
    sources = nearest_event(lost, linked, timeline.collectives.get_column("event_id"))
    at_place = lost.filter((sources < 0) & pl.col("op_event").is_in(places.implode(), nulls_equal=True))
    ending = pl.concat(
        [kernels.get_column("call_event").drop_nulls(), at_place.get_column("event_id")]
    ).implode()
    ends = calls.filter(pl.col("event_id").is_in(ending)).sort("ts_ns", "event_id")
    return sources, ends.select(
        pl.col("event_id").alias("call_event"), "lane", pl.col("ts_ns").alias("at_ns")
    )


def _is_nccl(kernel: str) -> bool:
    return library_of(kernel) in ("NCCL", "RCCL")


def _in_communicating_op(events: pl.DataFrame, linked: LinkedTrace) -> pl.Series:
    """Return whether the innermost op around a launch, unless an annotation, communicates: the work is its own."""
    columns = event_columns(linked.timeline, events.get_column("op_event"), name="name", category="category")
    table = pl.DataFrame(columns)
    is_op = as_text("category").is_in(categories_of(Role.OP)).fill_null(value=False)
    return table.select(
        is_op & mapped_by_name(table.get_column("name"), _communicates, pl.Boolean).fill_null(value=False)
    ).to_series()


def _communicates(op: str) -> bool:
    rule = rule_of(op, Subject.OP)
    return rule is not None and rule.says is Says.COMMUNICATES
