"""The simulated part of a job, from its linked ranks: `JobPlan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.collectives.transfers import members_with_waits
from tracebraid.chakra.codes import CollectiveCommType, Dialect, MissingRanks, NodeType
from tracebraid.chakra.plan.consistent_order import Rows, consistent_order
from tracebraid.chakra.plan.divided_ranks import RankGroups, divided
from tracebraid.chakra.plan.meeting_times import MEETING_COLUMNS, with_meeting_times
from tracebraid.chakra.plan.traced_communication import traced_communication, with_known_groups
from tracebraid.chakra.plan.world import (
    GroupsOfRanks,
    JobPlan,
    PlannedRank,
    PlanOptions,
    TracedWorld,
    groups_of_ranks,
    numbered_groups,
    simulated_ranks,
    traced_groups,
    traced_world,
)
from tracebraid.chakra.schema import CHAKRA_COMMUNICATION
from tracebraid.graph.collective_edges import LEAST_CONFIDENCE
from tracebraid.model.collectives import HOST, PAIRED, CollectiveType, is_between_two
from tracebraid.model.finding import ALONE_REASONS, AloneReason, Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.quantities import duration, numbers_text

_SEND = CollectiveType.SEND.value
_IS_PAIR = pl.col("type").is_in(PAIRED).fill_null(value=False)


def planned_communication(
    traced: pl.DataFrame, ranks: Sequence[PlannedRank], groups: GroupsOfRanks
) -> pl.DataFrame:
    """The rows of `traced_communication` of each simulated rank, by rank.

    Further columns:
        rank: the simulated rank.
        entry: place of its group in `groups`; null: its ranks are not known.
        from_rank, to_rank: of a send or a receive, dense; null: the peer is not simulated.
        item: what ranks do together has the same number on all of them, a send and its receive have too; what a rank
            does alone has a number of its own.
        reason: as there; of what not all ranks of the group do, or on what they disagree, as well.
    """
    rows = _of_ranks(traced, ranks, groups)
    rows = rows.join(_peers(rows, groups, ranks), on=["rank", "row"], how="left", maintain_order="left")
    return _numbered(_with_reasons(rows.with_columns(_key().alias("key")), groups))


def _key() -> pl.Expr:
    """Number of joint communication, equal on all ranks; null: it is simulated alone."""
    peers = [pl.when(_IS_PAIR).then(name).fill_null(-1).alias(name) for name in ("from_rank", "to_rank")]
    entry = pl.when(_IS_PAIR).then(-1).otherwise("entry").fill_null(-2).alias("entry")
    together = pl.struct(entry, *peers, "number").rank("dense").cast(pl.Int64)
    return pl.when(pl.col("reason").is_null()).then(together)


def _of_ranks(traced: pl.DataFrame, ranks: Sequence[PlannedRank], groups: GroupsOfRanks) -> pl.DataFrame:
    simulated = pl.DataFrame(
        [(rank.rank, rank.source, rank.is_replica) for rank in ranks],
        schema={"rank": pl.Int64, "source": pl.Int64, "is_replica": pl.Boolean},
        orient="row",
    )
    images = pl.DataFrame(
        [(rank, origin, entry) for rank, own in enumerate(groups.of_rank) for origin, entry in own.items()],
        schema={"rank": pl.Int64, "origin": pl.Int64, "entry": pl.Int64},
        orient="row",
    )
    return (
        simulated.join(traced, on="source", how="inner", maintain_order="left_right")
        .join(images, on=["rank", "origin"], how="left", maintain_order="left")
        .rename({"from_rank": "_from", "to_rank": "_to"})
    )


def _peers(rows: pl.DataFrame, groups: GroupsOfRanks, ranks: Sequence[PlannedRank]) -> pl.DataFrame:
    """`rank`, `row`, and the dense `from_rank` and `to_rank` of each send and receive.

    A replica's peer has the place in its group that the peer of its source has in the source's.
    """
    own = rows.filter(pl.col("type").is_in(PAIRED))
    dense = {rank.world_rank: rank.rank for rank in ranks}
    home = {rank.source: number for number, rank in enumerate(ranks) if not rank.is_replica}
    found = []
    columns = ("rank", "row", "source", "is_replica", "origin", "entry", "type", "_from", "_to")
    for rank, row, source, is_replica, origin, entry, kind, sender, receiver in own.select(
        columns
    ).iter_rows():
        peer = receiver if kind == _SEND else sender
        if peer is not None and is_replica:
            peer = _moved(groups, (home.get(source), origin), entry, peer)
        peer = dense.get(peer)
        found.append((rank, row, rank if kind == _SEND else peer, peer if kind == _SEND else rank))
    schema = {"rank": pl.Int64, "row": pl.Int64, "from_rank": pl.Int64, "to_rank": pl.Int64}
    return pl.DataFrame(found, schema=schema, orient="row")


def _moved(groups: GroupsOfRanks, home: tuple[int | None, int], entry: int | None, peer: int) -> int | None:
    source, origin = home
    if source is None or entry is None or origin not in groups.of_rank[source]:
        return None
    there = groups.whole[groups.of_rank[source][origin]]
    own = groups.whole[entry]
    return own[there.index(peer)] if peer in there and len(own) == len(there) else None


def _with_reasons(rows: pl.DataFrame, groups: GroupsOfRanks) -> pl.DataFrame:
    sizes = {entry: len(ranks) for entry, ranks in enumerate(groups.ranks)}
    size = pl.col("entry").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    kinds = pl.col("type").n_unique().over("key")
    there = pl.col("rank").n_unique().over("key")
    twice = pl.len().over("key") > there
    lacks_peer = (
        pl.col("from_rank").is_null() | pl.col("to_rank").is_null() | (kinds != 2) | (there != 2) | twice
    )
    is_open = pl.col("reason").is_null()
    reasons = (
        (is_open & _IS_PAIR & lacks_peer, AloneReason.PEER_MISSING),
        (is_open & ~_IS_PAIR & (size == 1).fill_null(value=False), AloneReason.SINGLE_RANK),
        (is_open & ~_IS_PAIR & (size.is_null() | (there != size) | twice), AloneReason.MEMBERS_MISSING),
        (is_open & ~_IS_PAIR & (kinds != 1), AloneReason.TYPES_DIFFER),
    )
    known = pl.col("reason")
    for condition, reason in reversed(reasons):
        known = pl.when(condition).then(pl.lit(reason.value)).otherwise(known)
    return rows.with_columns(known.alias("reason"))


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `item`: joint communication is numbered by its first member, followed by what is done alone."""
    together = rows.filter(pl.col("reason").is_null()).select("key").unique(maintain_order=True)
    together = together.with_row_index("item")
    own = together.height + pl.int_range(pl.len())
    joined = rows.join(together, on="key", how="left", maintain_order="left")
    item = pl.when(pl.col("reason").is_null()).then(pl.col("item").cast(pl.Int64)).otherwise(own)
    return joined.with_columns(item.alias("item")).drop("key", "_from", "_to")


