"""Findings about the ranks of a job: other runs and windows, unmatched members, collectives in another order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import polars as pl
from msgspec import Struct

from tracebraid.linking.ranks.matching.groups import DisjointSets, is_of_unnamed, may_be_of_several
from tracebraid.model.collectives import (
    BETWEEN_TWO,
    CollectiveType,
    is_between_two,
    peers_listed,
    ranks_in_text,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode

_LONGEST = 64
"""Members behind a matched collective that are compared with those of another rank."""
_TRACK = ["_group", "rank"]
_FOUND = ["_group", "group", "rank", "event_id", "number", "here", "others", "there"]


def differences_of_order(members: pl.DataFrame) -> pl.DataFrame:
    """Members in another order than on the rank of their group of which the most members are matched.

    Either they are matched crosswise, or they lie behind the same matched collective as the same members of the other
    rank, in another order. Ranks that lost members between matched collectives are left out.
    """
    own, known = _compared(_in_order(members))
    key = [*_TRACK, "match"]
    held, has = (
        frame.select(*key, pl.col("number").alias("position"), pl.col("said").alias("other")).drop_nulls(
            "match"
        )
        for frame in (own, known)
    )
    own = own.join(has, on=key, how="left", maintain_order="left")
    known = known.join(held, on=key, how="left", maintain_order="left")
    both = _compared_stretches(own, known)
    lossy = both.filter(~pl.col("is_last") & ~pl.col("same")).select(_TRACK).unique()
    found = pl.concat([_first_differences(both), _crossed(own)]).join(lossy, on=_TRACK, how="anti")
    return found.sort("_group", "number", "rank").select(_FOUND)


def _in_order(members: pl.DataFrame) -> pl.DataFrame:
    """The members of ranks whose order of issue is known, with `number`: their place in it."""
    # It is known where the host's calls are, or on a single stream.
    has_calls = pl.col("issued_ns").is_not_null().all().over(_TRACK)
    is_single = (pl.col("stream").n_unique() == 1).over(_TRACK)
    issued = pl.when(has_calls).then("issued_ns").otherwise("start_ns").alias("_issued")
    rows = members.filter(has_calls | is_single).with_columns(issued)
    rows = rows.sort(*_TRACK, "_issued", "start_ns", "event_id")
    return rows.with_columns(pl.int_range(pl.len()).over(_TRACK).alias("number"))


def _compared(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The members of each rank, and for each rank those of the rank that it is compared with."""
    counts = rows.group_by(_TRACK).agg(pl.col("match").count().alias("matched"))
    most = counts.sort("_group", "matched", "rank", descending=[False, True, False])
    reference = most.unique("_group", keep="first", maintain_order=True).select(
        "_group", pl.col("rank").alias("usual")
    )
    rows = rows.join(reference, on="_group", how="inner", maintain_order="left")
    known = rows.filter(pl.col("rank") == pl.col("usual"))
    own = rows.filter(pl.col("rank") != pl.col("usual"))
    # The reference once for each other rank: as many rows as the ranks have members.
    others = own.select(_TRACK).unique(maintain_order=True)
    return own, others.join(known.drop("rank"), on="_group", how="inner", maintain_order="left_right")


def _crossed(own: pl.DataFrame) -> pl.DataFrame:
    """Matched members which the other rank has behind one that comes later here."""
    matched = own.drop_nulls("position")
    later = pl.col("position").cum_min(reverse=True).over(_TRACK)
    rows = matched.with_columns(later.alias("least")).filter(pl.col("position") > pl.col("least"))
    there = matched.select(*_TRACK, pl.col("position").alias("least"), pl.col("other").alias("there"))
    rows = rows.join(there, on=[*_TRACK, "least"], how="left", maintain_order="left")
    return rows.select(*_said())


