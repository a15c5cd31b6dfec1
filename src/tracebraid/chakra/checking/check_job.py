"""The check of all ranks of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.chakra.checking.issue import Standstill, Waiting, issue_all
from tracebraid.chakra.checking.lint import ChakraCheck, LintCode, LintFinding, RankNode, Simulator
from tracebraid.chakra.checking.rank_facts import (
    ALL_RANKS,
    COMMUNICATION_TYPES,
    NO_PARTNER,
    Located,
    RankFacts,
    rank_facts,
    short,
)
from tracebraid.chakra.job_files import ChakraJobFiles, ChakraRankFile, find_chakra_files, read_comm_groups
from tracebraid.chakra.wire.reading import read
from tracebraid.errors import InputError
from tracebraid.filesystem.paths import shown
from tracebraid.model.choices import choice
from tracebraid.model.finding_code import Severity
from tracebraid.model.printable import printable
from tracebraid.model.quantities import numbers_text


def check(
    paths: str | Path | Sequence[str | Path],
    *,
    comm_group: str | Path | None = None,
    simulator: Simulator | str | None = None,
    progress: Callable[[float], None] | None = None,
) -> ChakraCheck:
    """Check `.et` files for faults that stop a simulator.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files; a single file is checked without the other
            ranks of its job.
        comm_group: the comm-group file; None: the one beside the files, with `comm_group` in its name or
            `PREFIX.json`, if there is one.
        simulator: "astra-sim": report also what Chakra's format allows but ASTRA-sim does not support.
        progress: called with the finished share, 0 to 1.

    Raises:
        InputError: there is no such file. An unreadable file is a finding.
        ArgumentError: the folder has several comm-group files.
        MissingLibraryError: protobuf is not installed.

    Example:
        ``tracebraid.chakra.check("job").runs``
    """
    job = find_chakra_files(paths, comm_group)
    known = None if simulator is None else choice(Simulator, simulator, "simulator")
    groups = read_comm_groups(job.groups_path) if job.groups_path else None
    files, found = _first_files(job)
    ranks = []
    for number, file in enumerate(files):
        facts = _facts(file, known)
        if isinstance(facts, LintFinding):
            found.append(facts)
        else:
            ranks.append(facts)
        if progress is not None:
            progress((number + 1) / len(files))
    numbers = [file.rank for file in files]
    whole = JobFacts(job.path, ranks, numbers, groups, shown(job.groups_path), found, job.is_job)
    return check_job(whole, known)


def _first_files(job: ChakraJobFiles) -> tuple[list[ChakraRankFile], list[LintFinding]]:
    """The first file of each rank, and findings about ranks that have several."""
    files: dict[int, list[ChakraRankFile]] = {}
    for file in job.files:
        files.setdefault(file.rank, []).append(file)
    found = [
        LintFinding(LintCode.RANK_TWICE, shown(own[1].path), details={"rank": rank, "files": len(own)})
        for rank, own in files.items()
        if len(own) > 1
    ]
    return [own[0] for own in files.values()], found


def _facts(file: ChakraRankFile, simulator: Simulator | None) -> RankFacts | LintFinding:
    """Return the facts of a file for the check, or a finding that it is unreadable."""
    try:
        rank = replace(read(file.path), rank=file.rank)
    except InputError as error:
        where = f"{error.where}: " if error.where else ""
        problem = printable(f"{where}{error.problem}")
        return LintFinding(LintCode.FILE_UNREADABLE, error.path, details={"problem": problem})
    return rank_facts(rank, shown(file.path), simulator)


_NAMES_LISTED = 8
"""Maximum groups or ranks in a sentence."""


class Groups(Struct, frozen=True):
    """Members of process groups.

    Args:
        members: ranks that exist, ascending, of each group that is used.
        findings: faults of the groups.
    """

    members: Mapping[str, tuple[int, ...]]
    findings: tuple[LintFinding, ...]


def groups_of(ranks: Sequence[RankFacts], given: Mapping[str, Sequence[int]] | None, path: str) -> Groups:
    """The groups that the ranks use."""
    there = tuple(facts.checked.rank for facts in ranks)
    users = _users(ranks)
    named = sorted(group for group in users if group != ALL_RANKS)
    found = [] if given is None else _file_faults(given, set(there), path)
    members: dict[str, tuple[int, ...]] = {ALL_RANKS: there}
    if given is None and named:
        details = {"groups": listed([short(group) for group in named])}
        found.append(LintFinding(LintCode.GROUPS_NOT_GIVEN, path, details=details))
    for group in named:
        if given is None:
            members[group] = tuple(sorted(users[group]))
        elif group not in given:
            members[group] = tuple(sorted(users[group]))
            found += [
                _located(ranks, rank).finding(LintCode.GROUP_UNKNOWN, nodes, group=short(group))
                for rank, nodes in users[group].items()
            ]
        else:
            members[group] = tuple(sorted(set(given[group]) & set(there))) if given[group] else there
            found += [
                _located(ranks, rank).finding(LintCode.NOT_IN_GROUP, nodes, rank=rank, group=short(group))
                for rank, nodes in users[group].items()
                if rank not in members[group]
            ]
    return Groups(members, tuple(found))


def listed(names: Sequence[object]) -> str:
    """The names in a sentence; of many the first, and how many others there are."""
    shown = ", ".join(map(str, names[:_NAMES_LISTED]))
    more = len(names) - _NAMES_LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown


def _users(ranks: Sequence[RankFacts]) -> dict[str, dict[int, list[int]]]:
    """The nodes of each rank that uses a group."""
    users: dict[str, dict[int, list[int]]] = {}
    for facts in ranks:
        used = facts.communication.filter(pl.col("group").is_not_null())
        for group, nodes in used.group_by("group", maintain_order=True).agg("node_id").iter_rows():
            users.setdefault(group, {})[facts.checked.rank] = nodes
    return users


def _located(ranks: Sequence[RankFacts], rank: int) -> Located:
    path = next(facts.checked.path for facts in ranks if facts.checked.rank == rank)
    return Located(rank, path)


def _file_faults(given: Mapping[str, Sequence[int]], there: set[int], path: str) -> list[LintFinding]:
    found = []
    for group, members in given.items():
        if not _is_number(group):
            found.append(LintFinding(LintCode.GROUP_NOT_A_NUMBER, path, details={"group": short(group)}))
        absent = sorted(set(members) - there)
        if absent:
            details = {"group": short(group), "absent": listed(absent)}
            found.append(LintFinding(LintCode.GROUP_RANK_ABSENT, path, details=details))
        twice = sorted(rank for rank in set(members) if list(members).count(rank) > 1)
        if twice:
            named = {"group": short(group), "rank": twice[0]}
            found.append(LintFinding(LintCode.GROUP_RANK_TWICE, path, details=named))
    return found


def _is_number(group: str) -> bool:
    return group.isascii() and group.isdigit() and len(group) <= 10 and 0 < int(group) < 2**31


_WAITS_NAMED = 8
"""Maximum different waits of a deadlock that a sentence explains."""


def deadlock_faults(
    ranks: Sequence[RankFacts], standstill: Standstill, code: LintCode = LintCode.DEADLOCK, **details: object
) -> list[LintFinding]:
    """A deadlock, if something does not end: all waiting ranks, first those that wait for each other in a circle."""
    if not standstill.waiting:
        return []
    facts = {own.checked.rank: own for own in ranks}
    waits: dict[int, Waiting] = {}
    for waiting in standstill.waiting:
        waits.setdefault(waiting.rank, waiting)
    chain = _chain(waits)
    ordered = list({waiting.rank: waiting for waiting in [*chain, *waits.values()]}.values())
    nodes = tuple(_node(facts[waiting.rank], waiting) for waiting in ordered)
    alike: dict[str, list[int]] = {}
    for waiting in ordered:
        alike.setdefault(_said(facts[waiting.rank], waiting, waits), []).append(waiting.rank)
    said = [
        f"{_ranks(own)} {'waits' if len(own) == 1 else 'wait'} {what}"
        for what, own in islice(alike.items(), _WAITS_NAMED)
    ]
    others = [rank for own in islice(alike.values(), _WAITS_NAMED, None) for rank in own]
    if others:
        said.append(f"so {'does' if len(others) == 1 else 'do'} {_ranks(others)}, elsewhere")
    counts = {"nodes": sum(standstill.never.values()), "ranks": len(standstill.never)}
    return [LintFinding(code, "", nodes, 1, {"waits": "; ".join(said), **counts, **details})]


def rendezvous_faults(
    ranks: Sequence[RankFacts], members: Mapping[str, tuple[int, ...]], has_no_partner: frozenset[str]
) -> list[LintFinding]:
    """A deadlock where sends wait for their receive, at the largest size from which on they have to."""
    sent = [facts.communication.filter(pl.col("type") == _SEND)["comm_size"] for facts in ranks]
    sizes = sorted({size for own in sent for size in own.drop_nulls().unique().to_list() if size >= 0})
    hangs: list[LintFinding] = []
    least, end = 0, len(sizes)
    while least < end:
        # The smallest first: where all sends may wait, no larger size has to be tried.
        middle = (least + end) // 2 if hangs else least
        standstill = issue_all(ranks, members, has_no_partner, sizes[middle])
        if standstill.waiting:
            hangs = deadlock_faults(ranks, standstill, LintCode.RENDEZVOUS, size=sizes[middle])
            least = middle + 1
        elif hangs:
            end = middle
        else:
            break
    return hangs


def _ranks(numbers: Sequence[int]) -> str:
    """The ranks in a sentence."""
    return f"rank{'' if len(numbers) == 1 else 's'} {numbers_text(numbers)}"


def _chain(waits: Mapping[int, Waiting]) -> list[Waiting]:
    """Follow the waits from a rank; return the cycle in which they end, if any."""
    rank = min(waits)
    seen: list[int] = []
    while rank in waits and rank not in seen:
        seen.append(rank)
        blocked = [other for other in waits[rank].ranks if other in waits]
        rank = (blocked or waits[rank].ranks)[0]
    return [waits[number] for number in (seen[seen.index(rank) :] if rank in seen else seen)]


def _said(facts: RankFacts, waiting: Waiting, waits: Mapping[int, Waiting]) -> str:
    row = facts.communication.row(waiting.position, named=True)
    stuck = [rank for rank in waiting.ranks if rank in waits]
    ended = [rank for rank in waiting.ranks if rank not in waits]
    others = [_ranks(stuck)] if stuck else []
    if ended:
        others.append(f"{_ranks(ended)} ({'which has ended' if len(ended) == 1 else 'which have ended'})")
    if waiting.group is not None:
        what = f"{row['comm_type'] or 'collective'} of group {short(waiting.group)}"
    else:
        end = f"send to rank {row['dst']}" if row["type"] == _SEND else f"receive from rank {row['src']}"
        what = f"{end} with tag {row['comm_tag'] or 0}"
    return f"in node {row['node_id']} ({what}) for {' and '.join(others)}"


def _node(facts: RankFacts, waiting: Waiting) -> RankNode:
    return RankNode(waiting.rank, facts.communication.item(waiting.position, "node_id"))


_COLLECTIVE, _SEND, _RECEIVE = COMMUNICATION_TYPES
_ENDS = ["src", "dst", "comm_tag", "comm_size"]


def rank_number_faults(ranks: Sequence[int], path: str) -> list[LintFinding]:
    """Return whether the ranks are those from 0 up, without a gap."""
    there = set(ranks)
    if not there or there == set(range(len(there))):
        return []
    last = max(there)
    details = {
        "shown": listed(sorted(there)),
        "last": last,
        "missing": listed([rank for rank in range(min(last, len(there) + 64)) if rank not in there]),
    }
    return [LintFinding(LintCode.RANKS_MISSING, path, details=details)]


def collective_faults(ranks: Sequence[RankFacts], groups: Groups) -> list[LintFinding]:
    """Find the first position in each group at which members issue different collectives."""
    issued = _collectives(ranks)
    members = pl.DataFrame(
        [(group, rank) for group, own in groups.members.items() for rank in own],
        schema={"group": pl.String, "rank": pl.Int64},
        orient="row",
    )
    issued = issued.join(members, on=["group", "rank"], how="semi", maintain_order="left")
    return [
        *_differing(issued, "comm_type", LintCode.COLLECTIVES_DIFFER),
        *_differing(issued, "comm_size", LintCode.SIZES_DIFFER),
        *_missing(issued, members),
    ]


def world_group_faults(ranks: Sequence[RankFacts]) -> list[LintFinding]:
    """Collectives of the unnamed group of all ranks that ASTRA-sim numbers otherwise on each rank."""
    sent = _collectives(ranks).filter(~pl.col("comm_type").is_in(list(NO_PARTNER)))
    sent = sent.with_columns(before=pl.int_range(pl.len()).over("rank"))
    sent = sent.filter(pl.col("group") == ALL_RANKS)
    sent = sent.with_columns(position=pl.int_range(pl.len()).over("rank"))
    return _differing(sent, "before", LintCode.ASTRA_WORLD_GROUP)


def _collectives(ranks: Sequence[RankFacts]) -> pl.DataFrame:
    """The collectives of all ranks in the order in which each issues them, with their position in their group."""
    columns = ("node_id", "comm_type", "comm_size", "group")
    parts = [
        facts.communication.filter(pl.col("type") == _COLLECTIVE).select(
            *columns, rank=pl.lit(facts.checked.rank, dtype=pl.Int64)
        )
        for facts in ranks
    ]
    text, number = pl.String, pl.Int64
    empty = {"node_id": number, "comm_type": text, "comm_size": number, "group": text, "rank": number}
    issued = pl.concat(parts) if parts else pl.DataFrame(schema=empty)
    return issued.with_columns(position=pl.int_range(pl.len()).over("group", "rank"))


def _differing(issued: pl.DataFrame, column: str, code: LintCode) -> list[LintFinding]:
    """The first position in each group at which a column differs, with two ranks that differ there."""
    met = issued.group_by("group", "position", maintain_order=True).agg(
        values=pl.col(column).n_unique(), types=pl.col("comm_type").n_unique()
    )
    wrong = met.filter(pl.col("values") > 1)
    if column == "comm_size":
        # Where even the types differ, that is said.
        wrong = wrong.filter(pl.col("types") == 1)
    firsts = wrong.group_by("group", maintain_order=True).agg(pl.col("position").min(), count=pl.len())
    found = []
    for group, position, count in firsts.iter_rows():
        at = issued.filter((pl.col("group") == group) & (pl.col("position") == position)).sort("rank")
        first = at.row(0, named=True)
        other = at.filter(pl.col(column).ne_missing(first[column])).row(0, named=True)
        details = _details(first, other, column)
        nodes = (RankNode(first["rank"], first["node_id"]), RankNode(other["rank"], other["node_id"]))
        found.append(LintFinding(code, "", nodes, count, details))
    return found


def _details(first: dict[str, Any], other: dict[str, Any], column: str) -> dict[str, object]:
    unknown = "an unknown type" if column == "comm_type" else 0
    return {
        "group": short(first["group"]),
        "position": first["position"],
        "type": first["comm_type"] or "of an unknown type",
        "first": unknown if first[column] is None else first[column],
        "first_rank": first["rank"],
        "other": unknown if other[column] is None else other[column],
        "other_rank": other["rank"],
    }


def _missing(issued: pl.DataFrame, members: pl.DataFrame) -> list[LintFinding]:
    """Find groups whose members issue different numbers of collectives; the first extra one of each is named."""
    used = members.filter(pl.col("group").is_in(issued.get_column("group").unique().to_list()))
    counts = issued.group_by("group", "rank").len("count")
    counts = used.join(counts, on=["group", "rank"], how="left").with_columns(pl.col("count").fill_null(0))
    found = []
    for (group,), own in counts.sort("group", "rank").group_by("group", maintain_order=True):
        if own.get_column("count").n_unique() < 2:
            continue
        least, most = (
            own.sort("count", "rank").row(0, named=True),
            own.sort("count", "rank").row(-1, named=True),
        )
        extra = issued.filter((pl.col("group") == group) & (pl.col("position") >= least["count"]))
        extra = extra.unique("rank", keep="first", maintain_order=True)
        nodes = tuple(RankNode(rank, node) for rank, node in extra.select("rank", "node_id").iter_rows())
        by_count = own.group_by("count").agg("rank").sort("count", descending=True)
        details = {
            "counts": "; ".join(
                f"{count:,} on {_ranks(alike)}" for count, alike in by_count.head(_NAMES_LISTED).iter_rows()
            ),
            "group": short(str(group)),
            "first_rank": most["rank"],
            "first": most["count"],
            "other_rank": least["rank"],
            "other": least["count"],
        }
        found.append(LintFinding(LintCode.COLLECTIVES_MISSING, "", nodes, 1, details))
    return found


def message_faults(ranks: Sequence[RankFacts]) -> list[LintFinding]:
    """Find sends without receive, receives without send, and missing peers."""
    parts = [
        facts.communication.filter(pl.col("type") != _COLLECTIVE)
        .filter(pl.col("src").is_not_null() & pl.col("dst").is_not_null())
        .select(
            "node_id",
            "type",
            "src",
            "dst",
            pl.col("comm_tag").fill_null(0),
            "comm_size",
            rank=pl.lit(facts.checked.rank, dtype=pl.Int64),
        )
        for facts in ranks
    ]
    ends = pl.concat(parts) if parts else pl.DataFrame()
    if not ends.height:
        return []
    there = [facts.checked.rank for facts in ranks]
    peer = pl.when(pl.col("rank") == pl.col("src")).then("dst").otherwise("src")
    ends = ends.with_columns(peer=peer)
    absent = ends.filter(~pl.col("peer").is_in(there))
    found = [
        LintFinding(LintCode.PEER_ABSENT, "", _nodes(own), own.height, {"peer": name})
        for (name,), own in absent.group_by("peer", maintain_order=True)
    ]
    present = ends.filter(pl.col("peer").is_in(there))
    present = present.with_columns(position=pl.int_range(pl.len()).over("type", *_ENDS))
    for kind, other, code in (
        (_SEND, _RECEIVE, LintCode.SEND_WITHOUT_RECEIVE),
        (_RECEIVE, _SEND, LintCode.RECEIVE_WITHOUT_SEND),
    ):
        alone = present.filter(pl.col("type") == kind).join(
            present.filter(pl.col("type") == other),
            on=[*_ENDS, "position"],
            how="anti",
            nulls_equal=True,
            maintain_order="left",
        )
        for _, own in alone.group_by("src", "dst", maintain_order=True):
            first = own.row(0, named=True)
            details = {
                "src": first["src"],
                "dst": first["dst"],
                "tag": first["comm_tag"],
                "size": first["comm_size"] or 0,
            }
            found.append(LintFinding(code, "", _nodes(own), own.height, details))
    return found


def _nodes(ends: pl.DataFrame) -> tuple[RankNode, ...]:
    return tuple(RankNode(rank, node) for rank, node in ends.select("rank", "node_id").head(3).iter_rows())


_ORDER = list(Severity)


class JobFacts(Struct, frozen=True):
    """Facts about a job for a check.

    Args:
        path: of the job.
        ranks: those that could be read.
        numbers: of all ranks that have a file.
        groups: ranks of each process group, from the comm-group file; None: no file.
        groups_path: of that file.
        findings: findings while the files were found and read.
        is_whole: whether these are all ranks; of a single file what needs the other ranks is not checked.
    """

    path: str
    ranks: Sequence[RankFacts]
    numbers: Sequence[int]
    groups: Mapping[str, Sequence[int]] | None = None
    groups_path: str = ""
    findings: Sequence[LintFinding] = ()
    is_whole: bool = True


def check_job(job: JobFacts, simulator: Simulator | None = None) -> ChakraCheck:
    """Find the faults of a job."""
    ranks = sorted(job.ranks, key=lambda facts: facts.checked.rank)
    found = [*job.findings, *(finding for facts in ranks for finding in facts.findings)]
    if job.is_whole:
        found += _across(job, ranks, simulator)
    found.sort(key=lambda finding: _ORDER.index(finding.severity))
    return ChakraCheck(job.path, tuple(facts.checked for facts in ranks), tuple(found))


def _across(job: JobFacts, ranks: Sequence[RankFacts], simulator: Simulator | None) -> list[LintFinding]:
    is_astra_sim = simulator is Simulator.ASTRA_SIM
    groups = groups_of(ranks, job.groups, job.groups_path)
    has_no_partner = NO_PARTNER if is_astra_sim else frozenset()
    standstill = issue_all(ranks, groups.members, has_no_partner)
    of_messages = message_faults(ranks)
    found = [
        *rank_number_faults(job.numbers, job.path),
        *groups.findings,
        *collective_faults(ranks, groups),
        *of_messages,
        *deadlock_faults(ranks, standstill),
    ]
    if not standstill.waiting and not of_messages:
        found += rendezvous_faults(ranks, groups.members, has_no_partner)
    if is_astra_sim:
        found += world_group_faults(ranks)
    if is_astra_sim and len(job.numbers) == 1:
        found.append(LintFinding(LintCode.ASTRA_SINGLE_RANK, job.path))
    return found
