"""Convert ET+, as Tracebraid, Chakra's linker and trace_link write it, to nodes for simulators."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from tracebraid.chakra.codes import Dialect, NodeType
from tracebraid.chakra.et_plus import EtPlus, read_et_plus
from tracebraid.chakra.exporting.reduction import reduced
from tracebraid.chakra.exporting.tasks import rounded_micros
from tracebraid.chakra.job_files import COMM_GROUPS, check_prefix
from tracebraid.chakra.plan.job_plan import comm_type_of, least_bytes, size_of_rule
from tracebraid.chakra.schema import CHAKRA_NODES, SCHEMA_VERSION, AttributeValue, ChakraRank, NodeDeps
from tracebraid.chakra.wire.reading import rank_in_name
from tracebraid.chakra.wire.writing import write
from tracebraid.errors import ArgumentError, InputError
from tracebraid.files import is_folder, refuse_inputs, whole_folder, write_whole
from tracebraid.model.category import Category, Work, categories_of
from tracebraid.model.choices import choice
from tracebraid.model.collectives import CollectiveType, Says, Subject, rule_of, type_of
from tracebraid.model.finding import Finding
from tracebraid.model.graph import ActivityKind
from tracebraid.model.quantities import NS_PER_US


class ConvertedCounts(Struct, frozen=True):
    """Counts of converted and skipped nodes.

    Args:
        rank: its number in the simulation.
        nodes: of the ET+ file.
        repeated: nodes whose id another has had before; left out.
        untimed: nodes without a time, as of the process, of threads, and those that were not linked; left out.
        host: nodes on the host that were converted.
        device: nodes on devices that were converted.
        communications: of both, those that became collectives, sends and receives.
        communications_as_compute: those of unknown type, size or peer, which stay compute of the measured time.
        waits_contradicted: dependencies on a node that begins later; left out.
        waits_unknown: dependencies on a node that has no time, or that is not there; left out.
    """

    rank: int
    nodes: int
    repeated: int
    untimed: int
    host: int
    device: int
    communications: int
    communications_as_compute: int
    waits_contradicted: int
    waits_unknown: int

    def attributes(self) -> tuple[tuple[str, AttributeValue], ...]:
        """For the metadata of the file."""
        return tuple((name, value) for name, value in asdict(self).items() if name != "rank")


class ConvertedChakra(Struct, frozen=True):
    """Summary of the written files.

    Args:
        paths: the `.et` files, by rank.
        comm_groups: the comm-group file; None: there are no groups but that of all ranks.
        counts: of each rank.
        findings: findings while the ET+ files were read.
    """

    paths: tuple[Path, ...]
    comm_groups: Path | None
    counts: tuple[ConvertedCounts, ...]
    findings: tuple[Finding, ...] = ()


_NUMBER = re.compile(r"(\d{1,9})(?=\D*$)")
_TRACE = re.compile(r".*\.json(\.gz|\.zst)?", re.I)


class _File(Struct, frozen=True):
    rank: int
    world_rank: int
    path: str


def convert(
    paths: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    dialect: Dialect | str = Dialect.CHAKRA,
    prefix: str = "job",
    overwrite: bool = False,
    progress: Callable[[float], None] | None = None,
) -> ConvertedChakra:
    """Convert ET+ JSON, of Tracebraid, of Chakra's chakra_trace_link or of trace_link, to `.et` files.

    Args:
        paths: the file of a rank, those of several, or a folder of them; ranks are numbered from 0 in the order of
            the last numbers in the files' names.
        out: of one rank, the new file, such as `job.0.et`; of several, the new folder.
        dialect: "astra-sim": replace collectives that ASTRA-sim does not support with others that move the same bytes.
        prefix: prefix of the file names in the folder.
        overwrite: whether an existing file of a single rank is replaced.
        progress: called with the finished share, 0 to 1.

    Raises:
        InputError: a file cannot be read, or is not ET+.
        ArgumentError: the dialect is unknown, two files have the same number, or the prefix is not a valid file name.
        OutputError: the file or folder exists, is the input, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        ``tracebraid.chakra.convert("et_plus_0.json", "job.0.et").counts``
    """
    known = choice(Dialect, dialect, "dialect")
    check_prefix(prefix)
    files, target = _files(paths), Path(out)
    is_file = len(files) == 1 and not (isinstance(paths, str | Path) and is_folder(paths))
    if is_file and not is_folder(target):
        return _single_file(files[0], target, known, overwrite)
    return _folder(_Steps(files, known, progress), target, prefix)


def _files(paths: str | Path | Sequence[str | Path]) -> list[_File]:
    named = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if len(named) == 1 and is_folder(named[0]):
        folder = Path(named[0])
        named = sorted(str(path) for path in folder.iterdir() if _TRACE.fullmatch(path.name))
    if not named:
        raise InputError(str(paths), "it has no ET+ files", "Name the files that `tracebraid link` wrote")
    matches = [_NUMBER.search(Path(name).name) for name in named]
    numbers = [int(match[1]) if match else number for number, match in enumerate(matches)]
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        both = [Path(name).name for name, number in zip(named, numbers, strict=True) if number == twice]
        raise ArgumentError(f"{both[0]} and {both[1]} are both of rank {twice}: name the files of one job")
    ordered = sorted(zip(numbers, named, strict=True))
    return [_File(rank, number, name) for rank, (number, name) in enumerate(ordered)]


def _single_file(file: _File, target: Path, dialect: Dialect, overwrite: bool) -> ConvertedChakra:
    refuse_inputs(target, [file.path])
    et_plus = read_et_plus(file.path)
    converted = of_known_size(convert_rank(et_plus, rank_in_name(target.name) or 0, dialect))
    write(target, with_group_number(converted.rank), overwrite=overwrite)
    return ConvertedChakra((target,), None, (converted.counts,), et_plus.findings)


class _Steps(Struct, frozen=True):
    """Convert ranks in two passes, with one rank in memory: first for their communication, then to write them."""

    files: Sequence[_File]
    dialect: Dialect
    progress: Callable[[float], None] | None

    def communication(self) -> Iterator[RankCommunication]:
        for number, file in enumerate(self.files):
            et_plus = read_et_plus(file.path)
            converted = convert_rank(et_plus, file.rank, self.dialect)
            yield communication_of(converted, file.world_rank, et_plus.groups)
            self._report(number + 1)

    def ranks(self) -> Iterator[ConvertedRank]:
        for number, file in enumerate(self.files):
            yield convert_rank(read_et_plus(file.path), file.rank, self.dialect)
            self._report(len(self.files) + number + 1)

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done / (2 * len(self.files)))


def _folder(steps: _Steps, target: Path, prefix: str) -> ConvertedChakra:
    job = job_of(list(steps.communication()))
    counts: list[ConvertedCounts] = []
    findings: list[Finding] = []
    names: list[str] = []
    with whole_folder(target) as folder:
        for converted in steps.ranks():
            written = in_job(converted, job)
            names.append(f"{prefix}.{written.rank.rank}.et")
            write(folder / names[-1], written.rank)
            counts.append(written.counts)
            findings += written.rank.findings
        if job.members:
            _write_json(folder / COMM_GROUPS, job.members)
    groups = target / COMM_GROUPS if job.members else None
    return ConvertedChakra(tuple(target / name for name in names), groups, tuple(counts), tuple(findings))


def _write_json(path: Path, members: object) -> None:
    chunks: Iterable[bytes] = [msgspec.json.format(msgspec.json.encode(members)), b"\n"]
    write_whole(path, chunks, overwrite=False)


_Ints = NDArray[np.int64]
_PARAM_COMMS = "record_param_comms"
_LEVELS_UP = 8
"""Search depth above a kernel for its collective's attributes, past an op of c10d and its autograd op."""
_BACKENDS = ("nccl:", "gloo:", "rccl:", "mpi:", "ucc:")
"""Prefixes of ranges in which a backend runs a collective."""
_PEER = re.compile(r"(?:send (\d{1,9})->(\d{1,9})|recv (\d{1,9})<-(\d{1,9}))")
"""Ends of a message in the name of a range: `nccl:send 0->1`, `nccl:recv 1<-0`."""
_SCHEMA = {
    "node_id": pl.Int64,
    "type": pl.String,
    "collective": pl.String,
    "pg_name": pl.String,
    "group_size": pl.Int64,
    "in_bytes": pl.Int64,
    "out_bytes": pl.Int64,
    "peer": pl.Int64,
}