_ALONE = "alone."
_LEAST_MOVED_NS = 1_000
"""Traces round to a us: less is no sign of anything."""
_MOST = 0.5
"""Maximum share of communication, by count or bytes, that an export may lose (heuristic)."""


def plan_counts(rows: pl.DataFrame) -> dict[str, int]:
    """Count mappings over all ranks: `all_reduce as ALL_REDUCE`, `alone.members missing`, and so on."""
    together = rows.filter(pl.col("reason").is_null())
    what = pl.coalesce("type", "name", pl.lit("unknown"))
    became = pl.concat_str(what, pl.lit(" as "), pl.coalesce("comm_type", "node_type"))
    counts = {
        **_counted(together.select(became.alias("what"))),
        **_counted(
            rows.filter(pl.col("reason").is_not_null()).select(
                pl.concat_str(pl.lit(_ALONE), "reason").alias("what")
            )
        ),
        "size unknown": _size_unknown(rows).height,
        "size raised": together.filter(pl.col("size") < pl.col("comm_size")).height,
        "sizes differ": together.filter("sizes_differ").get_column("item").n_unique(),
        "transfer not measured": together.filter(~pl.col("is_measured")).height,
    }
    return {name: count for name, count in counts.items() if count}


def plan_findings(plan: JobPlan, world: TracedWorld, rows: pl.DataFrame) -> tuple[Finding, ...]:
    """Findings about a plan."""
    return tuple(
        finding for found in (_rank_findings(plan, world), _of_rows(plan, world, rows)) for finding in found
    )


