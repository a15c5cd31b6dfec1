"""The members of all ranks, each with the collective that it is of."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from tracebraid.linking.ranks.matching.by_order import match_by_order
from tracebraid.linking.ranks.matching.findings import of_another_run, order_findings, rank_findings
from tracebraid.linking.ranks.matching.groups import (
    DisjointSets,
    is_of_unnamed,
    may_be_of_several,
    with_groups,
)
from tracebraid.model.collectives import (
    BETWEEN_TWO,
    HOST,
    CollectiveType,
    MatchMethod,
    is_between_two,
    is_pair_on_host,
    peers_listed,
    ranks_listed,
)
from tracebraid.model.finding import Finding
from tracebraid.model.schema.links import MATCHED_COLLECTIVES, MEMBERS

_UNEVEN = [
    kind.value
    for kind in (
        CollectiveType.ALL_TO_ALL,
        CollectiveType.GATHER,
        CollectiveType.SCATTER,
        CollectiveType.BARRIER,
    )
]
"""Ranks may give and get different sizes."""
_UNTYPED = [kind.value for kind in (CollectiveType.GATHER, CollectiveType.SCATTER, CollectiveType.BARRIER)]
"""Ranks may have no tensor of which a trace says the element type: only the root does."""
_OF_ALL = [
    kind.value
    for kind in (
        CollectiveType.ALL_REDUCE,
        CollectiveType.ALL_GATHER,
        CollectiveType.REDUCE_SCATTER,
        CollectiveType.BARRIER,
    )
]
"""Ranks get something of all others, of which none has nothing to give."""
_BY_OUTPUT = [CollectiveType.RECEIVE.value, CollectiveType.REDUCE_SCATTER.value]
"""Uneven inputs of a reduce-scatter's ranks are equal in sum; a receive has an output alone."""


def with_signatures(members: pl.DataFrame) -> pl.DataFrame:
    """Add `token`, a number for type, dtype and size of a member, equal within a collective.

    An unknown size is a size of its own: it says the same on all ranks.
    """
    kind = pl.col("type")
    size = (
        pl.when(kind.is_in(_UNEVEN))
        .then(None)
        .when(kind.is_in(_BY_OUTPUT))
        .then(pl.coalesce("out_bytes", "in_bytes"))
        .otherwise(pl.coalesce("in_bytes", "out_bytes"))
    )
    alike = pl.when(is_between_two()).then(pl.lit("send and receive")).otherwise(pl.coalesce("type", "name"))
    dtype = pl.when(kind.is_in(_UNTYPED)).then(None).otherwise(pl.col("dtype").str.to_lowercase())
    signature = pl.struct(alike.alias("what"), size.alias("size"), dtype.alias("of"))
    return members.with_columns(signature.rank("dense").cast(pl.Int64).alias("token"))


def is_of_all() -> pl.Expr:
    """Return whether a member ends on no rank before all ranks have started theirs."""
    return pl.col("type").is_in(_OF_ALL).fill_null(value=False)


_PAIR = ["_group", "source", "destination"]
"""Match sends and receives of a rank in a group by order."""
_STEP = [*_PAIR, "step_number"]
_NO_STEP = -1

_CONFIDENCE = {MatchMethod.GROUP_ORDER: 0.95, MatchMethod.ALIGNED_ORDER: 0.8}
_OF_NO_STEP = 0.7
"""Confidence without step names: windows may begin at different steps."""


def match_pairs_on_host(members: pl.DataFrame) -> pl.DataFrame:
    """The sends and receives on the host that order matches: `row`, `key`, `method`, `confidence`.

    Those of one sender and receiver meet, step by step, where both ranks have equally many of a step, of equal sizes as
    far as these are known. The method is that of equal sequences where this holds of all steps of the pair.
    """
    own = members.filter(is_pair_on_host()).drop_nulls(["source", "destination"])
    own = own.with_columns(pl.int_range(pl.len()).over(*_STEP, "type").alias("nth"))
    sends, receives = (
        own.filter(pl.col("type") == kind.value).select(*_STEP, "nth", "row", pl.coalesce(size).alias("size"))
        for kind, size in (
            (CollectiveType.SEND, ("in_bytes", "out_bytes")),
            (CollectiveType.RECEIVE, ("out_bytes", "in_bytes")),
        )
    )
    met = sends.join(receives, on=[*_STEP, "nth"], how="full", coalesce=True, suffix="_received")
    is_alike = pl.col("row", "row_received").is_not_null()
    same_size = (pl.col("size") == pl.col("size_received")).fill_null(value=True)
    met = met.with_columns(pl.all_horizontal(is_alike, same_size).alias("alike"))
    met = met.with_columns(
        pl.col("alike").all().over(_STEP).alias("of_step"), pl.col("alike").all().over(_PAIR).alias("of_pair")
    )
    met = met.filter("of_step").with_columns(
        pl.concat_str(pl.lit("h"), "row", separator="|").alias("key"), *_certainty()
    )
    both = (
        met.select(pl.col(row).alias("row"), "key", "method", "confidence") for row in ("row", "row_received")
    )
    return pl.concat(both)