def _compared_stretches(own: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Members after each common collective on both ranks; `same`: they are equal."""
    key = [*_TRACK, "after"]
    there = _stretches(known).select(
        *key,
        pl.col("token").alias("expected"),
        pl.col("said").alias("there"),
        pl.col("is_last").alias("_last"),
    )
    both = _stretches(own).join(there, on=key, how="full", coalesce=True, maintain_order="left_right")
    same = (pl.col("token").list.sort() == pl.col("expected").list.sort()).fill_null(value=False)
    return both.with_columns(same.alias("same"), pl.coalesce("is_last", "_last").alias("is_last"))


def _stretches(rows: pl.DataFrame) -> pl.DataFrame:
    """The members between collectives in common, as lists; `is_last`: behind the last of them.

    Windows begin anywhere: what lies before all that is in common says nothing.
    """
    common = pl.when(pl.col("position").is_not_null()).then("match")
    after, before = common.forward_fill().over(_TRACK), common.backward_fill().over(_TRACK)
    found = rows.with_columns(after.alias("after"), before.is_null().alias("is_last"))
    found = found.filter(pl.col("position").is_null()).drop_nulls("after")
    return found.group_by(*_TRACK, "after", maintain_order=True).agg(
        pl.col("token", "said", "event_id", "number"), pl.col("group", "usual", "is_last").first()
    )


def _first_differences(both: pl.DataFrame) -> pl.DataFrame:
    is_compared = pl.col("same") & pl.col("token").list.len().is_between(2, _LONGEST)
    rows = both.filter(is_compared & (pl.col("token") != pl.col("expected")))
    members = rows.explode("token", "said", "event_id", "number", "expected", "there")
    return members.filter(pl.col("token") != pl.col("expected")).select(*_said())


def _said() -> list[pl.Expr]:
    here, others = pl.col("said").alias("here"), pl.col("usual").cast(pl.String).alias("others")
    return [pl.col(*_TRACK, "group", "event_id", "number", "there"), here, others]


_EQUAL_SIZES = [
    kind.value for kind in (CollectiveType.ALL_REDUCE, CollectiveType.BROADCAST, CollectiveType.REDUCE)
]
"""Types in which all ranks send equally many bytes."""


def order_findings(members: pl.DataFrame, ranks: pl.DataFrame) -> tuple[Finding, ...]:
    """The first collective of each group at which some rank has another one than most.

    Where traces have numbers, it is the first number with members of several types or sizes; else the first
    collective that another rank has at another place in its order.
    """
    paths = dict(ranks.select("rank", "path").iter_rows())
    together = members.filter(~is_between_two() & pl.col("type").is_not_null())
    numbered = _first_of_groups(_by_number(together))
    groups = pl.Series([row["_group"] for row in numbered], dtype=pl.Int64).implode()
    rest = together.filter(~pl.col("_group").is_in(groups) & ~_may_be_several(ranks))
    unnumbered = _first_of_groups(differences_of_order(rest.with_columns(_described().alias("said"))))
    return tuple(_findings([*numbered, *unnumbered], paths))


def _first_of_groups(frame: pl.DataFrame) -> list[dict[str, object]]:
    return list(frame.unique("_group", keep="first", maintain_order=True).iter_rows(named=True))


def _findings(rows: list[dict[str, object]], paths: dict[int, str | None]) -> Iterator[Finding]:
    for row in rows:
        rank = row["rank"]
        path = paths.get(rank) if isinstance(rank, int) else None
        yield Finding.of(
            FindingCode.COLLECTIVES_DISORDERED,
            path or "",
            f"event {row['event_id']}",
            rank=rank,
            group=row["group"],
            number=row["number"],
            here=row["here"],
            others=row["others"],
            there=row["there"],
        )


def _may_be_several(ranks: pl.DataFrame) -> pl.Expr:
    """Return whether members without a name of their group may be of several groups, whose order is each rank's own."""
    streams = pl.col("stream").n_unique().over("_group", "rank") > 1
    return (may_be_of_several(ranks) | (is_of_unnamed() & streams)).any().over("_group")


def _described() -> pl.Expr:
    """Describe a collective: type and sent data."""
    size = pl.when(pl.col("in_bytes").is_not_null()).then(
        pl.concat_str(pl.lit(" of "), pl.col("in_bytes"), pl.lit(" bytes"))
    )
    return pl.concat_str("type", size.fill_null(""))


def _by_number(members: pl.DataFrame) -> pl.DataFrame:
    """Members that differ in type or size from those of most ranks at a number, in the order of numbers."""
    at = ["_group", "sequence"]
    falls = (pl.col("sequence") < pl.col("sequence").shift(1).over("_group", "rank")).fill_null(value=False)
    size = pl.when(pl.col("type").is_in(_EQUAL_SIZES)).then("in_bytes")
    rows = members.filter(pl.col("sequence").is_not_null()).filter(~falls.any().over("_group"))
    rows = rows.with_columns(size.alias("size"))
    # An unknown size differs from none. Of numbers whose members differ there are few: what follows may cost more.
    differ = (pl.col("type").min() != pl.col("type").max()) | (pl.col("size").min() != pl.col("size").max())
    numbers = rows.group_by(at).agg(differ.fill_null(value=False).alias("differ")).filter("differ")
    rows = rows.join(numbers, on=at, how="semi", maintain_order="left")
    single = pl.len().over("_group", "rank", "sequence") == 1
    rows = rows.filter(single.all().over(at)).with_columns(_described().alias("said"))
    if rows.is_empty():
        return _none()
    votes = rows.group_by(*at, "said").agg(pl.col("rank").sort())
    votes = votes.with_columns(pl.col("rank").list.len().alias("votes")).sort(
        *at, "votes", pl.col("rank").list.first(), descending=[False, False, True, False]
    )
    most = votes.group_by(at, maintain_order=True).agg(
        pl.col("said").first().alias("there"), pl.col("rank").first().alias("with")
    )
    others = pl.col("with").cast(pl.List(pl.String)).list.join(", ").alias("others")
    return (
        rows.join(most.with_columns(others), on=at, how="inner")
        .filter(pl.col("said") != pl.col("there"))
        .sort(*at, "rank")
        .select(
            "_group",
            "group",
            "rank",
            "event_id",
            pl.col("sequence").alias("number"),
            here="said",
            others="others",
            there="there",
        )
    )


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={"_group": pl.Int64})