def _rank_findings(plan: JobPlan, world: TracedWorld) -> Iterator[Finding]:
    if plan.options.missing is MissingRanks.SHRINK and plan.missing:
        yield Finding.of(
            FindingCode.CHAKRA_WORLD_SHRUNK,
            world.path,
            count=len(plan.missing),
            world=world.size,
            ranks=len(plan.ranks),
            missing=numbers_text(plan.missing),
        )
    replicas = [rank for rank in plan.ranks if rank.is_replica]
    if replicas:
        yield Finding.of(
            FindingCode.CHAKRA_RANKS_REPLICATED,
            world.path,
            count=len(replicas),
            replicas=numbers_text([rank.rank for rank in replicas]),
            sources=numbers_text(sorted({rank.source for rank in replicas})),
        )
    assumed = [group for group in world.groups if not group.is_listed]
    if assumed and len(plan.ranks) > 1:
        yield Finding.of(FindingCode.CHAKRA_GROUP_ASSUMED, world.path, count=len(assumed), world=world.size)
    if len(plan.ranks) == 1 and world.size > 1:
        yield Finding.of(FindingCode.CHAKRA_SINGLE_RANK, world.path, rank=plan.ranks[0].world_rank)
    if plan.communication.is_empty() and len(plan.ranks) > 1 and not plan.ranks[0].pipeline:
        yield Finding.of(FindingCode.CHAKRA_NO_COMMUNICATION, world.path)


def _of_rows(plan: JobPlan, world: TracedWorld, rows: pl.DataFrame) -> Iterator[Finding]:
    reasons = rows.filter(pl.col("reason").is_not_null())
    for reason in AloneReason:
        own = reasons.filter(pl.col("reason") == reason.value)
        if own.height and reason is not AloneReason.SINGLE_RANK:
            code = FindingCode.CHAKRA_COMMUNICATION_ALONE
            yield Finding.of(code, world.path, _where(own), own.height, reason=reason, types=_types(own))
    early = rows.filter(pl.col("moved_ns") > _LEAST_MOVED_NS)
    if early.height:
        longest = duration(int(early.get_column("moved_ns").to_numpy().max()))
        code = FindingCode.CHAKRA_ISSUED_EARLY
        yield Finding.of(code, world.path, _where(early), early.height, longest=longest)
    unknown = _size_unknown(rows)
    if unknown.height:
        yield Finding.of(FindingCode.CHAKRA_SIZE_UNKNOWN, world.path, _where(unknown), unknown.height)
    differ = rows.filter("sizes_differ")
    if differ.height:
        count = differ.get_column("item").n_unique()
        yield Finding.of(FindingCode.CHAKRA_SIZES_DIFFER, world.path, _where(differ), count)


