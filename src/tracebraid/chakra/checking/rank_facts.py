"""Facts about a rank that a check keeps: its faults, its communication and its dependencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.checking.lint import CheckedChakraRank, LintCode, LintFinding, RankNode, Simulator
from tracebraid.chakra.codes import CollectiveCommType, NodeType
from tracebraid.chakra.dependencies import RankDependencies, depths, rank_dependencies, run_order
from tracebraid.chakra.schema import ChakraRank
from tracebraid.chakra.wire.messages import TYPE_ONLY
from tracebraid.chakra.wire.writing import ATTRIBUTE_COLUMNS
from tracebraid.model.finding import Finding
from tracebraid.model.printable import printable
from tracebraid.native.loops import native_loop

_NODES_NAMED = 5
"""Maximum named nodes with the same fault; all are counted."""
_NAME_CHARACTERS = 60
"""Maximum characters of a name in a sentence: fewer distinguish kernels, and a damaged file may have megabytes."""


class Located(Struct, frozen=True):
    """Makes the findings of a rank.

    Args:
        rank: the number of the rank.
        path: of its file.
    """

    rank: int
    path: str

    def finding(self, code: LintCode, node_ids: Sequence[int] | pl.Series, **details: object) -> LintFinding:
        """A finding about these nodes."""
        nodes = tuple(RankNode(self.rank, int(node)) for node in node_ids[:_NODES_NAMED])
        return LintFinding(code, self.path, nodes, max(1, len(node_ids)), details)

    def where(self, nodes: pl.DataFrame, wrong: pl.Expr, code: LintCode) -> list[LintFinding]:
        """A finding about the nodes for which an expression holds, if it does for any."""
        found = nodes.lazy().filter(wrong).select("node_id").collect().get_column("node_id")
        return [self.finding(code, found)] if len(found) else []

    def where_values(
        self, nodes: pl.DataFrame, wrong: pl.Expr, code: LintCode, field: str, value: str
    ) -> list[LintFinding]:
        """Likewise, one for each value of a column, which the sentence names by this field."""
        found = nodes.filter(wrong).group_by(value, maintain_order=True).agg("node_id")
        return [
            self.finding(code, node_ids, **{field: short(shown) if isinstance(shown, str) else shown})
            for shown, node_ids in found.select(value, "node_id").iter_rows()
        ]


def short(name: str) -> str:
    """A name as a sentence shows it."""
    name = name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 3]}..."
    return printable(name)


_Ints = NDArray[np.int64]


def cycle_of(dependencies: RankDependencies, order: _Ints) -> list[int]:
    """The rows of a circle, each waiting for the next and the last for the first; none if there is no circle."""
    nodes = len(dependencies.first) - 1
    stuck = np.ones(nodes, dtype=np.bool_)
    stuck[order] = False
    rows = np.repeat(np.arange(nodes), np.diff(dependencies.first))
    within = stuck[rows] & stuck[dependencies.before]
    # Each node that never runs and waits for no node of this kind waits for itself: there is no circle behind it.
    waits_for = np.full(nodes, -1, dtype=np.int64)
    waits_for[rows[within]] = dependencies.before[within]
    waits_for[dependencies.self_row] = -1
    seen = np.zeros(nodes, dtype=np.int64)
    for number, start in enumerate(np.flatnonzero(waits_for >= 0).tolist(), start=1):
        row = start
        while row >= 0 and seen[row] == 0:
            seen[row] = number
            row = int(waits_for[row])
        if row >= 0 and seen[row] == number:
            return _circle(waits_for, row)
    return []


def _circle(waits_for: _Ints, start: int) -> list[int]:
    circle, row = [start], int(waits_for[start])
    while row != start:
        circle.append(row)
        row = int(waits_for[row])
    return circle


_NODES_OF_A_CIRCLE = 8
"""Maximum named nodes of a cycle."""
_RUNNABLE = [kind.name for kind in NodeType if kind is not NodeType.INVALID_NODE]


def node_faults(nodes: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Faults of ids, types and durations."""
    if not nodes.height:
        return [located.finding(LintCode.NO_NODES, [])]
    node_id, duration = pl.col("node_id"), pl.col("duration_micros")
    unknown = ~pl.col("type").is_in(_RUNNABLE) | pl.col("type").is_null()
    found = located.where(nodes, node_id < 0, LintCode.ID_NEGATIVE)
    if nodes.get_column("node_id").n_unique() < nodes.height:
        found += located.where(nodes, ~node_id.is_first_distinct(), LintCode.ID_DUPLICATE)
    found += located.where_values(nodes, unknown, LintCode.TYPE_UNKNOWN, "type", "type")
    negative = nodes.filter(duration < 0)
    untimed = (duration.fill_null(0) <= 0) & (pl.col("duration_ns").fill_null(-1) < 0)
    is_device_work = (pl.col("type") == NodeType.COMP_NODE.name) & ~pl.col("is_cpu_op").fill_null(False)
    found += located.where(
        nodes, is_device_work & untimed & (pl.col("num_ops") > 0), LintCode.DURATION_MISSING
    )
    if negative.height:
        first = negative.item(0, "duration_micros")
        ids = negative.get_column("node_id")
        found.append(located.finding(LintCode.DURATION_NEGATIVE, ids, duration=first))
    return found


