"""Communication of the traces' ranks: what ranks do together has one number."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.chakra.plan.world import TracedGroup
from tracebraid.model.collectives import PAIRED, UNKNOWN_GROUP, CollectiveType, is_pair_on_host
from tracebraid.model.finding import AloneReason

_T = CollectiveType
_EXCHANGE = _T.SEND_RECEIVE.value
_EVEN = [kind.value for kind in (_T.ALL_REDUCE, _T.ALL_GATHER, _T.BROADCAST, _T.REDUCE)]
"""All ranks give the same size."""
_BEHIND = 1 << 40
"""Numbers of communication matched by order, after those from matching."""
_SCHEMA = {"row": pl.Int64, "number": pl.Int64}


def met_by_order(rows: pl.DataFrame, listed: Sequence[int]) -> pl.DataFrame:
    """Collectives of one group, step, type and size, by their order on each rank: `row`, `number` within the group.

    A simulator needs a partner for each, and the right one is likely: all ranks of the group that have a trace did the
    same as often in the step. What contradicts the order of other communication is found later.
    """
    is_exchange = pl.col("type") == _EXCHANGE
    usable = pl.col("type").is_not_null() & ~pl.col("type").is_in(PAIRED) & ~pl.col("is_doubtful")
    open_ = rows.filter(
        usable & (pl.col("participants") > 1) & (is_exchange | pl.col("origin").is_in(list(listed)))
    ).with_columns(
        pl.col("step").cast(pl.String).fill_null("").alias("_step"),
        pl.when(pl.col("type").is_in(_EVEN)).then("in_bytes").fill_null(-1).alias("_size"),
    )
    if open_.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    alike = ["origin", "_step", "type", "_size"]
    counts = open_.group_by(*alike, "source").agg(
        pl.len().alias("count"), pl.col("participants").first(), pl.col("start_ns").min().alias("_begun")
    )
    equal = (
        counts.group_by(alike)
        .agg(
            pl.col("count").n_unique().alias("counts"),
            pl.len().alias("ranks"),
            pl.col("participants").first(),
            pl.col("_begun").min(),
        )
        .filter((pl.col("counts") == 1) & (pl.col("ranks") == pl.col("participants")))
        .select(*alike, "_begun")
    )
    found = open_.join(equal, on=alike, how="inner", nulls_equal=True).sort("source", "start_ns", "event_id")
    nth = pl.int_range(pl.len()).over(*alike, "source").alias("_nth")
    number = pl.struct("_begun", "_step", "type", "_size", "_nth").rank("dense").over("origin")
    return found.with_columns(nth).select("row", (number.cast(pl.Int64) + _BEHIND).alias("number"))


def with_known_groups(
    members: pl.DataFrame, collectives: pl.DataFrame, present: Sequence[int]
) -> pl.DataFrame:
    """The members with `group` never null; an exchange of some ranks of a group has a group of its own.

    A single send or receive that meets a kernel of several is part of its exchange.
    """
    meets_several = (
        pl.col("peers").is_not_null().any().over("collective") & pl.col("collective").is_not_null()
    )
    found = members.with_columns(
        pl.col("group").fill_null(UNKNOWN_GROUP),
        pl.when(meets_several).then(pl.lit(_EXCHANGE)).otherwise("type").alias("type"),
    )
    of_several = collectives.filter(pl.col("type") == _EXCHANGE).select(
        "collective", pl.col("ranks").alias("_ranks")
    )
    taking = (
        found.filter(pl.col("type") == _EXCHANGE)
        .group_by("group")
        .agg(pl.col("rank").unique().sort().alias("_taking"))
    )
    listed = pl.concat_str(pl.lit("["), pl.col("_ranks").cast(pl.List(pl.String)).list.join(","), pl.lit("]"))
    is_part = (pl.col("type") == _EXCHANGE) & (pl.col("_ranks") != pl.col("_taking")).fill_null(value=False)
    return (
        found.join(of_several, on="collective", how="left", maintain_order="left")
        .join(taking, on="group", how="left", maintain_order="left")
        .with_columns(
            pl.when(is_part)
            .then(pl.concat_str("group", pl.lit(" exchange "), listed))
            .otherwise("group")
            .alias("group"),
            pl.when(is_part)
            .then(listed)
            .otherwise(pl.col("group_ranks").cast(pl.String))
            .alias("group_ranks"),
            is_part.alias("is_exchange_of_some"),
        )
        .drop("_ranks", "_taking")
    )


def traced_communication(
    members: pl.DataFrame,
    collectives: pl.DataFrame,
    groups: Sequence[TracedGroup],
    steps: Sequence[str] | None,
    least_confidence: float,
) -> pl.DataFrame:
    """A row for each member, by rank and start.

    Columns:
        row: its number.
        source, event_id, stream: its rank, event and stream.
        origin: the place of its group in `groups`.
        type, name: as in `MEMBERS`.
        number: the same for the members of the ranks that do it together, by group, or by sender and receiver; null:
            it is done alone.
        reason: why it is simulated alone (`AloneReason`); null: it is not, by the traces.
        from_rank, to_rank: of a send or a receive, by their numbers in the job.
        in_bytes, out_bytes, group_size: as in `MEMBERS`.
        start_ns, end_ns: on aligned clocks; the end is not before the start.
        transfer_ns: from the last arrival to its end; all of its duration where arrivals are unknown.
        is_measured: whether arrivals are known.
    """
    rows = _with_transfers(_rows(members, collectives, groups, least_confidence))
    if steps is not None:
        rows = rows.filter(pl.col("step").is_in(list(steps)).fill_null(value=False))
    numbers = pl.concat([_of_pairs(rows), _of_groups(rows, groups)])
    open_ = rows.join(numbers, on="row", how="anti").with_columns(_participants(groups))
    listed = [origin for origin, group in enumerate(groups) if group.is_listed]
    numbers = pl.concat([numbers, met_by_order(open_, listed)])
    found = rows.join(numbers, on="row", how="left", maintain_order="left")
    return found.with_columns(_reason().alias("reason"))


def _rows(
    members: pl.DataFrame, collectives: pl.DataFrame, groups: Sequence[TracedGroup], least_confidence: float
) -> pl.DataFrame:
    """The members with `origin`, and whether their match `is_doubtful`, which then counts as none."""
    origins = pl.DataFrame(
        {"group": [group.text for group in groups], "origin": range(len(groups))},
        schema={"group": pl.String, "origin": pl.Int64},
    )
    confidence = collectives.select("collective", "confidence")
    return (
        members.join(origins, on="group", how="left", maintain_order="left")
        .join(confidence, on="collective", how="left", maintain_order="left")
        .rename({"rank": "source", "source": "from_rank", "destination": "to_rank"})
        .sort("source", "start_ns", "event_id")
        .with_row_index("row")
        .with_columns(
            pl.col("row").cast(pl.Int64),
            pl.max_horizontal("start_ns", "end_ns").alias("end_ns"),
            (pl.col("confidence") < least_confidence).fill_null(value=False).alias("is_doubtful"),
        )
        .with_columns(pl.when(~pl.col("is_doubtful")).then("collective").alias("collective"))
    )


def _with_transfers(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `transfer_ns` and `is_measured`.

    Where no member ended before all had started, all waited for the last. Else it is what waits say: those that only
    receive waited for those that send. On the host, which buffers, a send transfers all along, and a receive from when
    it was sent.
    """
    last, first_end = pl.col("start_ns").max().over("collective"), pl.col("end_ns").min().over("collective")
    is_matched = pl.col("collective").is_not_null()
    duration = pl.col("end_ns") - pl.col("start_ns")
    return rows.with_columns(
        pl.when(~is_matched | (is_pair_on_host() & (pl.col("type") == CollectiveType.SEND.value)))
        .then(duration)
        .when(is_pair_on_host())
        .then((pl.col("end_ns") - last).clip(0))
        .when(first_end >= last)
        .then(pl.col("end_ns") - last)
        .otherwise(pl.col("transfer_ns").fill_null(duration))
        .alias("transfer_ns"),
        is_matched.alias("is_measured"),
    )