def mostly_alone(plan: JobPlan, rows: pl.DataFrame) -> str | None:
    """Describe the communication simulated alone if it is most, by count or bytes; else None.

    Left out are groups of a single rank, and what `shrink` takes away.
    """
    wanted = [AloneReason.SINGLE_RANK.value]
    if plan.options.missing is MissingRanks.SHRINK and plan.missing:
        wanted.append(AloneReason.PEER_MISSING.value)
    own = rows.filter(~pl.col("reason").is_in(wanted).fill_null(value=False))
    alone = own.filter(pl.col("reason").is_not_null())
    if len(plan.ranks) < 2 or alone.is_empty():
        return None
    count = alone.height / own.height
    bytes_alone, all_bytes = (int(rows.get_column("size").sum()) for rows in (alone, own))
    size = bytes_alone / all_bytes if all_bytes else 0.0
    if max(count, size) <= _MOST:
        return None
    whys = alone.group_by("reason", maintain_order=True).agg(
        pl.len(), pl.coalesce("type", "name").unique().sort()
    )
    parts = [
        f"{number} ({', '.join(map(str, types))}) as {ALONE_REASONS[AloneReason(reason)]}"
        for reason, number, types in whys.iter_rows()
    ]
    return (
        f"{alone.height:,} of {own.height:,} collectives, sends and receives ({size:.0%} of the bytes) would be "
        f"simulated alone: {'; '.join(parts)}"
    )


def _types(rows: pl.DataFrame) -> str:
    return ", ".join(
        rows.select(pl.coalesce("type", "name").unique().sort().fill_null("unknown")).to_series()
    )


def _size_unknown(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("reason").is_null() & pl.col("size").is_null() & (pl.col("type") != "barrier"))


def _where(rows: pl.DataFrame) -> str:
    """The first event of them."""
    source, event = rows.select("source", "event_id").row(0)
    return f"rank {source}, event {event}"


def _counted(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by("what").len().sort("what").iter_rows())


ASTRA_SIM_LEAST_BYTES = 64
"""Minimum size of a message, to which smaller ones are raised. ASTRA-sim cuts a collective into as many chunks as
its system file
says (`preferred-dataset-splits`, 4 in its examples), and never ends an all-gather of fewer bytes than chunks."""


class ByteRule(Enum):
    """Rules of `comm_size`, from the maximum that any member sends or receives."""

    MESSAGE = "the message: the full input of one rank"
    SHARD = "the shard that one rank gives"
    WHOLE_INPUT = "the full input of one rank, of which each gets a part"
    BUSIEST = "what the busiest rank gives or gets, its own part included"
    LEAST = "the least that a message may have"


class TypeMapping(Struct, frozen=True):
    """A row of the table.

    Args:
        type: the type of communication.
        comm_type: what it is in Chakra's own schema; None: a send or a receive, which are nodes of their own.
        astra_sim: what ASTRA-sim is given instead.
        rule: how bytes are counted; the same for both.
        why: why ASTRA-sim gets another type; "" if it is the same.
    """

    type: CollectiveType
    comm_type: CollectiveCommType | None
    astra_sim: CollectiveCommType | None
    rule: ByteRule
    why: str = ""


_T = CollectiveType
_C = CollectiveCommType
_R = ByteRule

MAPPINGS: tuple[TypeMapping, ...] = (
    TypeMapping(_T.ALL_REDUCE, _C.ALL_REDUCE, _C.ALL_REDUCE, _R.MESSAGE),
    TypeMapping(_T.ALL_GATHER, _C.ALL_GATHER, _C.ALL_GATHER, _R.SHARD),
    TypeMapping(_T.REDUCE_SCATTER, _C.REDUCE_SCATTER, _C.REDUCE_SCATTER, _R.WHOLE_INPUT),
    TypeMapping(_T.ALL_TO_ALL, _C.ALL_TO_ALL, _C.ALL_TO_ALL, _R.BUSIEST),
    TypeMapping(_T.BROADCAST, _C.BROADCAST, _C.BROADCAST, _R.MESSAGE),
    TypeMapping(
        _T.REDUCE,
        _C.REDUCE,
        _C.REDUCE_SCATTER,
        _R.MESSAGE,
        "each rank gives what the root lacks: (n - 1) / n of the message pass each link, as in a reduce",
    ),
    TypeMapping(
        _T.GATHER,
        _C.GATHER,
        _C.ALL_GATHER,
        _R.SHARD,
        "the root gets the same bytes in the same time; the others get them, too",
    ),
    TypeMapping(
        _T.SCATTER,
        _C.SCATTER,
        _C.REDUCE_SCATTER,
        _R.WHOLE_INPUT,
        "(n - 1) / n of what is scattered leave a rank: of all instead of the root alone",
    ),
    TypeMapping(_T.BARRIER, _C.BARRIER, _C.ALL_REDUCE, _R.LEAST, "the smallest collective that all wait for"),
    TypeMapping(_T.SEND, None, None, _R.BUSIEST),
    TypeMapping(_T.RECEIVE, None, None, _R.BUSIEST),
    TypeMapping(_T.SEND_RECEIVE, _C.ALL_TO_ALL, _C.ALL_TO_ALL, _R.BUSIEST),
)
"""One row for each `CollectiveType`."""