def _certainty() -> tuple[pl.Expr, pl.Expr]:
    whole, some = MatchMethod.GROUP_ORDER, MatchMethod.ALIGNED_ORDER
    known = pl.when("of_pair").then(pl.lit(_CONFIDENCE[whole])).otherwise(pl.lit(_CONFIDENCE[some]))
    return (
        pl.when("of_pair").then(pl.lit(whole.value)).otherwise(pl.lit(some.value)).alias("method"),
        pl.when(pl.col("step_number") == _NO_STEP)
        .then(pl.lit(_OF_NO_STEP))
        .otherwise(known)
        .alias("confidence"),
    )


_METHODS = [method.value for method in MatchMethod]
"""Methods by descending certainty; a collective has the least certain one of its members."""


def collectives_of(members: pl.DataFrame, matches: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`MEMBERS` with `collective`, and `MATCHED_COLLECTIVES`."""
    # A window over as many keys takes far longer than to group and join.
    of_keys = matches.join(members.select("row", "rank"), on="row", how="inner")
    of_keys = of_keys.group_by("key").agg(pl.len().alias("members"), pl.col("rank").n_unique().alias("ranks"))
    usable = of_keys.filter((pl.col("ranks") > 1) & (pl.col("members") == pl.col("ranks"))).select("key")
    keyed = members.join(
        matches.join(usable, on="key", how="semi"), on="row", how="left", maintain_order="left"
    ).with_columns(
        pl.col("method").replace_strict(_METHODS, range(len(_METHODS)), default=None).alias("_method"),
    )
    matched = keyed.filter(pl.col("key").is_not_null()).sort("start_ns", "rank", "event_id")
    frame = _frame(matched)
    found = keyed.drop("collective").join(
        frame.select("collective", "key"), on="key", how="left", maintain_order="left"
    )
    return MEMBERS.conform(found), MATCHED_COLLECTIVES.conform(frame)


def _frame(matched: pl.DataFrame) -> pl.DataFrame:
    """`MATCHED_COLLECTIVES` with `key`."""
    dtype = pl.col("dtype")
    same_dtype = dtype.str.to_lowercase().n_unique() == 1
    of_peers = pl.col("peers").is_not_null().any()
    peer_ranks = peers_listed().list.eval(pl.element().struct.field("peer")).alias("_peer_ranks")
    frame = (
        matched.with_columns(peer_ranks)
        .group_by("key", maintain_order=True)
        .agg(
            pl.col("group").first(),
            pl.col("type").sort().first(),
            pl.col("type").n_unique().alias("types"),
            pl.col("sequence").drop_nulls().min(),
            pl.col("sequence").drop_nulls().n_unique().alias("sequences"),
            pl.when(same_dtype).then(dtype.sort().first()).alias("dtype"),
            pl.col("group_size").drop_nulls().max(),
            pl.col("group_ranks").drop_nulls().first(),
            pl.col("rank").sort().alias("ranks"),
            pl.col("_method").max(),
            pl.col("confidence").min(),
            # Each send of a kernel of several is compared with its receive.
            (of_peers | (pl.col("token").n_unique() == 1)).alias("agrees"),
            of_peers.alias("_of_peers"),
            pl.col("_peer_ranks").explode().drop_nulls().unique().alias("_peer_ranks"),
            pl.col("_peer_ranks").list.eval(pl.element().is_null()).list.any().any().alias("_has_unknown"),
            pl.col("type").is_in([kind.value for kind in BETWEEN_TWO]).all().alias("_paired"),
        )
    )
    frame = ranks_listed(frame)
    between_two = pl.col("_paired") & (pl.col("types") > 1)
    together, nobody = pl.lit(CollectiveType.SEND_RECEIVE.value), pl.lit([], dtype=pl.List(pl.Int64))
    expected = (
        pl.when(~pl.col("_of_peers")).then("group_ranks").when(~pl.col("_has_unknown")).then("_peer_ranks")
    )
    missing = expected.list.set_difference("ranks").list.sort()
    method = pl.col("_method").replace_strict(range(len(_METHODS)), _METHODS, return_dtype=pl.String)
    return frame.with_row_index("collective").with_columns(
        pl.col("collective").cast(pl.Int64),
        pl.when(between_two).then(together).otherwise("type").alias("type"),
        pl.when(pl.col("sequences") == 1).then("sequence").alias("sequence"),
        pl.when(between_two & ~pl.col("_of_peers")).then(nobody).otherwise(missing).alias("missing"),
        pl.int_range(pl.len()).over("group").cast(pl.Int64).alias("number"),
        method.alias("method"),
    )


_LEAST_AGREEING = 0.5
"""Share of the members with a number in common that must share a type, else the numbers count something else."""

_AT = ["_group", "sequence"]
"""A number of a group."""
_BY_SEQUENCE_CONFIDENCE = {MatchMethod.COMMUNICATOR_SEQUENCE: 1.0, MatchMethod.GROUP_SEQUENCE: 0.98}


def match_by_sequence(members: pl.DataFrame) -> pl.DataFrame:
    """The members that numbers match: `row`, `key` (equal within a collective), `method`, `confidence`.

    Numbers of sends and receives count what a rank sends or receives, which is not the same on both, and are of no
    use. Where a rank's numbers restart, the order has to say which run of numbers is which. Members of one number,
    as coalesced collectives are, are told apart by type and size. Types that the most ranks of a number do not have
    stay out: their rank has other collectives in its order.
    """
    # Several sends and receives in a kernel have a number each rank's own, and unknown peers, unless there are but two.
    of_many = (pl.col("type") == CollectiveType.SEND_RECEIVE.value) & (pl.col("group_size") != 2)
    usable_type = ~is_between_two() & ~of_many.fill_null(value=False) & pl.col("peers").is_null()
    together, track = members.filter(usable_type), ["_group", "rank"]
    has_numbers = pl.col("sequence").is_not_null()
    # Where a rank has no numbers at all, the order has to match it with the others.
    on_all = (has_numbers.any().over(track)).all().over("_group")
    numbered = together.filter(on_all).filter(has_numbers)
    usable = numbered.filter(~restarts())
    keyed = _of_most(_with_parts(usable))
    ids = pl.col("communicator")
    certain = (ids.min() == ids.max()).fill_null(value=False) & (ids.null_count() == 0)
    of_numbers = keyed.group_by(_AT).agg(certain.alias("certain"))
    keyed = keyed.join(of_numbers, on=_AT, how="left", maintain_order="left")
    first, second = MatchMethod.COMMUNICATOR_SEQUENCE, MatchMethod.GROUP_SEQUENCE
    return keyed.select(
        "row",
        pl.concat_str(
            pl.lit("s"), "_group", "sequence", "kind", pl.col("part").fill_null(-1), "nth", separator="|"
        ).alias("key"),
        pl.when("certain").then(pl.lit(first.value)).otherwise(pl.lit(second.value)).alias("method"),
        pl.when("certain")
        .then(pl.lit(_BY_SEQUENCE_CONFIDENCE[first]))
        .otherwise(pl.lit(_BY_SEQUENCE_CONFIDENCE[second]))
        .alias("confidence"),
    )


def restarts() -> pl.Expr:
    """Return whether the numbers of a group restart on some rank."""
    falls = pl.col("sequence") < pl.col("sequence").shift(1).over("_group", "rank")
    return falls.fill_null(value=False).any().over("_group")


def _with_parts(usable: pl.DataFrame) -> pl.DataFrame:
    """Add `kind`, and for numbers that a rank repeats `part` (the token) and `nth` within kind and part."""
    rows = usable.with_columns(pl.col("type").fill_null("").alias("kind"))
    repeated = rows.filter(rows.select("_group", "rank", "sequence").is_duplicated()).select(_AT).unique()
    several = rows.join(repeated, on=_AT, how="semi", maintain_order="left")
    several = several.with_columns(pl.col("token").cast(pl.Int64).alias("part"))
    nth = pl.int_range(pl.len()).over("_group", "rank", "sequence", "part", "kind")
    once = rows.join(repeated, on=_AT, how="anti", maintain_order="left").with_columns(
        pl.lit(None, dtype=pl.Int64).alias("part"), pl.lit(0, dtype=pl.Int64).alias("nth")
    )
    return pl.concat([once, several.with_columns(nth.cast(pl.Int64).alias("nth"))])


def _of_most(keyed: pl.DataFrame) -> pl.DataFrame:
    """Without members of a type that fewer ranks have at that number, and without groups whose numbers mislead."""
    of_ranks = keyed.select(*_AT, "kind", "rank").unique()
    votes = of_ranks.group_by(*_AT, "kind").agg(pl.len().alias("votes"))
    # Where as many ranks have one type as another, nothing says which of them is right.
    tied = (pl.col("votes") == pl.col("votes").max()).sum() > 1
    of_numbers = votes.group_by(_AT).agg(
        pl.col("votes").max().alias("most"), pl.col("votes").sum().alias("all"), tied.alias("tied")
    )
    votes = votes.join(of_numbers, on=_AT, how="left")
    joined = keyed.join(votes, on=[*_AT, "kind"], how="left", maintain_order="left")
    is_of_most = (pl.col("votes") == pl.col("most")) & ~pl.col("tied")
    shared = pl.col("all") > 1
    agreeing = (is_of_most & shared).sum().over("_group") >= _LEAST_AGREEING * shared.sum().over("_group")
    return joined.filter((is_of_most | pl.col("part").is_not_null()) & agreeing)


_OF_SEVERAL_GROUPS = 0.5
"""Confidence factor of a match by order if no evidence names the group and there are several (heuristic)."""


class MatchedMembers(Struct, frozen=True, eq=False):
    """Result of matching.

    Args:
        members: `MEMBERS` of all ranks, with `collective`.
        collectives: `MATCHED_COLLECTIVES`.
        findings: the findings.
    """

    members: pl.DataFrame
    collectives: pl.DataFrame
    findings: tuple[Finding, ...] = ()


def match_members(members: pl.DataFrame, ranks: pl.DataFrame) -> MatchedMembers:
    """Match the members of all ranks.

    Numbers come first, then the order of what they leave. Sends meet receives by their peers, in the order of each
    pair; kernels of several are together with all that theirs meet, and stay unmatched where peers are unknown. Sends
    and receives on the
    host may end long before, or after, those that they meet: their order alone matches them.
    """
    strangers = of_another_run(ranks, members)
    if members.is_empty():
        nothing = MATCHED_COLLECTIVES.empty()
        return MatchedMembers(members, nothing, rank_findings(members, nothing, ranks, strangers))
    prepared = _prepared(members)
    usable = prepared.filter(~pl.col("rank").is_in(list(strangers)))
    by_sequence = match_by_sequence(usable)
    numbered = pl.col("row").is_in(by_sequence.get_column("row").implode())
    # Numbers have the last word in the groups that have them: what they leave is in no other's collective.
    of_numbered = usable.filter(numbered).get_column("_group").unique().implode()
    of_pairs = is_between_two() | pl.col("peers").is_not_null()
    rest = usable.filter(~numbered & (~pl.col("_group").is_in(of_numbered) | of_pairs))
    clocks = _clocks(usable.join(by_sequence, on="row", how="inner", maintain_order="left"))
    apart = _with_peers_apart(rest)
    by_order = _with_peers_together(match_by_order(_with_channels(apart), clocks), apart)
    by_order = _with_less_confidence(by_order, usable.filter(may_be_of_several(ranks)))
    matches = pl.concat([by_sequence, by_order, match_pairs_on_host(usable)])
    found, collectives = collectives_of(prepared.sort("row"), matches)
    match = found.get_column("collective").gather(prepared.get_column("row")).cast(pl.String).alias("match")
    order = order_findings(prepared.with_columns(match), ranks)
    return MatchedMembers(found, collectives, (*rank_findings(found, collectives, ranks, strangers), *order))


def _prepared(members: pl.DataFrame) -> pl.DataFrame:
    """The members in the order of issue, with `row`, `step_number`, `_group`, `group` and `token`."""
    rows = members.with_row_index("row").with_columns(
        pl.col("row").cast(pl.Int64),
        pl.col("step").rank("dense").cast(pl.Int64).fill_null(-1).alias("step_number"),
    )
    issued = rows.sort("rank", pl.coalesce("issued_ns", "start_ns"), "start_ns", "event_id")
    return with_signatures(with_groups(issued))


def _clocks(numbered: pl.DataFrame) -> dict[int, int]:
    """Clock offsets of ranks to a rank of the largest group matched by numbers."""
    if numbered.is_empty():
        return {}
    largest = (
        numbered.group_by("_group").len().sort("len", "_group", descending=[True, False]).item(0, "_group")
    )
    rows = numbered.filter(pl.col("_group") == largest)
    first = rows.get_column("rank").min()
    of_first = rows.filter(pl.col("rank") == first).select("key", pl.col("end_ns").alias("reference_ns"))
    apart = rows.join(of_first, on="key", how="inner").group_by("rank")
    medians = apart.agg((pl.col("reference_ns") - pl.col("end_ns")).sort().get(pl.len() // 2).alias("offset"))
    return dict(medians.select("rank", "offset").iter_rows())


def _with_channels(members: pl.DataFrame) -> pl.DataFrame:
    """Add `channel` and `track`: within a channel, members of ranks meet in order."""
    together = pl.col("type") == CollectiveType.SEND_RECEIVE.value
    pair = pl.concat_str("_group", "source", "destination", separator=" ")
    group = pl.concat_str(pl.col("_group").cast(pl.String), _stream_of_unnamed())
    channel = pl.when(is_between_two()).then(pair).otherwise(group)
    found = members.with_columns(
        channel.alias("channel"),
        pl.col("rank").alias("track"),
        is_of_all().alias("meets"),
        (pl.col("device") == HOST).fill_null(value=False).alias("on_host"),
    )
    # Numbers that restart tell collectives apart that types and sizes do not.
    number = pl.when(restarts() & ~is_between_two()).then("sequence")
    token = pl.struct("token", number.alias("number")).rank("dense").cast(pl.Int64).alias("token")
    meets_none = together | is_pair_on_host()
    return found.with_columns(token).filter(
        pl.col("channel").is_not_null() & meets_none.ne_missing(other=True)
    )


def _with_peers_apart(members: pl.DataFrame) -> pl.DataFrame:
    """The members with `of`, their `row`; a kernel of several sends and receives has a row for each of these."""
    members = members.with_columns(pl.col("row").alias("of"))
    if members.get_column("peers").is_null().all():
        return members
    each = members.with_columns(peers_listed()).explode("peers")
    kind, peer, size = (pl.col("peers").struct.field(name) for name in ("type", "peer", "size_bytes"))
    sends, own = kind == CollectiveType.SEND.value, pl.col("rank")
    columns = {
        "type": kind,
        "source": pl.when(sends).then(own).otherwise(peer),
        "destination": pl.when(sends).then(peer).otherwise(own),
        "in_bytes": size,
        "out_bytes": size,
    }
    is_one = pl.col("peers").is_not_null()
    found = each.with_columns(
        pl.when(is_one).then(value).otherwise(name).alias(name) for name, value in columns.items()
    )
    return with_signatures(found.with_columns(pl.int_range(pl.len()).alias("row")))


def _with_peers_together(matches: pl.DataFrame, apart: pl.DataFrame) -> pl.DataFrame:
    """Matches of members: all that the sends and receives of a kernel meet is one collective."""
    if (apart.get_column("row") == apart.get_column("of")).all():
        return matches
    joined = matches.join(apart.select("row", "of"), on="row", how="inner").sort("row")
    keys = joined.select("key").unique(maintain_order=True)
    numbers = joined.join(keys.with_row_index("number"), on="key", how="left", maintain_order="left")
    sets = DisjointSets(keys.height)
    for (own,) in numbers.group_by("of", maintain_order=True).agg("number").select("number").iter_rows():
        for number in own[1:]:
            sets.join(own[0], number)
    roots = [sets.root(number) for number in range(keys.height)]
    whole = keys.with_columns(keys.get_column("key").gather(roots).alias("whole"))
    certainty = pl.col("method").replace_strict(_METHODS, range(len(_METHODS)), return_dtype=pl.Int64)
    found = joined.join(whole, on="key", how="left", maintain_order="left").with_columns(
        certainty.alias("_method")
    )
    return (
        found.group_by("of", maintain_order=True)
        .agg(
            pl.col("whole").first().alias("key"),
            pl.col("method").sort_by("_method").last(),
            pl.col("confidence").min(),
        )
        .rename({"of": "row"})
    )


def _with_less_confidence(matches: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Matches by order, of some members with less confidence: of several groups each rank has an order of its own."""
    few = pl.col("row").is_in(members.get_column("row").implode())
    least = pl.col("confidence") * _OF_SEVERAL_GROUPS
    return matches.with_columns(pl.when(few).then(least).otherwise("confidence").alias("confidence"))


def _stream_of_unnamed() -> pl.Expr:
    """The stream where groups have no name: each communicator of NCCL has its own, on all ranks the same.

    Not where each rank has a single one, which may be another on each.
    """
    several = (pl.col("stream").n_unique().over("_group", "rank") > 1).any().over("_group")
    on_device = pl.col("device") != HOST
    stream = pl.concat_str(pl.lit(" on stream "), pl.col("stream"))
    return pl.when(is_of_unnamed() & several & on_device).then(stream).otherwise(pl.lit("")).fill_null("")