def dependency_faults(
    nodes: pl.DataFrame, dependencies: RankDependencies, order: NDArray[np.int64], located: Located
) -> list[LintFinding]:
    """Dependencies on nothing and on oneself, circles, and a rank in which nothing can begin."""
    ids = nodes.get_column("node_id").to_numpy()
    found = []
    if len(dependencies.dangling_row):
        missing = int(dependencies.dangling_id[0])
        waiting = ids[dependencies.dangling_row].tolist()
        found.append(located.finding(LintCode.DEPENDENCY_DANGLING, waiting, missing=missing))
    if len(dependencies.self_row):
        found.append(located.finding(LintCode.DEPENDENCY_SELF, ids[dependencies.self_row].tolist()))
    if len(order) < len(ids):
        circle = cycle_of(dependencies, order)
        if circle:
            names = nodes.get_column("name").gather(circle[:_NODES_OF_A_CIRCLE]).to_list()
            shown = [f"{ids[row]} ({short(name or '')})" for row, name in zip(circle, names, strict=False)]
            more = [f"{len(circle) - len(shown):,} more"] if len(circle) > len(shown) else []
            cycle = " waits for ".join([*shown, *more, str(ids[circle[0]])])
            never = len(ids) - len(order)
            in_circle = ids[circle].tolist()
            fault = located.finding(LintCode.DEPENDENCY_CYCLE, in_circle, cycle=cycle, nodes=never)
            found.append(LintFinding(fault.code, fault.path, fault.nodes, 1, fault.details))
    if len(ids) and not len(order):
        found.append(located.finding(LintCode.NO_START_NODE, [], nodes=len(ids)))
    return found


_STEPS_BACK = 32
"""Entries that are gone back to see whether one communication waits for another: enough for the chains of streams.
Where it is not enough, a junction more is kept."""


class Skeleton(Struct, frozen=True, eq=False):
    """Communications and junctions of a rank; each waits for earlier entries only.

    Args:
        row: the row of each node.
        first: the entries of `before` of each.
        before: the entry that it waits for.
        start_us: earliest start, if communication takes no time.
        level: how many of the collectives behind each other end with it, of those that wait for each other.
    """

    row: _Ints
    first: _Ints
    before: _Ints
    start_us: _Ints
    level: _Ints


def skeleton_of(
    dependencies: RankDependencies, order: _Ints, communicates: NDArray[np.int8], duration_us: _Ints
) -> Skeleton:
    """The skeleton of a rank."""
    start_us, level = _starts(dependencies.first, dependencies.before, order, communicates, duration_us)
    kept, first, before = _contracted(
        dependencies.first, dependencies.before, order, communicates, _STEPS_BACK
    )
    return Skeleton(kept, first, before, start_us[kept], level[kept])


@native_loop
def _starts(
    first: _Ints, before: _Ints, order: _Ints, communicates: NDArray[np.int8], duration_us: _Ints
) -> tuple[_Ints, _Ints]:
    nodes = len(communicates)
    start = np.zeros(nodes, dtype=np.int64)
    level = np.zeros(nodes, dtype=np.int64)
    for at in range(len(order)):
        row = order[at]
        begins, deepest = 0, 0
        for entry in range(first[row], first[row + 1]):
            other = before[entry]
            ends = start[other] + (0 if communicates[other] else duration_us[other])
            begins = max(begins, ends)
            deepest = max(deepest, level[other])
        start[row] = begins
        level[row] = deepest + (1 if communicates[row] == 1 else 0)
    return start, level