def comm_type_of(dialect: Dialect) -> dict[str, str]:
    """Chakra's type of each `CollectiveType` that is a collective."""
    found = ((row, row.astra_sim if dialect is Dialect.ASTRA_SIM else row.comm_type) for row in MAPPINGS)
    return {row.type.value: comm_type.name for row, comm_type in found if comm_type is not None}


def least_bytes(dialect: Dialect) -> int:
    """The least that a message may have."""
    return ASTRA_SIM_LEAST_BYTES if dialect is Dialect.ASTRA_SIM else 1


def size_of_rule() -> pl.Expr:
    """Bytes by the rule of `type`; null: unknown, and where there are none to count.

    Columns:
        type: `CollectiveType`.
        in_bytes, out_bytes: sent and received bytes of a rank: the maximum of all members.
        group_size: ranks of the group, as the traces have it.
    """
    given, got, size = pl.col("in_bytes"), pl.col("out_bytes"), pl.col("group_size")
    by_rule = {
        ByteRule.MESSAGE: pl.max_horizontal(given, got),
        ByteRule.SHARD: pl.coalesce(given, pl.when(size > 0).then(got // size)),
        ByteRule.WHOLE_INPUT: pl.coalesce(pl.when(given > 0).then(given), got * size),
        ByteRule.BUSIEST: pl.max_horizontal(given, got),
    }
    found = pl.lit(None, dtype=pl.Int64)
    for rule, expression in by_rule.items():
        types = [row.type.value for row in MAPPINGS if row.rule is rule]
        found = pl.when(pl.col("type").is_in(types)).then(expression).otherwise(found)
    return found


_ALONE_TYPE = CollectiveCommType.BROADCAST.name
"""Communication of a rank alone is a broadcast in its own group, which simulators run for the measured time."""


def plan_job(path: str, ranks: LinkedRanks, options: PlanOptions) -> JobPlan:
    """Plan of a job: ranks, groups, and the communication of each rank in an acyclic order."""
    members, world = _world(path, ranks, members_with_waits(ranks))
    simulated = simulated_ranks(world, options)
    groups = groups_of_ranks(world, simulated, options)
    traced = traced_communication(members, ranks.collectives, world.groups, options.steps, LEAST_CONFIDENCE)
    rows = planned_communication(traced, simulated, groups)
    every = RankGroups(simulated, groups, rows)
    for division in options.divisions:
        every = divided(every, world.groups, division)
    simulated, groups = every.ranks, every.groups
    rows = _ordered(every.communication, options.single_lane)
    rows = _mapped(rows, options.dialect)
    rows = _meeting(rows, ranks, options.single_lane)
    is_group = pl.col("reason").is_null() & ~is_between_two()
    used = rows.filter(is_group).get_column("entry").unique().sort().to_list()
    alone = rows.filter(pl.col("reason").is_not_null()).get_column("rank").unique().to_list()
    numbered = numbered_groups(groups, used, alone, world, simulated)
    numbers = _numbers(numbered.of_entry, numbered.alone)
    rows = rows.with_columns(
        pg_name=pl.when(~is_between_two() | pl.col("reason").is_not_null()).then(numbers)
    )
    plan = JobPlan(options, world.size, simulated, numbered.groups, _communication(rows), plan_counts(rows))
    return replace(plan, findings=plan_findings(plan, world, rows), mostly_alone=mostly_alone(plan, rows))


def _world(path: str, ranks: LinkedRanks, waits: pl.DataFrame) -> tuple[pl.DataFrame, TracedWorld]:
    present = tuple(ranks.ranks.get_column("rank").sort())
    members = with_known_groups(waits, ranks.collectives, present)
    size = traced_world(ranks.ranks, ranks.members)
    groups = traced_groups(members, present, size)
    origins = {group.text: origin for origin, group in enumerate(groups)}
    of_peers = (
        members.filter(is_between_two() | pl.col("is_exchange_of_some")).select("rank", "group").unique()
    )
    paired: dict[int, set[int]] = {}
    for rank, group in of_peers.iter_rows():
        paired.setdefault(rank, set()).add(origins[group])
    frozen = {rank: frozenset(own) for rank, own in paired.items()}
    return members, TracedWorld(path, size, present, tuple(groups), frozen)


def _ordered(rows: pl.DataFrame, by_end: bool) -> pl.DataFrame:
    """Sort rows by rank and order, and add `order`; rows without a consistent order are simulated alone."""
    pairs = rows.filter(is_between_two() & pl.col("reason").is_null())
    # A send and its receive are two items, of which the second waits for the first.
    is_receive = (pl.col("type") == CollectiveType.RECEIVE.value) & pl.col("reason").is_null()
    behind = pl.col("item").max() + 1 + pl.col("item")
    items = rows.select(pl.when(is_receive).then(behind).otherwise("item").fill_null(-1).alias("item"))
    dense = items.get_column("item").rank("dense").cast(pl.Int64) - 1
    rows = rows.with_columns(dense.alias("own_item"))
    halves = (
        rows.join(pairs.select("item").unique(), on="item", how="semi", maintain_order="left")
        .group_by("item", maintain_order=True)
        .agg(
            pl.col("own_item").filter(pl.col("type") == CollectiveType.SEND.value).first().alias("first"),
            pl.col("own_item").filter(pl.col("type") == CollectiveType.RECEIVE.value).first().alias("second"),
        )
    )
    # What the host does at once may overlap on one thread; a stream does one thing after the other.
    is_host = pl.col("device") == HOST
    stream = pl.struct("device", "stream", pl.when(is_host).then("row").alias("row"))
    columns = rows.select(
        "rank", "own_item", stream.rank("dense").cast(pl.Int64).alias("device"), "start_ns", "end_ns"
    )
    found = consistent_order(
        Rows(
            *(
                columns.get_column(name).to_numpy()
                for name in ("rank", "own_item", "device", "start_ns", "end_ns")
            ),
            *(halves.get_column(name).to_numpy() for name in ("first", "second")),
        ),
        by_end,
    )
    reason = pl.when(pl.Series(found.broken)).then(pl.lit(AloneReason.ORDER.value)).otherwise("reason")
    return rows.with_columns(pl.Series("order", found.order), reason.alias("reason")).sort(
        "rank", "order", "row"
    )


def _meeting(rows: pl.DataFrame, ranks: LinkedRanks, single_lane: bool) -> pl.DataFrame:
    """The rows with `MEETING_COLUMNS`."""
    begins = ranks.aligned(ranks.ranks.select("rank", "start_ns"), "start_ns")
    drift = ranks.clocks.select("rank", "drift_ppm")
    clocks = begins.join(drift, on="rank", how="left").select(
        pl.col("rank").alias("source"), pl.col("start_ns").alias("_begins"), "drift_ppm"
    )
    together = pl.col("reason").is_null()
    is_receive = (pl.col("type") == CollectiveType.RECEIVE.value).fill_null(value=False)
    # A simulated rank's clock starts with the others and runs as its own did.
    drifted = [
        (
            pl.col(name)
            - ((pl.col(name) - pl.col("_begins")) * pl.col("drift_ppm") / 1e6)
            .round()
            .cast(pl.Int64)
            .fill_null(0)
        ).alias(name)
        for name in ("start_ns", "end_ns")
    ]
    given = rows.join(clocks, on="source", how="left", maintain_order="left").select(
        "rank",
        "order",
        "event_id",
        *drifted,
        pl.when(pl.col("device") != HOST).then(_number_of("device", "stream")).alias("stream_key"),
        pl.when(together & is_between_two()).then(_number_of("from_rank", "to_rank", "number")).alias("pair"),
        (together & is_receive).alias("receives"),
    )
    return rows.hstack(with_meeting_times(given, single_lane).select(MEETING_COLUMNS))


def _number_of(*columns: str) -> pl.Expr:
    """Equal for rows that are equal in these columns."""
    return pl.struct(columns).rank("dense").cast(pl.Int64)


def _mapped(rows: pl.DataFrame, dialect: Dialect) -> pl.DataFrame:
    """Add `node_type`, `comm_type`, `size` (null: unknown), `comm_size`, `comm_tag` and `sizes_differ`."""
    together = pl.col("reason").is_null()
    most = [
        pl.when(together).then(pl.col(name).max().over("item")).otherwise(name).alias(name)
        for name in ("in_bytes", "out_bytes")
    ]
    own = size_of_rule()
    rows = rows.with_columns(own.alias("own_size")).with_columns(
        (pl.col("own_size").drop_nulls().n_unique().over("item") > 1).alias("sizes_differ") & together, *most
    )
    is_send = pl.col("type") == CollectiveType.SEND.value
    pair = (
        pl.when(is_send)
        .then(pl.lit(NodeType.COMM_SEND_NODE.name))
        .otherwise(pl.lit(NodeType.COMM_RECV_NODE.name))
    )
    of_type = pl.col("type").replace_strict(comm_type_of(dialect), default=None, return_dtype=pl.String)
    least = pl.lit(least_bytes(dialect), dtype=pl.Int64)
    return rows.with_columns(
        pl.when(together & is_between_two())
        .then(pair)
        .otherwise(pl.lit(NodeType.COMM_COLL_NODE.name))
        .alias("node_type"),
        pl.when(~together).then(pl.lit(_ALONE_TYPE)).when(~is_between_two()).then(of_type).alias("comm_type"),
        size_of_rule().alias("size"),
        pl.when(together & is_between_two()).then("number").alias("comm_tag"),
    ).with_columns(pl.max_horizontal(pl.col("size").fill_null(0), least).alias("comm_size"))


def _numbers(of_entry: Mapping[int, int], alone: Mapping[int, int]) -> pl.Expr:
    """The number of the group of each row as text; null: all ranks."""
    together = pl.col("entry").replace_strict(of_entry, default=None, return_dtype=pl.Int64)
    own = pl.col("rank").replace_strict(alone, default=None, return_dtype=pl.Int64)
    number = pl.when(pl.col("reason").is_null()).then(together).otherwise(own)
    return pl.when(number > 0).then(number.cast(pl.String))


def _communication(rows: pl.DataFrame) -> pl.DataFrame:
    is_send = pl.col("node_type") == NodeType.COMM_SEND_NODE.name
    is_receive = pl.col("node_type") == NodeType.COMM_RECV_NODE.name
    duration = pl.col("end_ns") - pl.col("start_ns")
    found = rows.select(
        "rank",
        "event_id",
        pl.col("node_type").alias("type"),
        "comm_type",
        "comm_size",
        pl.when(is_receive).then("from_rank").alias("comm_src"),
        pl.when(is_send).then("to_rank").alias("comm_dst"),
        "comm_tag",
        "pg_name",
        pl.coalesce("type", "name").alias("collective"),
        pl.when(pl.col("reason").is_null()).then("transfer_ns").otherwise(duration).alias("transfer_ns"),
        "order",
        *MEETING_COLUMNS,
    )
    return found.select("rank").hstack(CHAKRA_COMMUNICATION.conform(found))