def without_shared_collectives(members: pl.DataFrame, paths: dict[int, str]) -> Iterator[Finding]:
    """A finding for each set of ranks that collectives connect, but not with others that their groups name.

    Ranks without any match have a separate finding.
    """
    sets = _connected(members)
    if len(sets) < 2:
        return
    named = _named(members)
    largest = max(sets, key=lambda ranks: (len(ranks), -ranks[0]))
    for ranks in sets:
        if ranks is not largest and _share_a_group(ranks, largest, named):
            yield Finding.of(
                FindingCode.WINDOW_APART,
                paths.get(ranks[0], ""),
                case=FindingCase.NOTHING_SHARED,
                rank=ranks[0],
                ranks=", ".join(map(str, ranks)),
                first_rank=largest[0],
            )


class _Named(Struct, frozen=True, eq=False):
    """The groups that ranks name.

    Args:
        groups: of each rank the numbers of its groups.
        ranks: of each group its ranks: those that it lists, and those that name it.
    """

    groups: dict[int, set[int]]
    ranks: dict[int, set[int]]


def _named(members: pl.DataFrame) -> _Named:
    """Groups of each rank, distinguished by text and listed ranks."""
    found = _Named(defaultdict(set), defaultdict(set))
    known = pl.col("group").is_not_null() | pl.col("group_ranks").is_not_null()
    texts = members.filter(known).group_by("group", as_text("group_ranks"))
    number: dict[str, int] = {}
    for group, listed, ranks in texts.agg(pl.col("rank").unique()).iter_rows():
        own = number.setdefault(group, len(number)) if group is not None else -1 - len(found.ranks)
        found.ranks[own].update(ranks_in_text(listed), ranks if group is not None else ())
        for rank in ranks:
            found.groups[rank].add(own)
    return found


def _share_a_group(ranks: list[int], others: list[int], named: _Named) -> bool:
    """Return whether a group of a rank is also one of the others."""
    return any(
        not named.ranks[group].isdisjoint(there)
        for here, there in ((ranks, others), (others, ranks))
        for group in set().union(*(named.groups.get(rank, ()) for rank in here))
    )