@native_loop
def _contracted(
    first: _Ints, before: _Ints, order: _Ints, communicates: NDArray[np.int8], steps_back: int
) -> tuple[_Ints, _Ints, _Ints]:
    stands_for = np.full(len(communicates), -1, dtype=np.int64)
    kept: list[int] = []
    kept_before: list[list[int]] = []
    for row in order:
        found = sorted(
            stands_for[other] for other in before[first[row] : first[row + 1]] if stands_for[other] >= 0
        )
        last = found[-1:]
        # Is one waited for by the last of them already? Gone back along what that one waits for.
        found = [
            each
            for each in sorted({*found} - {*last})
            if not _leads_back(kept_before, last, each, steps_back)
        ]
        found += last
        if communicates[row] == 0 and len(found) < 2:
            stands_for[row] = found[0] if found else -1
            continue
        stands_for[row] = len(kept)
        kept.append(row)
        kept_before.append(found)
    ends = np.cumsum([0, *map(len, kept_before)], dtype=np.int64)
    flat = np.array([other for each in kept_before for other in each], dtype=np.int64)
    return np.array(kept, dtype=np.int64), ends, flat


def _leads_back(kept_before: list[list[int]], walked: list[int], searched: int, steps_back: int) -> bool:
    """Whether dependencies lead back from a node to one before it, within so many nodes."""
    walked = [*walked]
    for at in walked:
        for other in kept_before[at]:
            if other == searched:
                return True
            if other > searched and len(walked) < steps_back:
                walked.append(other)
    return False


_RUN = [
    name.name
    for name in (
        CollectiveCommType.ALL_REDUCE,
        CollectiveCommType.ALL_GATHER,
        CollectiveCommType.ALL_TO_ALL,
        CollectiveCommType.REDUCE_SCATTER,
        CollectiveCommType.BROADCAST,
    )
]
"""Collectives that ASTRA-sim runs; it throws at the others."""
NO_PARTNER = frozenset({CollectiveCommType.BROADCAST.name})
"""Collectives that ASTRA-sim only gives their measured time, without a message to the other ranks."""
_READY_LIMIT = 1000
"""Nodes that can run at once. ASTRA-sim goes through all of them at each event: with so many, a trace of 100,000
nodes takes some 10^8 look-ups."""