def _of_pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives that were matched: `row`, `number` within those of one sender and receiver."""
    matched = rows.filter(pl.col("type").is_in(PAIRED) & pl.col("collective").is_not_null())
    sender = pl.col("source").filter(pl.col("type") == CollectiveType.SEND.value)
    receiver = pl.col("source").filter(pl.col("type") == CollectiveType.RECEIVE.value)
    pairs = (
        matched.group_by("collective")
        .agg(
            sender.first().alias("s"),
            receiver.first().alias("r"),
            sender.len().alias("sends"),
            pl.len().alias("all"),
            pl.col("row").filter(pl.col("type") == CollectiveType.SEND.value).first().alias("first_row"),
        )
        .filter((pl.col("sends") == 1) & (pl.col("all") == 2) & (pl.col("s") != pl.col("r")))
        .sort("first_row")
        .with_columns(pl.int_range(pl.len()).over("s", "r").alias("number"))
    )
    return _numbers(matched.join(pairs, on="collective", how="inner"))


def _of_groups(rows: pl.DataFrame, groups: Sequence[TracedGroup]) -> pl.DataFrame:
    """Collectives that all ranks of the group recorded that have a trace: `row`, `number` within the group."""
    own = rows.filter(~pl.col("type").is_in(PAIRED).fill_null(value=False)).with_columns(
        _participants(groups)
    )
    matched = own.filter((pl.col("participants") > 1) & pl.col("collective").is_not_null())
    complete = (
        matched.group_by("origin", "collective")
        .agg(
            pl.col("source").n_unique().alias("ranks"), pl.len().alias("all"), pl.col("participants").first()
        )
        .filter((pl.col("ranks") == pl.col("participants")) & (pl.col("all") == pl.col("ranks")))
        .sort("collective")
        .with_columns(pl.int_range(pl.len()).over("origin").alias("number"))
    )
    single = own.filter(pl.col("participants") == 1).sort("source", "start_ns", "event_id")
    single = single.with_columns(pl.int_range(pl.len()).over("origin").alias("number"))
    joined = matched.join(
        complete.select("origin", "collective", "number"), on=["origin", "collective"], how="inner"
    )
    return pl.concat([_numbers(joined), _numbers(single)])


def _participants(groups: Sequence[TracedGroup]) -> pl.Expr:
    counts = {origin: len(group.participants) for origin, group in enumerate(groups)}
    return pl.col("origin").replace_strict(counts, default=1, return_dtype=pl.Int64).alias("participants")


def _numbers(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("row", pl.col("number").cast(pl.Int64))


def _reason() -> pl.Expr:
    is_open = pl.col("number").is_null()
    return (
        pl.when(pl.col("is_doubtful") & is_open)
        .then(pl.lit(AloneReason.DOUBTFUL.value))
        .when(pl.col("type").is_in(PAIRED) & is_open)
        .then(pl.lit(AloneReason.PEER_MISSING.value))
        .when(is_open & pl.col("process_group").is_null() & pl.col("group_ranks").is_null())
        .then(pl.lit(AloneReason.GROUP_UNKNOWN.value))
        .when(is_open)
        .then(pl.lit(AloneReason.MEMBERS_MISSING.value))
        .when(pl.col("type").is_null())
        .then(pl.lit(AloneReason.UNKNOWN_TYPE.value))
    )