def _connected(members: pl.DataFrame) -> list[list[int]]:
    """The sets of ranks that matched collectives connect, each in order."""
    matched = members.drop_nulls("collective").select("collective", "rank")
    least = matched.group_by("collective").agg(pl.col("rank").min().alias("first"))
    pairs = (
        matched.join(least, on="collective", how="inner")
        .select("rank", "first")
        .unique()
        .sort("rank", "first")
    )
    ranks = pairs.get_column("rank").unique().sort().to_list()
    number = {rank: position for position, rank in enumerate(ranks)}
    sets = DisjointSets(len(ranks))
    for rank, first in pairs.iter_rows():
        sets.join(number[rank], number[first])
    found: dict[int, list[int]] = defaultdict(list)
    for rank in ranks:
        found[sets.root(number[rank])].append(rank)
    return list(found.values())


def rank_findings(
    members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame, strangers: dict[int, int]
) -> tuple[Finding, ...]:
    """Findings about whole ranks."""
    if ranks.height < 2:
        return ()
    paths = {rank: path or "" for rank, path in ranks.select("rank", "path").iter_rows()}
    return (
        *_worlds(ranks),
        *(
            Finding.of(FindingCode.RUNS_MIXED, paths.get(rank, ""), rank=rank, first_rank=first)
            for rank, first in strangers.items()
        ),
        *_silent(members, paths),
        *_unmatched(members, collectives, paths, strangers),
        *without_shared_collectives(members, paths),
    )


def of_another_run(ranks: pl.DataFrame, members: pl.DataFrame) -> dict[int, int]:
    """Ranks that recorded the same steps at another time than most of their host: each with the first of these.

    A host has a single clock, and ranks of a run are in a step together. Those that recorded other steps have other
    windows; those without steps count as of another run.
    """
    found: dict[int, int] = {}
    steps: dict[int, set[str]] = {
        rank: set(names)
        for rank, names in members.group_by("rank").agg(pl.col("step").drop_nulls().unique()).iter_rows()
    }
    known = ranks.drop_nulls(["host", "start_ns", "end_ns"]).sort("start_ns", "rank")
    for host in known.partition_by("host", maintain_order=True):
        latest = pl.col("end_ns").cum_max().shift(1)
        runs = host.with_columns((pl.col("start_ns") > latest).fill_null(value=False).cum_sum().alias("run"))
        sizes = runs.group_by("run", maintain_order=True).agg(pl.col("rank").sort()).to_dicts()
        largest = max(sizes, key=lambda run: (len(run["rank"]), -min(run["rank"])))
        for run in sizes:
            if run is not largest:
                usual = set[str]().union(*(steps.get(rank, ()) for rank in largest["rank"]))
                others = [rank for rank in run["rank"] if not _has_others(steps.get(rank, set()), usual)]
                found |= dict.fromkeys(others, min(largest["rank"]))
    return dict(sorted(found.items()))


def _has_others(steps: set[str], usual: set[str]) -> bool:
    """Return whether both recorded steps, and none that the other did."""
    return bool(steps) and bool(usual) and not steps & usual


def _worlds(ranks: pl.DataFrame) -> Iterator[Finding]:
    sizes = ranks.get_column("world_size").drop_nulls().value_counts(sort=True)
    if sizes.height > 1:
        usual = sizes.item(0, "world_size")
        other = ranks.filter(pl.col("world_size").is_not_null() & (pl.col("world_size") != usual)).row(
            0, named=True
        )
        said = ", ".join(str(size) for size in sorted(sizes.get_column("world_size").to_list()))
        yield Finding.of(FindingCode.WORLD_DIFFERS, other["path"] or "", f"rank {other['rank']}", sizes=said)


def _silent(members: pl.DataFrame, paths: dict[int, str]) -> Iterator[Finding]:
    """Find ranks without communication, if others have some."""
    there = members.get_column("rank").unique().to_list()
    if there:
        for rank in sorted(paths.keys() - there):
            yield Finding.of(FindingCode.NO_COLLECTIVES, paths[rank], rank=rank, others=len(there))