def astra_faults(nodes: pl.DataFrame, communication: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Columns of a rank's nodes."""
    known = pl.col("comm_type").is_in([name.name for name in CollectiveCommType])
    foreign = known & ~pl.col("comm_type").is_in(_RUN)
    is_pair = pl.col("type") != NodeType.COMM_COLL_NODE.name
    metadata = pl.col("type") == NodeType.METADATA_NODE.name
    host = (pl.col("type") == NodeType.COMP_NODE.name) & pl.col("is_cpu_op").fill_null(False)
    return [
        *located.where_values(communication, foreign, LintCode.ASTRA_COLLECTIVE, "type", "comm_type"),
        *located.where(communication, pl.col("comm_size") == 0, LintCode.ASTRA_SIZE_ZERO),
        *located.where(communication, is_pair & pl.col("comm_tag").is_null(), LintCode.ASTRA_TAG_MISSING),
        *located.where_values(nodes, metadata, LintCode.ASTRA_METADATA, "type", "type"),
        *located.where(nodes, host, LintCode.ASTRA_HOST_WORK),
    ]


def ready_faults(
    dependencies: RankDependencies, order: NDArray[np.int64], located: Located
) -> list[LintFinding]:
    """Return whether the number of concurrent nodes makes ASTRA-sim slow."""
    depth = depths(dependencies.first, dependencies.before, order)
    widest = int(np.bincount(depth[order]).max()) if len(order) else 0
    return [located.finding(LintCode.ASTRA_MANY_READY, [], nodes=widest)] if widest > _READY_LIMIT else []


COMMUNICATION_TYPES = (
    NodeType.COMM_COLL_NODE.name,
    NodeType.COMM_SEND_NODE.name,
    NodeType.COMM_RECV_NODE.name,
)
ALL_RANKS = "0"
"""The process group of all ranks, also meant by a missing name."""
_GROUP_LIMIT = 2**31
_COLLECTIVE, _SEND, _RECEIVE = COMMUNICATION_TYPES


def communication_of(nodes: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The nodes that communicate, in the order of the file.

    `row` is that of the node; `type` and `comm_type` are text; `group` is the process group as a number in text, or
    what stands in its stead; `src` and `dst` are the two ends of a send or receive.
    """
    kind, own = pl.col("type"), pl.lit(rank, dtype=pl.Int64)
    number = pl.col("pg_name").str.to_integer(strict=False)
    is_number = number.is_between(0, _GROUP_LIMIT - 1)
    name = pl.col("pg_name").fill_null("")
    return (
        nodes.with_row_index("row")
        .filter(kind.is_in(COMMUNICATION_TYPES))
        .with_columns(
            pl.col("row").cast(pl.Int64),
            comm_type=pl.col("comm_type").cast(pl.String),
            group=pl.when(name == "")
            .then(pl.lit(ALL_RANKS))
            .when(is_number)
            .then(number.cast(pl.String))
            .otherwise(name),
            is_group_number=(name == "") | is_number.fill_null(False),
            src=pl.when(kind == _SEND).then(own).when(kind == _RECEIVE).then(pl.col("comm_src")),
            dst=pl.when(kind == _RECEIVE).then(own).when(kind == _SEND).then(pl.col("comm_dst")),
        )
        .with_columns(group=pl.when(kind == _COLLECTIVE).then(pl.col("group")))
    )


def communication_faults(nodes: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Find missing or invalid data of a rank, without the other ranks."""
    kind, size, rank = pl.col("type"), pl.col("comm_size"), located.rank
    comm_type, is_collective = pl.col("comm_type"), pl.col("type") == _COLLECTIVE
    barrier = (comm_type == CollectiveCommType.BARRIER.name).fill_null(False)
    known = comm_type.is_in([name.name for name in CollectiveCommType])
    to_itself = (~is_collective) & (pl.col("src") == pl.col("dst"))
    found = [
        *located.where(nodes, pl.col("is_cpu_op").fill_null(False), LintCode.COMMUNICATION_ON_HOST),
        *located.where(nodes, is_collective & comm_type.is_null(), LintCode.COLLECTIVE_TYPE_MISSING),
        *located.where_values(
            nodes, is_collective & ~known, LintCode.COLLECTIVE_TYPE_UNKNOWN, "type", "comm_type"
        ),
        *located.where(nodes, size.is_null() & ~barrier, LintCode.SIZE_MISSING),
        *located.where_values(nodes, size < 0, LintCode.SIZE_NEGATIVE, "size", "comm_size"),
        *located.where(nodes, to_itself, LintCode.PEER_IS_SELF),
        *located.where_values(
            nodes, is_collective & ~pl.col("is_group_number"), LintCode.GROUP_NOT_A_NUMBER, "group", "group"
        ),
    ]
    ends = ((_SEND, "dst", "comm_dst", "comm_src"), (_RECEIVE, "src", "comm_src", "comm_dst"))
    for of_type, peer, attribute, own in ends:
        without = nodes.filter((kind == of_type) & pl.col(peer).is_null()).get_column("node_id")
        if len(without):
            found.append(located.finding(LintCode.PEER_MISSING, without, which=attribute))
        foreign = nodes.filter((kind == of_type) & (pl.col(own) != rank))
        if foreign.height:
            details = {"attribute": own, "named": foreign.item(0, own), "rank": rank}
            ids = foreign.get_column("node_id")
            found.append(located.finding(LintCode.ISSUED_FOR_ANOTHER, ids, **details))
    return found


_READ_BY_FEEDER = (
    *("is_cpu_op", "comm_type", "comm_size", "comm_priority", "comm_src", "comm_dst", "comm_tag", "pg_name"),
    *("num_ops", "tensor_size"),
)
"""Attributes that Chakra's own feeder reads, each from one member of the message."""
_READ_AS_NOTHING = ("0", "false", "", CollectiveCommType(0).name)
"""Values that another member does not change: the feeder takes them for a member that is not set."""


def attribute_faults(nodes: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Attributes of another type than the one that Chakra's feeder reads."""
    found: list[LintFinding] = []
    further = nodes.filter(pl.col("attributes").is_not_null()).cast({"attributes": pl.String})
    for name in _READ_BY_FEEDER if further.height else ():
        named = further.filter(pl.col("attributes").str.contains(f'"{name}":', literal=True))
        if not named.height:
            continue
        expected = f"{ATTRIBUTE_COLUMNS[name].name.lower()}_val"
        kind = pl.col("attributes").str.json_path_match(f"$.{name}.{TYPE_ONLY}").fill_null("of another type")
        wrong = (pl.col("found") != expected) & ~pl.col(name).cast(pl.String).is_in(_READ_AS_NOTHING)
        rows = named.with_columns(kind.alias("found")).filter(wrong.fill_null(value=True))
        for shown, ids in rows.group_by("found", maintain_order=True).agg("node_id").iter_rows():
            details = {"attribute": name, "type": short(shown), "expected": expected}
            found.append(located.finding(LintCode.ATTRIBUTE_TYPE, ids, **details))
    return found


_COLUMNS = ("node_id", "name", "type", "duration_micros", "duration_ns", *_READ_BY_FEEDER, "attributes")
_OF_COMMUNICATION = (
    *("node_id", "name", "type", "duration_micros", "is_cpu_op", "comm_type", "comm_size"),
    *("comm_src", "comm_dst", "comm_tag", "pg_name"),
)


class RankFacts(Struct, frozen=True, eq=False):
    """Compute the facts of a rank for a check.

    Args:
        checked: the rank in numbers.
        findings: its own faults.
        communication: the nodes that communicate, in the order in which they are issued where nothing holds the rank
            up: `entry` (of the skeleton; null: it never runs), `lane_order` (of what is ready the lane takes the
            least), `node_id`, `type`, `comm_type`, `comm_size`, `src`, `dst`, `comm_tag`, `group`.
        skeleton: what communication waits for.
    """

    checked: CheckedChakraRank
    findings: tuple[LintFinding, ...]
    communication: pl.DataFrame
    skeleton: Skeleton


def rank_facts(rank: ChakraRank, path: str, simulator: Simulator | None = None) -> RankFacts:
    """The facts of a rank."""
    located = Located(rank.rank, path)
    nodes = rank.nodes.select(_COLUMNS).with_columns(pl.col("type").cast(pl.String))
    dependencies = rank_dependencies(rank)
    order = run_order(dependencies)
    found = [*node_faults(nodes, located), *dependency_faults(nodes, dependencies, order, located)]
    communication = communication_of(nodes.select(_OF_COMMUNICATION), rank.rank)
    found += communication_faults(communication, located)
    found += attribute_faults(nodes, located)
    kind = np.zeros(nodes.height, dtype=np.int8)
    rows = communication.get_column("row").to_numpy()
    is_collective = (communication.get_column("type") == COMMUNICATION_TYPES[0]).to_numpy()
    kind[rows] = np.where(is_collective, 1, 2)
    duration = nodes.get_column("duration_micros").fill_null(0).clip(lower_bound=0).to_numpy()
    skeleton = skeleton_of(dependencies, order, kind, duration)
    issued = _issued(communication, skeleton)
    found += _order_faults(issued, located)
    if simulator is Simulator.ASTRA_SIM:
        found += astra_faults(nodes, communication, located)
        found += ready_faults(dependencies, order, located)
    counts = [int((communication.get_column("type") == name).sum()) for name in COMMUNICATION_TYPES]
    checked = CheckedChakraRank(
        rank.rank, path, nodes.height, len(rank.data_deps) + len(rank.ctrl_deps), *counts
    )
    damage = [_of_file(finding, path) for finding in rank.findings]
    kept = issued.drop("row", "start_us", "level", "is_cpu_op", "comm_src", "comm_dst", "is_group_number")
    return RankFacts(checked, (*damage, *found), kept, skeleton)


def _of_file(finding: Finding, path: str) -> LintFinding:
    """Convert the reader's findings."""
    problem = f"{finding.where}: {finding.message}" if finding.where else finding.message
    code = LintCode.FILE_NOTED if finding.loss is None else LintCode.FILE_DAMAGED
    return LintFinding(code, path, (), finding.count, {"problem": problem})


def _issued(communication: pl.DataFrame, skeleton: Skeleton) -> pl.DataFrame:
    """Sort by earliest start; dependent nodes keep their order, ties are broken by id."""
    entries = pl.DataFrame(
        {
            "row": skeleton.row,
            "entry": np.arange(len(skeleton.row)),
            "start_us": skeleton.start_us,
            "level": skeleton.level,
        }
    )
    joined = communication.drop("name", "duration_micros", "pg_name").join(entries, on="row", how="left")
    # Of what is ready the lane takes the smallest id.
    joined = joined.sort("start_us", "node_id", nulls_last=True).with_row_index("lane_order")
    return joined.sort("start_us", "level", "lane_order", nulls_last=True)


def _order_faults(issued: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Return whether the collectives of a rank have a first and a next, whatever time they take."""
    collectives = issued.filter((pl.col("type") == COMMUNICATION_TYPES[0]) & pl.col("entry").is_not_null())
    if collectives.select("group", "comm_type", "comm_size").n_unique() < 2:
        return []
    at_once = collectives.filter(pl.col("level").is_duplicated())
    if not at_once.height:
        return []
    first = at_once.filter(pl.col("level") == at_once.item(0, "level")).get_column("node_id").to_list()
    later = at_once.filter(pl.col("level") != at_once.item(0, "level")).get_column("node_id").to_list()
    return [located.finding(LintCode.ORDER_BY_TIME, [*first, *later])]