def communication_nodes(nodes: pl.DataFrame, dialect: Dialect) -> pl.DataFrame:
    """One row per node that communicates: `node_id`, `node_type`, `comm_type`, `comm_size`, `peer`, `pg_name`.

    Where what is communicated is unknown, or of a message how much or with whom, `node_type` is null. A collective may
    be of unknown size: another member may say it.
    """
    rows = {row["node_id"]: row for row in nodes.iter_rows(named=True)}
    collectives = {
        row["parent_id"]: row
        for row in rows.values()
        if row["name"] == _PARAM_COMMS and row["collective_name"]
    }
    found = [_described(row, rows, collectives) for row in _communicating(rows)]
    kind, is_barrier = pl.col("type"), pl.col("type") == CollectiveType.BARRIER.value
    is_pair = kind.is_in([CollectiveType.SEND.value, CollectiveType.RECEIVE.value])
    size = pl.when(is_barrier).then(pl.lit(least_bytes(dialect), dtype=pl.Int64)).otherwise(size_of_rule())
    least = pl.when(size > 0).then(pl.max_horizontal(size, pl.lit(least_bytes(dialect))))
    described = pl.DataFrame(found, schema=_SCHEMA).with_columns(
        comm_type=kind.replace_strict(comm_type_of(dialect), default=None, return_dtype=pl.String),
        comm_size=least,
    )
    known = pl.col("comm_size").is_not_null()
    pairs = {
        CollectiveType.SEND.value: NodeType.COMM_SEND_NODE.name,
        CollectiveType.RECEIVE.value: NodeType.COMM_RECV_NODE.name,
    }
    return described.with_columns(
        node_type=pl.when(is_pair & known & pl.col("peer").is_not_null())
        .then(kind.replace_strict(pairs, default=None, return_dtype=pl.String))
        .when(pl.col("comm_type").is_not_null())
        .then(pl.lit(NodeType.COMM_COLL_NODE.name))
    )


