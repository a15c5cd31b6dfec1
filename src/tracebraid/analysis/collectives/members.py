"""Members of collectives: a rank's part in communication."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import polars as pl

from tracebraid.analysis.device import device_events, event_columns, fetched, rows_of_events
from tracebraid.analysis.time.breakdown import HOST
from tracebraid.analysis.time.collective_events import (
    MOST_ELEMENTS,
    collective_arguments,
    collective_events,
    host_ranges,
    itemsize_of,
    nearest_event,
)
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.category import Role
from tracebraid.model.collectives import (
    CollectiveType,
    GroupEvidence,
    algorithm_of,
    library_of,
    protocol_of,
    text_of_ranks,
    type_of,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import mapped_by_name
from tracebraid.model.schema.links import MEMBERS

_MOST_RANKS = 2**20
"""More ranks than any job has: a size beyond is damaged."""

_SENT = r"send (?P<own>\d+)->(?P<other>\d+)"
_RECEIVED = r"recv (?P<own>\d+)<-(?P<other>\d+)"

_KEY = ["process_group", "group_size", "global_rank_start", "global_rank_stride", "pg_ranks"]


def with_groups(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add group_ranks, group_size, source and destination.

    The ranks of a group are those of the collective's arguments, else of the file's process groups, else counted from
    its first rank by its stride, else all where it is as large as the job. `Src Rank` and `Dst Rank` are global ranks;
    in the name of a range (`nccl:recv 1<-0`) both numbers count in the group, and become global ranks; so does the peer
    that an op asked for. Where the group of such an op is unknown, that is the rank which those groups of this rank
    have there in which it can have that peer, if they agree.
    """
    timeline = linked.timeline
    headers = {
        name: (ranks, size)
        for name, ranks, size in timeline.process_groups.select("pg_name", "ranks", "group_size").iter_rows()
        if name is not None
    }
    distinct = found.select(_KEY).unique(maintain_order=True)
    groups = [_group(row, headers, timeline.world_size) for row in distinct.iter_rows()]
    schema: dict[str, pl.DataType] = {"group_ranks": pl.List(pl.Int64), "known_size": pl.Int64()}
    listed = pl.DataFrame(groups, schema=schema, orient="row")
    texts = [text_of_ranks(ranks) for ranks, _ in groups]
    known = distinct.hstack(listed).with_columns(pl.Series("_text", texts, dtype=pl.Categorical))
    joined = found.join(known, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    me, kind = pl.lit(linked.rank, dtype=pl.Int64), pl.col("type")
    is_send, is_receive = kind == CollectiveType.SEND.value, kind == CollectiveType.RECEIVE.value
    asked = _asked(joined, [ranks for ranks, _ in headers.values() if ranks], linked)
    source, destination = (
        pl.coalesce(
            _peer(argument, pattern, linked.rank), pl.when(pl.col("type") == kind_of.value).then(asked)
        )
        for argument, pattern, kind_of in (
            ("src_rank", _RECEIVED, CollectiveType.RECEIVE),
            ("dst_rank", _SENT, CollectiveType.SEND),
        )
    )
    # In a group of two the peer is the other one.
    of_two = pl.col("group_ranks").list.len() == 2
    other = pl.when(of_two & pl.col("group_ranks").list.contains(me)).then(
        pl.col("group_ranks").list.sum() - me
    )
    named = pl.concat_str(pl.lit('"peer":'), other.cast(pl.String).fill_null("null"))
    return joined.with_columns(
        pl.col("known_size").alias("group_size"),
        pl.when(is_send)
        .then(me)
        .when(is_receive)
        .then(pl.coalesce(source, other))
        .otherwise(source)
        .alias("source"),
        pl.when(is_receive)
        .then(me)
        .when(is_send)
        .then(pl.coalesce(destination, other))
        .otherwise(destination)
        .alias("destination"),
        pl.col("peers").str.replace_all('"peer":null', named, literal=True),
        pl.col("_text").alias("group_ranks"),
    ).drop("_text")


def _peer(argument: str, pattern: str, rank: int) -> pl.Expr:
    """The global rank of a peer: the argument, else the number in the range's name, which counts in the group."""
    numbers = pl.col("name").str.extract_groups(pattern)
    own, other = (numbers.struct.field(name).cast(pl.Int64, strict=False) for name in ("own", "other"))
    ranks = pl.col("group_ranks")
    is_own = ranks.list.get(own.fill_null(0), null_on_oob=True) == rank
    named = pl.when(is_own & other.is_not_null()).then(ranks.list.get(other.fill_null(0), null_on_oob=True))
    return pl.coalesce(pl.when(pl.col(argument) >= 0).then(argument), named)


def _asked(found: pl.DataFrame, listed: list[list[int]], linked: LinkedTrace) -> pl.Series:
    """The global rank of an op's peer; null: unknown."""
    world = linked.timeline.world_size
    groups = listed or ([list(range(world))] if world is not None and world <= _MOST_RANKS else [])
    peers: dict[int, int] = {}
    for number in found.get_column("asked_peer").drop_nulls().unique().to_list():
        possible = {ranks[number] for ranks in groups if linked.rank in ranks and number < len(ranks)}
        possible -= {linked.rank}
        if len(possible) == 1:
            peers[number] = possible.pop()
    of_any = pl.col("asked_peer").replace_strict(peers, default=None, return_dtype=pl.Int64)
    of_group = pl.col("group_ranks").list.get(pl.col("asked_peer").fill_null(0), null_on_oob=True)
    own = pl.when(pl.col("asked_peer").is_not_null()).then(of_group)
    peer = pl.coalesce(own, of_any)
    return found.select(pl.when(peer != linked.rank).then(peer).alias("asked")).to_series()


def _group(
    row: tuple[str | None, int | None, int | None, int | None, list[int] | None],
    headers: dict[str, tuple[list[int] | None, int | None]],
    world: int | None,
) -> tuple[list[int] | None, int | None]:
    """The ranks and the size of a group."""
    name, size, start, stride, given = row
    listed, header_size = headers.get(name, (None, None)) if name is not None else (None, None)
    size = size if size is not None and 0 < size <= _MOST_RANKS else header_size
    if given and size in (None, len(given)):
        return given, len(given)
    if listed and size in (None, len(listed)):
        return listed, len(listed)
    if (
        size is not None
        and start is not None
        and stride is not None
        and 0 <= start <= _MOST_RANKS >= stride > 0
    ):
        return [start + stride * number for number in range(size)], size
    if size is not None and size == world:
        return list(range(size)), size
    return None, size


_ASKS = r"^c10d::(?:send|recv_)$"
"""Ops that send or receive; the third input is the peer's number in the group."""
_PEER = r'^\[(?:[^,]*,){2}\s*"?(\d{1,9})"?'
_PAIRED = [CollectiveType.SEND.value, CollectiveType.RECEIVE.value]


def with_peer_numbers(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add `asked_peer`, the peer's number in the group; null: unknown.

    A backend's range begins in the op that asks for it, on its thread, and may end behind it: it is of the last op that
    began before.
    """
    is_paired = (pl.col("device") == HOST) & pl.col("type").is_in(_PAIRED)
    asks = _asks(linked) if found.select(is_paired.any()).item() else _NONE
    if asks.is_empty():
        return found.with_columns(pl.lit(None, dtype=pl.Int64).alias("asked_peer"))
    rows = found.with_row_index("_row").sort("ts_ns", maintain_order=True)
    joined = rows.join_asof(asks, on="ts_ns", by="lane", strategy="backward", check_sortedness=False)
    is_asked = is_paired & (pl.col("ts_ns") <= pl.col("_end_ns"))
    return (
        joined.with_columns(pl.when(is_asked).then("asked_peer").alias("asked_peer"))
        .sort("_row")
        .drop("_row", "_end_ns")
    )


def _asks(linked: LinkedTrace) -> pl.DataFrame:
    """The ops that ask, in the order of their starts."""
    timeline = linked.timeline
    ops = timeline.of_role(Role.OP).filter(as_text("name").str.contains(_ASKS)).sort("ts_ns", "event_id")
    host_ops = timeline.host_ops
    inputs = fetched(
        host_ops.select("concrete_inputs"),
        rows_of_events(host_ops.get_column("event_id"), ops.get_column("event_id")),
    )
    return ops.hstack(inputs).select(
        "lane",
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("_end_ns"),
        as_text("concrete_inputs").str.extract(_PEER).cast(pl.Int64).alias("asked_peer"),
    )


_NONE = pl.DataFrame()


_OUTPUT_FIRST = (
    r"^c10d::(?:_?allgather_|_allgather_base_|allgather_into_tensor|reduce_scatter_|_reduce_scatter_base_"
    r"|alltoall|gather_|scatter_)"
)
"""Ops of which the first argument is what they write: its shapes are those of the output."""

_T = CollectiveType
_SAME = [kind.value for kind in (_T.ALL_REDUCE, _T.BROADCAST)]


_EVEN = "[]"
"""Splits that an op was not given: the parts of all ranks are equal."""
_ALL_TO_ALL = r"^c10d::alltoall(?:_base)?_$"
"""Ops of which the arguments say what each rank sends and receives: outputs, inputs, the group, and two lists."""


def _with_parts(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Members of which all-to-alls have the elements and splits of the op that asked for them.

    A backend's range says nothing but its inputs, and `record_param_comms` has no splits of lists of tensors. What
    both say stays as it is. In a list the tensors are the parts.
    """
    is_one = (pl.col("type") == _T.ALL_TO_ALL.value).fill_null(value=False)
    if not found.select(is_one.any()).item():
        return found
    ops = _all_to_all_ops(linked)
    anchors = found.select(
        "event_id", pl.when(is_one).then(pl.coalesce("issuer", "op_event")).alias("op_event")
    )
    asked = nearest_event(anchors, linked, ops.get_column("event_id"))
    facts = fetched(ops.drop("event_id"), rows_of_events(ops.get_column("event_id"), asked))
    joined = found.hstack(facts.rename(lambda name: f"_{name}"))
    of_list = pl.col("_of_list").fill_null(value=False)
    known = []
    for name, dtype in _PARTS.items():
        given = pl.col(name).cast(dtype)
        is_said = given.str.contains(r"\d") if dtype == pl.String() else given.is_not_null()
        other = pl.coalesce(f"_{name}", pl.when(~of_list | (dtype != pl.String())).then(given))
        known.append(pl.when(is_said).then(given).otherwise(other).alias(name))
    return joined.with_columns(known).drop(facts.rename(lambda name: f"_{name}").columns)


_Parts: TypeAlias = tuple[int | None, int | None, str | None, str | None]


def _all_to_all_ops(linked: LinkedTrace) -> pl.DataFrame:
    """Columns event_id, of_list and `_PARTS` of the ops that ask for an all-to-all; null: unknown.

    Kineto leaves out lists of more than 30 numbers, and all arguments where no shapes were recorded: the Execution
    Trace has them.
    """
    timeline = linked.timeline
    ops = (
        timeline.of_role(Role.OP)
        .with_columns(as_text("name"))
        .filter(pl.col("name").str.contains(_ALL_TO_ALL))
    )
    table = timeline.host_ops
    rows = rows_of_events(table.get_column("event_id"), ops.get_column("event_id"))
    ops = ops.hstack(fetched(table.select(as_text("input_dims", "concrete_inputs")), rows))
    arguments = ops.select("name", "input_dims", "concrete_inputs").iter_rows()
    facts = _frame_of_parts(_parts(name, _listed(dims), _listed(values)) for name, dims, values in arguments)
    if linked.has_et and sum(facts.null_count().row(0)):
        nodes = _node_inputs(ops.get_column("event_id"), linked)
        named = ops.select("event_id", "name").iter_rows()
        by_node = _frame_of_parts(_parts(name, *nodes.get(event, ([], []))) for event, name in named)
        facts = facts.select(
            own.fill_null(other)
            for own, other in zip(facts.get_columns(), by_node.get_columns(), strict=True)
        )
    return ops.select("event_id", (~pl.col("name").str.contains("_base")).alias("of_list")).hstack(facts)


def _frame_of_parts(rows: Iterable[_Parts]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=_PARTS, orient="row")


_PARTS = {
    "in_msg_nelems": pl.Int64(),
    "out_msg_nelems": pl.Int64(),
    "in_split_size": pl.String(),
    "out_split_size": pl.String(),
}
_SPLITS = re.compile(r"\[(?:\d+(?:, ?\d+)*)?\]")


def _listed(text: str | None) -> list[Any]:
    """A list in JSON text; empty if it is damaged, or there is none."""
    try:
        return msgspec.json.decode(text or "[]", type=list[Any])
    except (msgspec.MsgspecError, RecursionError):
        return []


def _node_inputs(events: pl.Series, linked: LinkedTrace) -> dict[int, tuple[list[Any], list[Any]]]:
    """The shapes and the values of the inputs of each op in the Execution Trace, by event."""
    assert linked.et is not None
    nodes = linked.node_links.filter(pl.col("event_id").is_in(events.implode())).select("node_id", "event_id")
    values = linked.et.values.filter(~pl.col("is_output")).join(nodes, on="node_id", how="inner")
    found: dict[int, tuple[list[Any], list[Any]]] = {}
    for event, shape, value in (
        values.sort("event_id", "position").select("event_id", as_text("shape", "value")).iter_rows()
    ):
        shapes, texts = found.setdefault(event, ([], []))
        shapes.append(_listed(shape))
        texts.append(value)
    return found


def _parts(name: str, dims: list[Any], values: list[Any]) -> _Parts:
    """Elements and splits, in and out, of an op that asks for an all-to-all; None: unknown."""
    received, sent = (dims[at] if at < len(dims) else None for at in (0, 1))
    if "_base" in name:
        splits = (values[at] if at < len(values) else None for at in (4, 3))
        given, got = (text if isinstance(text, str) and _SPLITS.fullmatch(text) else None for text in splits)
        return _size(sent), _size(received), given, got
    (sends, given), (receives, got) = (_of_list(tensors) for tensors in (sent, received))
    return sends, receives, given, got


def _of_list(tensors: Any) -> tuple[int | None, str | None]:
    """The elements of a list of tensors, and of each of them as splits; None: unknown."""
    sizes = [_size(tensor) for tensor in tensors] if isinstance(tensors, list) else []
    known = [size for size in sizes if size is not None]
    return (sum(known), str(known)) if known and len(known) == len(sizes) else (None, None)


def _size(shape: Any) -> int | None:
    """The elements of a tensor of at least one dimension; None: unknown."""
    is_shape = (
        isinstance(shape, list) and shape and all(isinstance(size, int) and size >= 0 for size in shape)
    )
    return math.prod(shape) if is_shape else None


def with_bytes(found: pl.DataFrame) -> pl.DataFrame:
    """Add in_bytes, out_bytes, in_split and out_split.

    Bytes are the arguments' elements times the size of their type, else those of the op's first argument by its
    shapes. Where only one of both is known, the type says the other: an all-gather's output is its input times the
    ranks of its group, a reduce-scatter's the input by them.
    """
    sizes = {text: itemsize_of(text) for text in found.get_column("dtype").drop_nulls().unique().to_list()}
    itemsize = pl.col("dtype").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    output_first = pl.col("name").str.contains(_OUTPUT_FIRST) | (pl.col("type") == _T.RECEIVE.value)
    output_first = output_first.fill_null(value=False)
    first, given = pl.col("first_bytes"), pl.col("in_msg_nelems").is_not_null()
    found = found.with_columns(
        pl.coalesce(_possible("in_msg_nelems") * itemsize, pl.when(~output_first & ~given).then(first)).alias(
            "_in"
        ),
        pl.coalesce(_possible("out_msg_nelems") * itemsize, pl.when(output_first & ~given).then(first)).alias(
            "_out"
        ),
    )
    return found.with_columns(
        pl.coalesce("_in", _other("_out", grows=False)).alias("in_bytes"),
        pl.coalesce("_out", _other("_in", grows=True)).alias("out_bytes"),
        _split("in_split_size").alias("in_split"),
        _split("out_split_size").alias("out_split"),
    )


def _possible(elements: str) -> pl.Expr:
    return pl.when(pl.col(elements).is_between(0, MOST_ELEMENTS)).then(elements)


def _split(column: str) -> pl.Expr:
    """The parts as the trace says them; `[]`, which says that they are equal, of an all-to-all alone."""
    text = pl.col(column).cast(pl.String).str.strip_chars('"')
    is_even = (text == _EVEN) & (pl.col("type") == _T.ALL_TO_ALL.value)
    return pl.when(text.str.contains(r"\d") | is_even).then(text)


def _other(known: str, *, grows: bool) -> pl.Expr:
    """The output of an input, or if it does not grow, the input of an output; null if the type does not say."""
    kind, size, held = pl.col("type"), pl.col("group_size"), pl.col(known)
    gathers, scatters = _T.ALL_GATHER.value, _T.REDUCE_SCATTER.value
    more, less = (gathers, scatters) if grows else (scatters, gathers)
    divides = (size > 0) & (held % size == 0)
    splits = (
        pl.col(name).cast(pl.String).str.strip_chars('"') for name in ("in_split_size", "out_split_size")
    )
    even = (kind == _T.ALL_TO_ALL.value) & pl.all_horizontal(
        (split == _EVEN).fill_null(value=False) for split in splits
    )
    return (
        pl.when(kind.is_in(_SAME) | even)
        .then(held)
        .when((kind == more) & (size <= MOST_ELEMENTS // held.clip(1)))
        .then(held * size)
        .when((kind == less) & divides)
        .then(held // size)
    )


_AMD = "AMD"
"""Pattern of devices whose NCCL is RCCL, with kernels of the same names."""


def members(linked: LinkedTrace) -> pl.DataFrame:
    """The rank's rows of `MEMBERS`, on its own clock, not matched."""
    return linked.derived(_members)


def _members(linked: LinkedTrace) -> pl.DataFrame:
    found = pl.concat([collective_events(linked), host_ranges(linked)])
    if not found.is_empty():
        found = found.filter("counts")
    if found.is_empty():
        return MEMBERS.empty()
    found = found.with_columns(_issued(linked, found), pl.col("ts_ns").alias("start_ns"))
    given = collective_arguments(linked)
    rows = rows_of_events(given.get_column("event_id"), found.get_column("source"))
    arguments = fetched(given.drop("event_id", "dtype", "pg_name", "pg_desc"), rows)
    found = _with_names(found.hstack(arguments.get_columns()), linked)
    found = _with_recorded_groups(found)
    found = _with_parts(with_groups(with_peer_numbers(found, linked), linked), linked)
    found = with_bytes(found)
    moments = found.select(pl.coalesce("issued_ns", "start_ns").alias("ts_ns"))
    steps = step_of_moments(moments, step_windows(linked)).get_column("step")
    rank = pl.lit(linked.rank, dtype=pl.Int64).alias("rank")
    ordered = found.with_columns(steps, rank).sort("start_ns", "event_id")
    return MEMBERS.conform(ordered, fill_missing=True)


def _with_recorded_groups(found: pl.DataFrame) -> pl.DataFrame:
    """Add the ranks and sizes of groups known from other sources than the collective's arguments."""
    is_other = ~pl.col("evidence").is_in([GroupEvidence.ARGUMENTS.value, GroupEvidence.ONLY_GROUP.value])
    is_other = is_other.fill_null(value=False)
    own = ("global_rank_start", "global_rank_stride")
    return found.with_columns(
        pl.when(is_other).then("known_ranks").otherwise("pg_ranks").alias("pg_ranks"),
        pl.when(is_other).then("known_size").otherwise("group_size").alias("group_size"),
        *(pl.when(~is_other).then(name).alias(name) for name in own),
    ).drop("known_ranks", "known_size")


def _issued(linked: LinkedTrace, found: pl.DataFrame) -> pl.Series:
    """`issued_ns`: the start of the call, else of the op, that launched a device's event or issued a host's range."""
    events = device_events(linked).select("event_id", call="call_event", op="op_event")
    launch = fetched(
        events.select(pl.coalesce("call", "op").alias("launch")),
        rows_of_events(events.get_column("event_id"), found.get_column("event_id")),
    ).get_column("launch")
    issuer = found.select(pl.coalesce("issuer", launch).alias("issuer")).to_series()
    return event_columns(linked.timeline, issuer, issued_ns="ts_ns")[0]


def _with_names(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add type, library, algorithm and protocol; host ops without type, such as waits, are dropped."""
    kernel, name = found.get_column("kernel"), found.get_column("name")
    is_amd = any(_AMD in device for device in linked.timeline.device_names)
    library = pl.col("library").replace("NCCL", "RCCL") if is_amd else pl.col("library")
    (issuer,) = event_columns(linked.timeline, found.get_column("issuer"), issuer="name")
    types = (mapped_by_name(names, type_of) for names in (issuer, name, kernel))
    typed = found.with_columns(
        pl.coalesce(*types).alias("type"),
        pl.coalesce(mapped_by_name(kernel, library_of), mapped_by_name(name, library_of)).alias("library"),
        mapped_by_name(kernel, algorithm_of).alias("algorithm"),
        mapped_by_name(kernel, protocol_of).alias("protocol"),
        pl.col("comms_id").alias("communicator"),
    ).with_columns(library)
    return typed.filter(pl.col("type").is_not_null() | (pl.col("device") != HOST))