_LEAST_MATCHED = 0.5
"""Share of what a rank issued with ranks that were read: where less of it is matched, most waits are unknown."""
_KINDS = {True: "sends and receives", False: "collectives"}


def _unmatched(
    members: pl.DataFrame, collectives: pl.DataFrame, paths: dict[int, str], strangers: dict[int, int]
) -> Iterator[Finding]:
    """Ranks of which little is matched of what they issued with ranks that were read.

    They are of another window or run only where something says so: they recorded other steps, or the others of their
    groups met without them.
    """
    paired = pl.col("type").is_in([kind.value for kind in BETWEEN_TWO]).fill_null(value=False)
    # Ranks without any communication are told for themselves.
    there = members.get_column("rank").unique().to_list()
    expected = members.filter(_has_partner(members, there) & ~pl.col("rank").is_in(list(strangers)))
    counts = expected.group_by("rank", paired.alias("paired")).agg(
        pl.len().alias("issued"), pl.col("collective").count().alias("matched"), pl.col("event_id").first()
    )
    few = counts.filter(pl.col("matched") < _LEAST_MATCHED * pl.col("issued")).sort("rank", "paired")
    steps = {
        rank: [*names]
        for rank, names in members.group_by("rank")
        .agg(pl.col("step").drop_nulls().unique(maintain_order=True))
        .iter_rows()
    }
    for rows in few.partition_by("rank", maintain_order=True):
        rank, event = rows.item(0, "rank"), rows.item(0, "event_id")
        matched = rows.get_column("matched").sum()
        others = [name for other, names in steps.items() if other != rank for name in names]
        details: dict[str, object] = {
            "rank": rank,
            "issued": rows.get_column("issued").sum(),
            "matched": matched,
            "what": " and ".join(_KINDS[is_paired] for is_paired in rows.get_column("paired")),
        }
        missed = collectives.filter(pl.col("missing").list.contains(rank)).height
        code = FindingCode.WINDOW_APART
        if _has_others(set(steps[rank]), set(others)):
            details |= {"case": FindingCase.OTHER_STEPS, "own": steps[rank][0], "others": others[0]}
        elif missed and not matched and not rows.item(0, "paired"):
            details |= {"case": FindingCase.MET_WITHOUT, "met": missed}
        else:
            code = FindingCode.COLLECTIVES_UNMATCHED
        yield Finding(code, paths.get(rank, ""), f"event {event}", details=details)


def _has_partner(members: pl.DataFrame, present: list[int]) -> pl.Series:
    """Return whether each member is of a group, or has a peer, of which another rank was read, or may have been."""
    own, known = pl.col("rank"), pl.col("group_ranks").is_not_null()
    of_groups = members.filter(known).select("rank", as_text("group_ranks")).unique()
    of_groups = of_groups.with_columns(
        pl.Series(
            "of_group",
            [
                not {*ranks_in_text(text)}.isdisjoint({*present} - {rank})
                for rank, text in of_groups.iter_rows()
            ],
            dtype=pl.Boolean,
        )
    )
    rows = members.select(
        "rank", "type", "source", "destination", "group", as_text("group_ranks"), peers_listed()
    )
    rows = rows.join(of_groups, on=["rank", "group_ranks"], how="left", maintain_order="left")
    of_name = pl.col("group").is_null() | (own.n_unique().over("group") > 1)
    is_send = pl.col("type") == CollectiveType.SEND.value
    peer = pl.when(is_between_two()).then(pl.when(is_send).then("destination").otherwise("source"))
    is_there = pl.element().struct.field("peer").is_in(present)
    # Of unknown peers any may be there: the group decides.
    there = pl.col("peers").list.eval(is_there)
    is_open = there.list.eval(pl.element().is_null()).list.any() & ~there.list.any()
    of_peers = pl.when(~is_open).then(there.list.any())
    of_peer = peer.is_in(present) & (peer != own)
    return rows.select(pl.coalesce(of_peer, of_peers, "of_group", of_name)).to_series()