def _communicating(rows: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Kernels of communication; ranges of a backend without kernels; where there is neither, the attributes' nodes."""
    timed = [row for row in rows.values() if row["ts_ns"] is not None]
    kernels = [
        row for row in timed if row["category"] == Category.KERNEL.value and _communicates(row["name"])
    ]
    on_host = [row for row in timed if row["category"] is None]
    ranges = [row for row in on_host if _is_range(row["name"])]
    if kernels:
        ranges = [row for row in ranges if row["name"].startswith("gloo:")]
    if kernels or ranges:
        return [*kernels, *ranges]
    return [row for row in on_host if row["collective_name"] and type_of(row["collective_name"])]


def _communicates(kernel: str) -> bool:
    rule = rule_of(kernel, Subject.KERNEL)
    return rule is not None and rule.says is Says.COMMUNICATES


def _is_range(name: str) -> bool:
    return name.lower().startswith(_BACKENDS) and type_of(name) is not None


def _described(
    row: dict[str, Any], rows: dict[int, dict[str, Any]], collectives: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """Classify a node's communication by the attributes above it, the range around it, or its own name."""
    above = [row, *_above(row, rows)]
    attributes = next((found for found in map(_collective_of(collectives), above) if found is not None), None)
    named = [part for part in above if _is_range(part["name"])] or [row]
    sources = [part for part in (attributes, *named, row) if part is not None]
    names = [attributes["collective_name"]] if attributes else []
    names += [part["name"] for part in named]
    kinds = [(type_of(name), name) for name in names if type_of(name) is not None]
    kind, name = kinds[0] if kinds else (type_of(row["name"]), row["name"])
    peer = next((ends for part in named for ends in _ends(part["name"])), None)
    return {
        "node_id": row["node_id"],
        "type": kind,
        "collective": name.partition("(")[0],
        "pg_name": _first([*sources, *above], "pg_name"),
        "group_size": _first(sources, "pg_size"),
        "in_bytes": _first(sources, "in_bytes"),
        "out_bytes": _first(sources, "out_bytes"),
        "peer": peer if peer is not None else _first(sources, "peer"),
    }


def _collective_of(collectives: dict[int, dict[str, Any]]) -> Any:
    def found(part: dict[str, Any]) -> dict[str, Any] | None:
        return part if part["collective_name"] else collectives.get(part["node_id"])

    return found


def _above(row: dict[str, Any], rows: dict[int, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for _ in range(_LEVELS_UP):
        parent = rows.get(row["parent_id"])
        if parent is None or parent["ts_ns"] is None:
            return
        yield parent
        row = parent


def _first(sources: list[dict[str, Any]], column: str) -> Any:
    return next((source[column] for source in sources if source[column] is not None), None)


def _ends(name: str) -> Iterator[int]:
    match = _PEER.search(name)
    if match is not None:
        yield int(match[2] or match[4])


class Order(Struct, frozen=True, eq=False):
    """Dependencies between nodes.

    Args:
        before: the row that is waited for, lower than `after`.
        after: the row that waits.
        lane: of each row: threads and streams, numbered.
        contradicted: waits for a node that begins later, which are left out: they would be circles.
        unknown: waits for a node that has no time, or that is not there.
    """

    before: _Ints
    after: _Ints
    lane: _Ints
    contradicted: int
    unknown: int


def order_of(nodes: pl.DataFrame, waits: Sequence[tuple[int, int]], communication: pl.DataFrame) -> Order:
    """The order of threads and streams, launches, calls of other threads, and what the file says beside it.

    Collectives of a process group follow each other, on whatever stream or thread they are.
    """
    numbered = nodes.with_columns(
        row=pl.int_range(pl.len(), dtype=pl.Int64),
        on_device=pl.col("category").is_not_null(),
        track=pl.when(pl.col("category").is_not_null()).then("stream").otherwise("tid"),
    )
    lane = numbered.select(pl.struct("on_device", "track").rank("dense")).to_series().cast(pl.Int64)
    numbered = numbered.with_columns(lane=lane)
    chained = numbered.select(before=pl.col("row").shift(1).over("lane"), after="row").drop_nulls()
    collectives = communication.filter(pl.col("comm_type").is_not_null()).select("node_id", "pg_name")
    grouped = numbered.drop("pg_name").join(collectives, on="node_id", how="inner", maintain_order="left")
    met = grouped.select(before=pl.col("row").shift(1).over("pg_name"), after="row").drop_nulls()
    of_id = numbered.select(pl.col("node_id").alias("other"), before="row", before_lane="lane")
    calls = numbered.join(of_id, left_on="parent_id", right_on="other", how="inner").filter(
        pl.col("lane") != pl.col("before_lane")
    )
    named = pl.DataFrame(list(waits), schema={"node_id": pl.Int64, "other": pl.Int64}, orient="row")
    known = named.join(numbered.select("node_id", after="row"), on="node_id", how="inner")
    known = known.join(of_id, on="other", how="inner")
    columns = (pl.col("before").cast(pl.Int64), pl.col("after").cast(pl.Int64))
    further = pl.concat([calls.select("before", after="row").select(columns), known.select(columns)])
    forward = further.filter(pl.col("before") < pl.col("after"))
    pairs = pl.concat([chained.select(columns), met.select(columns), forward])
    return Order(
        pairs.get_column("before").to_numpy(),
        pairs.get_column("after").to_numpy(),
        lane.to_numpy(),
        further.height - forward.height,
        named.height - known.height,
    )


class ConvertedRank(Struct, frozen=True, eq=False):
    """A rank as nodes, and what became of the nodes of its ET+.

    Args:
        rank: the nodes; `pg_name` is as the trace has it.
        counts: counts of converted and skipped nodes.
    """

    rank: ChakraRank
    counts: ConvertedCounts


def convert_rank(et_plus: EtPlus, rank: int, dialect: Dialect) -> ConvertedRank:
    """The nodes of a rank.

    Ops of the host take their own time, without what they enclose; they follow each other on their thread, as device
    work does on its stream. Device work waits for the op that launched it. Ids count from 0 in the order of starts.
    """
    text = et_plus.nodes.with_columns(pl.col("name", "category", "shapes", "collective_name").cast(pl.String))
    unique = text.unique("node_id", keep="first", maintain_order=True)
    timed = unique.filter(pl.col("ts_ns").is_not_null())
    is_host, duration = pl.col("category").is_null(), pl.col("dur_ns")
    nodes = timed.sort(pl.col("ts_ns"), ~is_host, -duration, pl.col("node_id"))
    communication = communication_nodes(unique, dialect)
    order = order_of(nodes, et_plus.waits, communication)
    made = _chakra_nodes(nodes, communication, unique, order)
    counts = ConvertedCounts(
        rank=rank,
        nodes=et_plus.nodes.height,
        repeated=text.height - unique.height,
        untimed=unique.height - timed.height,
        host=nodes.filter(is_host).height,
        device=nodes.filter(~is_host).height,
        communications=communication.get_column("node_type").count(),
        communications_as_compute=communication.get_column("node_type").null_count(),
        waits_contradicted=order.contradicted,
        waits_unknown=order.unknown,
    )
    kept = reduced(order.before, order.after, order.lane)
    node_id = made.get_column("node_id").to_numpy()
    deps = NodeDeps.of_pairs(kept.before, kept.after, node_id)
    attributes = (("schema", et_plus.schema), ("converted_from", "ET+"), *counts.attributes())
    return ConvertedRank(
        ChakraRank(
            rank, SCHEMA_VERSION, attributes, made, deps, NodeDeps.none(made.height), et_plus.findings
        ),
        counts,
    )


def _chakra_nodes(
    nodes: pl.DataFrame, communication: pl.DataFrame, all_nodes: pl.DataFrame, order: Order
) -> pl.DataFrame:
    is_host, kind = pl.col("category").is_null(), pl.col("node_type")
    names = all_nodes.select(pl.col("node_id").alias("parent_id"), parent_name="name")
    columns = ("node_type", "comm_type", "comm_size", "collective", "peer", "pg_name")
    joined = (
        nodes.drop("pg_name", "peer")
        .join(communication.select("node_id", *columns), on="node_id", how="left", maintain_order="left")
        .join(names, on="parent_id", how="left", maintain_order="left")
    )
    takes = pl.when(is_host).then("exclusive_ns").otherwise("dur_ns")
    # A range of a backend holds no work of the host: what lies within is the transfer.
    takes = pl.when(kind.is_not_null()).then("dur_ns").otherwise(takes).clip(lower_bound=0)
    duration_ns = joined.select(takes).to_series().to_numpy()
    start_ns = joined.get_column("ts_ns").to_numpy()
    made = joined.select(
        node_id=pl.int_range(pl.len(), dtype=pl.Int64),
        name="name",
        type=kind.fill_null(NodeType.COMP_NODE.name),
        start_time_micros=pl.Series((start_ns - start_ns.min(initial=start_ns[0])) // NS_PER_US),
        duration_micros=pl.Series(rounded_micros(duration_ns, order.lane)),
        is_cpu_op=is_host & kind.is_null(),
        comm_type=pl.when(kind == NodeType.COMM_COLL_NODE.name).then("comm_type"),
        comm_size=pl.when(kind.is_not_null()).then("comm_size"),
        comm_src=pl.when(kind == NodeType.COMM_RECV_NODE.name).then("peer"),
        comm_dst=pl.when(kind == NodeType.COMM_SEND_NODE.name).then("peer"),
        comm_tag=pl.when(kind.is_in([NodeType.COMM_RECV_NODE.name, NodeType.COMM_SEND_NODE.name])).then(0),
        pg_name=pl.when(kind.is_not_null()).then("pg_name"),
        duration_ns=pl.Series(np.asarray(duration_ns, dtype=np.int64)),
        kind=pl.when(kind.is_not_null())
        .then(pl.lit(ActivityKind.COMMUNICATION.value))
        .when(is_host)
        .then(pl.lit(ActivityKind.OP.value))
        .when(pl.col("category").is_in(categories_of(Work.COPY)))
        .then(pl.lit(ActivityKind.COPY.value))
        .otherwise(pl.lit(ActivityKind.KERNEL.value)),
        op=pl.when(is_host).then("name").otherwise("parent_name"),
        et_node_id=pl.when(is_host).then("node_id").otherwise("parent_id"),
        shapes="shapes",
        stream=pl.when(~is_host).then("stream"),
        thread=pl.when(is_host).then("tid"),
        collective="collective",
    )
    return CHAKRA_NODES.conform(made, fill_missing=True)


_COLLECTIVE = NodeType.COMM_COLL_NODE.name
_COMMUNICATION = (_COLLECTIVE, NodeType.COMM_SEND_NODE.name, NodeType.COMM_RECV_NODE.name)
_NUMBERS = 2**31
"""Simulators read names of groups as int32."""


class RankCommunication(Struct, frozen=True, eq=False):
    """Facts about a rank for the job.

    Args:
        rank: its dense number.
        world_rank: its number in the trace.
        collectives: `name` of the group, `position` in it, `comm_type` and `comm_size` of each collective.
        groups: ranks of each group, as the trace has them; none: all.
    """

    rank: int
    world_rank: int
    collectives: pl.DataFrame
    groups: Mapping[str, tuple[int, ...]]


class ConvertedJob(Struct, frozen=True, eq=False):
    """The groups of a job, and how large its collectives are.

    Args:
        numbers: of each rank the number of each group, as text; None: the group of all ranks, without a number.
        members: dense ranks of each number.
        sizes: the most bytes that a member has, by `number`, `position` and `comm_type`.
        dense: the dense number of each rank of the trace.
    """

    numbers: Mapping[int, Mapping[str, str | None]]
    members: Mapping[str, tuple[int, ...]]
    sizes: pl.DataFrame
    dense: Mapping[int, int]


def communication_of(
    converted: ConvertedRank, world_rank: int, groups: Mapping[str, tuple[int, ...]]
) -> RankCommunication:
    """Facts about a converted rank for the job."""
    rank = converted.rank
    return RankCommunication(rank.rank, world_rank, _collectives(rank), groups)


def _collectives(rank: ChakraRank) -> pl.DataFrame:
    return (
        rank.nodes.filter(pl.col("type").cast(pl.String) == _COLLECTIVE)
        .select(
            "node_id",
            "comm_size",
            name=pl.col("pg_name").fill_null(""),
            comm_type=pl.col("comm_type").cast(pl.String),
        )
        .with_columns(position=pl.int_range(pl.len()).over("name"))
    )


def job_of(ranks: Sequence[RankCommunication]) -> ConvertedJob:
    """The groups of all ranks, numbered by their members and names, and the sizes of their collectives."""
    dense = {own.world_rank: own.rank for own in ranks}
    everyone = tuple(sorted(dense.values()))
    keys: dict[int, dict[str, tuple[tuple[int, ...], str]]] = {}
    for own in ranks:
        names = own.collectives.get_column("name").unique(maintain_order=True).to_list()
        keys[own.rank] = {name: (_members(own, name, dense, everyone), name) for name in names}
    found = sorted({key for own in keys.values() for key in own.values()})
    if [members for members, _ in found] in ([], [everyone]):
        # A single group of all ranks needs no number.
        numbered: dict[tuple[tuple[int, ...], str], str | None] = dict.fromkeys(found)
    else:
        numbered = {key: str(number) for number, key in enumerate(found, start=1)}
    numbers = {rank: {name: numbered[key] for name, key in own.items()} for rank, own in keys.items()}
    members = {number: key[0] for key, number in numbered.items() if number is not None}
    return ConvertedJob(numbers, members, _sizes(ranks, numbers), dense)


def _members(
    own: RankCommunication, name: str, dense: Mapping[int, int], everyone: tuple[int, ...]
) -> tuple[int, ...]:
    named = own.groups.get(name, ())
    return tuple(sorted(dense[rank] for rank in named if rank in dense)) if named else everyone


def _sizes(
    ranks: Sequence[RankCommunication], numbers: Mapping[int, Mapping[str, str | None]]
) -> pl.DataFrame:
    parts = [_numbered(own.collectives, numbers[own.rank]) for own in ranks]
    keys = ("number", "position", "comm_type")
    return pl.concat(parts).group_by(keys).agg(most=pl.col("comm_size").max())


def _numbered(collectives: pl.DataFrame, numbers: Mapping[str, str | None]) -> pl.DataFrame:
    texts = {name: number or "" for name, number in numbers.items()}
    number = pl.col("name").replace_strict(texts, default=None, return_dtype=pl.String)
    return collectives.with_columns(number=number)


def in_job(converted: ConvertedRank, job: ConvertedJob) -> ConvertedRank:
    """A rank with the numbers of the job's groups and ranks; all members of a collective have the same size.

    A send or receive whose peer is not in the job becomes compute of the measured time.
    """
    rank = converted.rank
    own = _numbered(_collectives(rank), job.numbers[rank.rank])
    own = own.join(job.sizes, on=["number", "position", "comm_type"], how="left").select(
        "node_id", "most", number=pl.when(pl.col("number") != "").then("number")
    )
    peers = {
        column: pl.col(column).replace_strict(dict(job.dense), default=None, return_dtype=pl.Int64)
        for column in ("comm_src", "comm_dst")
    }
    pair = pl.col("type").cast(pl.String).is_in([NodeType.COMM_SEND_NODE.name, NodeType.COMM_RECV_NODE.name])
    nodes = rank.nodes.join(own, on="node_id", how="left", maintain_order="left").with_columns(**peers)
    absent = pair & pl.col("comm_src").is_null() & pl.col("comm_dst").is_null()
    made = nodes.with_columns(
        pg_name="number", comm_size=pl.when(~absent).then(pl.coalesce("most", "comm_size"))
    ).select(rank.nodes.columns)
    return of_known_size(replace(converted, rank=replace(rank, nodes=made)))


def of_known_size(converted: ConvertedRank) -> ConvertedRank:
    """Replace communication of unknown size by compute of the measured time."""
    nodes, counts = converted.rank.nodes, converted.counts
    kind = pl.col("type").cast(pl.String)
    unknown = kind.is_in(_COMMUNICATION) & pl.col("comm_size").is_null()
    lost = int(nodes.select(unknown.sum()).item())
    if not lost:
        return converted
    only_known = ("comm_type", "comm_src", "comm_dst", "comm_tag", "pg_name")
    made = nodes.with_columns(
        pl.when(unknown)
        .then(pl.lit(NodeType.COMP_NODE.name))
        .otherwise(kind)
        .cast(pl.Categorical)
        .alias("type"),
        *(pl.when(~unknown).then(name).alias(name) for name in only_known),
    )
    counts = replace(
        counts,
        communications=counts.communications - lost,
        communications_as_compute=counts.communications_as_compute + lost,
    )
    return ConvertedRank(replace(converted.rank, nodes=made), counts)


def with_group_number(rank: ChakraRank) -> ChakraRank:
    """Convert a single rank: group names that are not numbers become numbers, equal on every rank."""
    names = rank.nodes.get_column("pg_name").drop_nulls().unique(maintain_order=True).to_list()
    numbers = {
        name: name if _is_number(name) else str(1 + zlib.crc32(name.encode()) % (_NUMBERS - 1))
        for name in names
    }
    number = pl.col("pg_name").replace_strict(numbers, default=None, return_dtype=pl.String)
    return replace(rank, nodes=rank.nodes.with_columns(pg_name=number)) if names else rank


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 10 and int(name) < _NUMBERS
