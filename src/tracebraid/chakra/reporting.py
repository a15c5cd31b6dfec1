"""Checks, conversions and runs of `.et` files as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl
from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from tracebraid.chakra.checking.lint import ChakraCheck, LintFinding
from tracebraid.chakra.conversion import ConvertedChakra, ConvertedCounts
from tracebraid.chakra.running.network import Network
from tracebraid.chakra.running.results import ChakraRun, ChakraRunNote, Waiting
from tracebraid.model.finding_code import Severity
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, numbers_text, percent, size
from tracebraid.reports.fitted_table import Head, fitted_table, table_of
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.names import cell, distinct_names


def lint_lines(check: ChakraCheck) -> list[str]:
    """Format each finding and its advice in two lines; what is true of several ranks is one finding."""
    lines = []
    for alike in _alike(check.findings):
        first = alike[0]
        ranks = [finding.nodes[0].rank for finding in alike[1:] if finding.nodes]
        others = "" if len(alike) == 1 else f"{len(alike) - 1:,} more file{'' if len(alike) == 2 else 's'}"
        if len(ranks) == len(alike) - 1 and ranks:
            others = f"likewise {_ranks_text(ranks)}"
        if any(finding.details != first.details for finding in alike):
            others += " (with other numbers; --json has each)"
        line = first.line(others, sum(finding.count for finding in alike))
        lines.append(f"{first.severity.value}: {first.code}: {printable(line)}\n  {printable(first.advice)}")
    return lines


def _alike(findings: Sequence[LintFinding]) -> list[list[LintFinding]]:
    """Findings of several files that differ in numbers alone, together; those of one file stay apart."""
    together: dict[object, list[LintFinding]] = {}
    times: Counter[object] = Counter()
    for finding in findings:
        words = tuple(value for value in finding.details.values() if isinstance(value, str))
        in_file = (finding.code, words, finding.path)
        together.setdefault((finding.code, words, times[in_file]), []).append(finding)
        times[in_file] += 1
    return list(together.values())


def chakra_verdict(check: ChakraCheck) -> str:
    """Summarise the check in one line."""
    nodes = sum(rank.nodes for rank in check.ranks)
    what = "no known fault stops a simulator" if check.runs else "a simulator cannot run it"
    firsts = [alike[0] for alike in _alike(check.findings)]
    counts = {severity: sum(finding.severity is severity for finding in firsts) for severity in Severity}
    counted = "".join(
        f"; {count} {severity.value}{'' if count == 1 else 's'}"
        for severity, count in counts.items()
        if count
    )
    ranks = "1 rank" if len(check.ranks) == 1 else f"{len(check.ranks):,} ranks"
    return f"{printable(check.path)}: {ranks}, {nodes:,} nodes: {what}{counted}"


def chakra_check_data(check: ChakraCheck) -> dict[str, Any]:
    """Return the result as plain data."""
    return {
        "path": check.path,
        "runs": check.runs,
        "ranks": [
            {
                "rank": rank.rank,
                "path": rank.path,
                "nodes": rank.nodes,
                "dependencies": rank.dependencies,
                "collectives": rank.collectives,
                "sends": rank.sends,
                "receives": rank.receives,
            }
            for rank in check.ranks
        ],
        "findings": [_finding_data(finding) for finding in check.findings],
    }


def _finding_data(finding: LintFinding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "code": finding.code.value,
        "path": finding.path,
        "nodes": [{"rank": node.rank, "node_id": node.node_id} for node in finding.nodes],
        "count": finding.count,
        "message": finding.message,
        "advice": finding.advice,
        "details": dict(finding.details),
    }


_LEFT = {
    "repeated": "with a duplicate id",
    "untimed": "without a time",
    "communications_as_compute": "that communicate, of unknown type, size or peer, as compute",
    "waits_contradicted": "dropped dependencies on a later node",
    "waits_unknown": "dropped dependencies on a node without a time",
}


def converted_lines(converted: ConvertedChakra) -> list[Text]:
    """List the content of each file, and what was skipped."""
    lines = [
        f"{path}: {counts.host + counts.device:,} nodes, {counts.communications:,} of them communication{_left(counts)}"
        for path, counts in zip(converted.paths, converted.counts, strict=True)
    ]
    if converted.comm_groups is not None:
        lines.append(f"{converted.comm_groups}: ranks of the process groups")
    return [Text(printable(line)) for line in lines]


def converted_data(converted: ConvertedChakra) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "files": [
            {"path": str(path), **asdict(counts)}
            for path, counts in zip(converted.paths, converted.counts, strict=True)
        ],
        "comm_groups": None if converted.comm_groups is None else str(converted.comm_groups),
        "findings": [finding_data(finding) for finding in converted.findings],
    }


def _left(counts: ConvertedCounts) -> str:
    values = asdict(counts)
    parts = [f"{values[name]:,} {words}" for name, words in _LEFT.items() if values[name]]
    return f"; {', '.join(parts)}" if parts else ""


_SENTENCES = {
    ChakraRunNote.MICROSECONDS: (
        "Work takes whole microseconds, as simulators read them; --lanes streams takes nanoseconds."
    ),
    ChakraRunNote.SHARED_LANE: (
        "Work of several streams shares one lane of compute, as in ASTRA-sim: concurrent work runs serially, "
        "and times are too long. --lanes streams, or an export with --detail merged, mends that."
    ),
    ChakraRunNote.BROADCAST_REPLAYED: (
        "Broadcasts take the time in the files, without waiting, as in ASTRA-sim."
    ),
    ChakraRunNote.LIKE_OTHERS: (
        "Some collectives are of kinds that ASTRA-sim does not simulate: they take what a kind takes that moves as "
        "much or more (docs/chakra/run.md)."
    ),
    ChakraRunNote.NO_TIME: "Some communication has no measured time, and takes none.",
    ChakraRunNote.SINGLE_RANK: "There is one rank: its collectives have no partners. Run all ranks of the job.",
    ChakraRunNote.NO_COLLECTIVES: "There is no communication: networks have no effect.",
    ChakraRunNote.UNNUMBERED_GROUP: (
        "Some collectives are of all ranks without a group's number, and others of groups with one: ASTRA-sim waits "
        "for ever where ranks have issued different numbers of collectives before. Give all ranks a group of their own."
    ),
    ChakraRunNote.MEMORY: "Loads and stores take the time in the files.",
    ChakraRunNote.ROOFLINE: (
        "Work with num_ops and tensor_size takes what the roofline of the system file says, whatever its duration."
    ),
    ChakraRunNote.NO_WORK: (
        "Some work has no num_ops or tensor_size, and takes the time in the files; ASTRA-sim stops at it."
    ),
    ChakraRunNote.NO_RENDEZVOUS: "No send is of that size: --rendezvous has no effect.",
}
_WHY = {
    Waiting.MEMBER_MISSING.value: "waits for {others}, which",
    Waiting.MEMBERS_DISAGREE.value: "met another collective of {others}, which",
    Waiting.SEND_MISSING.value: "waits for a send of {others}, which",
    Waiting.RECEIVE_MISSING.value: "waits for a receive of {others}, which",
}
_ADVICE = (
    "Each rank has to issue the collectives of a group in the same order, with the same kind and size, and each "
    "receive needs a send with the same ranks, tag and size. `tracebraid chakra check` finds where ranks differ."
)
_ADVICE_OF_SENDS = (
    "Sends of this size wait for their receive: of two ranks that send to each other, one must receive first. "
    "`tracebraid chakra check` names the size."
)


def chakra_run_data(found: ChakraRun) -> dict[str, Any]:
    """Return the answer for JSON."""
    settings = asdict(found.settings)
    settings["algorithms"] = {
        kind.name: [algorithm.value for algorithm in named]
        for kind, named in found.settings.algorithms.items()
    }
    return {
        "is_finished": found.is_finished,
        "lanes": found.lanes.value,
        "rendezvous_bytes": found.rendezvous_bytes,
        "networks": [_network_data(network) for network in found.networks],
        "settings": settings,
        "runs": rows_data(found.runs),
        "ranks": rows_data(found.ranks),
        "steps": rows_data(found.steps),
        "collectives": rows_data(found.collectives),
        "chain": rows_data(found.chain),
        "waits": rows_data(found.waits),
        "notes": [note.value for note in found.notes],
        "findings": [finding_data(finding) for finding in found.findings],
    }


def _network_data(network: Network) -> dict[str, Any]:
    dimensions = [{**asdict(part), "topology": part.topology.value} for part in network.dimensions]
    return {"name": network.name, "dimensions": dimensions}


def chakra_run_parts(found: ChakraRun, top: int, width: int) -> list[Text | Table]:
    """Format an answer: the first network in full, each other network in one row."""
    first = found.networks[0].name
    title = f" on {printable(first)}" if found.runs.height > 1 else ""
    own = pl.col("network") == first
    steps = found.steps.filter(own, pl.col("rank").is_null())
    return [
        *(Text(_head(found)), Text(""), _runs(found)),
        _ranks(found.ranks.filter(own), top, title, width),
        *([_steps(steps, top, title)] if steps.height else []),
        _collectives(found.collectives.filter(own), top, title),
        _chain(found.chain.filter(own), top, title),
        *(Text(_SENTENCES[note]) for note in found.notes),
    ]


def chakra_waits_text(found: ChakraRun, top: int) -> str:
    """Explain a deadlock: all waiting ranks, what the first of them wait for, and what to do."""
    lines = []
    same = [name for name in found.waits.columns if name != "other_rank"]
    waits = found.waits.group_by(same, maintain_order=True).agg("other_rank")
    for row in waits.head(top).iter_rows(named=True):
        name, others = printable(row["name"]), row["other_rank"]
        if row["other_node_id"] is None:
            other = "has ended" if len(others) == 1 else "have ended"
        else:
            at = f"at node {row['other_node_id']} ({printable(row['other_name'])}): {row['other_what']}"
            other = f"{'is' if len(others) == 1 else 'are'} {at}"
        why = _WHY[row["why"]].format(others=_ranks_text(others))
        where = f"{printable(row['network'])}: " if found.runs.height > 1 else ""
        lines.append(
            f"  {where}rank {row['rank']}, node {row['node_id']} ({name}): {row['what']}: {why} {other}"
        )
    more = waits.height - len(lines)
    if more > 0:
        lines.append(f"  and {more:,} more; --json has all")
    nodes = found.waits.select("network", "rank", "node_id").n_unique()
    waiting = _ranks_text(found.waits["rank"].to_list())
    head = f"ranks deadlock at {nodes:,} node{'' if nodes == 1 else 's'} of {waiting}:"
    of_sends = Waiting.RECEIVE_MISSING.value in found.waits["why"].cast(pl.String)
    return "\n".join([head, *lines, f"  {_ADVICE_OF_SENDS if of_sends else _ADVICE}"])


def _ranks_text(numbers: Sequence[int]) -> str:
    return f"rank{'' if len(set(numbers)) == 1 else 's'} {numbers_text(numbers)}"


def _head(found: ChakraRun) -> str:
    ranks = found.ranks.get_column("rank").n_unique()
    what = "ends after" if found.runs["is_finished"][0] else "stops after"
    counted = "1 rank" if ranks == 1 else f"{ranks:,} ranks"
    ran = f"{counted}, {found.runs['nodes'][0]:,} nodes, lanes of {found.lanes.value}"
    if found.rendezvous_bytes is not None:
        ran += f", sends of {found.rendezvous_bytes:,} bytes or more wait for their receive"
    return f"{ran}: {what} {duration(found.end_ns)}."


def _runs(found: ChakraRun) -> Table:
    heads = [
        ("network", "left"),
        ("end", "right"),
        ("compute", "right"),
        ("exposed communication", "right"),
        ("faster", "right"),
    ]
    table = table_of("Networks", heads)
    for row in found.runs.iter_rows(named=True):
        end = duration(row["end_ns"]) if row["is_finished"] else "never"
        times = [duration(row[name]) for name in ("compute_ns", "exposed_communication_ns")]
        faster = "" if row["speedup"] is None else f"{row['speedup']:.3f} x"
        table.add_row(cell(printable(row["network"])), end, *times, faster)
    return table


def _ranks(rows: pl.DataFrame, top: int, title: str, width: int) -> Table:
    names = (
        "end_ns",
        "compute_ns",
        "host_ns",
        "communication_ns",
        "exposed_communication_ns",
        "waiting_ns",
        "idle_ns",
    )
    heads = [Head("rank", "left"), *(Head(_heading(name)) for name in names)]
    shown = [
        [str(row["rank"]), *(duration(row[name]) for name in names)]
        for row in rows.head(top).iter_rows(named=True)
    ]
    return fitted_table(f"By rank{title}", heads, shown, width, 1)


def _steps(rows: pl.DataFrame, top: int, title: str) -> Table:
    names = ("start_ns", "end_ns", "duration_ns")
    heads = [("step", "left"), *((_heading(name), "right") for name in names)]
    table = table_of(f"By step{title}", heads)
    for row in rows.head(top).iter_rows(named=True):
        table.add_row(cell(printable(row["step"])), *(duration(row[name]) for name in names))
    return table


def _collectives(rows: pl.DataFrame, top: int, title: str) -> Table:
    heads = [
        ("kind", "left"),
        *((name, "right") for name in ("count", "nodes", "size", "waiting", "transfer")),
    ]
    table = table_of(f"Communication{title}", heads)
    for row in rows.head(top).iter_rows(named=True):
        counts = (f"{row['count']:,}", f"{row['nodes']:,}", size(row["size_bytes"]))
        table.add_row(row["kind"], *counts, duration(row["waiting_ns"]), duration(row["transfer_ns"]))
    return table


def _chain(rows: pl.DataFrame, top: int, title: str) -> Table:
    heads = [
        ("part", "left"),
        ("name", "left"),
        ("nodes", "right"),
        ("time", "right"),
        ("share", "right"),
        ("ranks", "left"),
    ]
    table = table_of(f"What the end waited for{title}", heads)
    shown = rows.head(top)
    names = distinct_names([printable(name) for name in shown.get_column("name")], _NAME_WIDTH)
    for row, name in zip(shown.iter_rows(named=True), names, strict=True):
        ranks = ", ".join(map(str, row["ranks"][:_RANKS_SHOWN])) + (
            ", ..." if len(row["ranks"]) > _RANKS_SHOWN else ""
        )
        times = (f"{row['nodes']:,}", duration(row["duration_ns"]), percent(row["share"]))
        table.add_row(row["part"], cell(name), *times, ranks)
    return table


_NAME_WIDTH = 60
"""Maximum characters of a name in the chain."""
_RANKS_SHOWN = 4
"""Maximum ranks in a row of the chain."""


def _heading(name: str) -> str:
    return name.removesuffix("_ns").replace("_", " ")
