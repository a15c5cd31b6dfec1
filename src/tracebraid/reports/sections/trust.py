"""How far the figures can be trusted: the gate, how much is linked, what was noticed in the files, what they lack."""

from __future__ import annotations

import polars as pl

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding
from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.analysis import Need
from tracebraid.model.report.parts import DataTable, Facts, Level, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.sentences import reason_sentence
from tracebraid.reports.answers.answers import no_rows_line
from tracebraid.reports.findings import alike, line_of_alike
from tracebraid.reports.sections.answer_tables import answer_table

__all__ = ["trust"]

_FINDINGS_SHOWN = 50
"""Sentences; a capture of many ranks may have thousands."""
_RANK = Column("rank", Kind.INT, "the rank")
_COVERAGE = Table(
    "coverage",
    "How much of each rank was linked.",
    (
        _RANK,
        Column("host_ops", Kind.INT, "host ops of the Kineto trace"),
        Column("host_ops_linked", Kind.INT, "those that have their node of the Execution Trace"),
        Column("linked_share", Kind.FLOAT, "their share; null: there is no Execution Trace"),
        Column("methods", Kind.TEXT, "how they were linked"),
        Column("et_nodes", Kind.INT, "nodes of the Execution Trace"),
        Column("et_nodes_linked", Kind.INT, "those that have their host op"),
        Column("device_events", Kind.INT, "work on the device"),
        Column("attributed_events", Kind.INT, "that which has the op that launched it"),
        Column("device_ns", Kind.INT, "duration of the work on the device"),
        Column("attributed_ns", Kind.INT, "duration of that which has its op"),
        Column("attributed_share", Kind.FLOAT, "share of the duration; null: nothing ran on a device"),
    ),
)
_ORPHANS = Table(
    "orphans",
    "What was not linked, and why.",
    (
        Column("what", Kind.TEXT, "what was not linked"),
        Column("count", Kind.INT, "how many, over all ranks"),
        Column("ranks", Kind.INTS, "on which ranks"),
        Column("because", Kind.TEXT, "why"),
    ),
)


def trust(results: RunResults) -> Section:
    """The section."""
    parts: list[Part] = [*_gate(results), *_coverage(results), *_findings(results), *_lacks(results)]
    return Section(
        "trust",
        "How far the figures can be trusted",
        parts,
        "What speaks against them, how much of the two traces was linked, and what a capture could add.",
    )


def _gate(results: RunResults) -> list[Part]:
    answer = results.answers["validity"]
    if answer.is_unanswerable and answer.frame.is_empty():
        return [Note("The traces have no event: there is nothing to judge.", Level.WARNING)]
    if answer.frame.is_empty():
        return [Note(no_rows_line(answer))]
    steps = answer.frame.get_column("step").n_unique()
    text = f"Something speaks against the figures of {steps:,} step{'' if steps == 1 else 's'}; means leave them out."
    return [Note(text, Level.WARNING), answer_table(results, "validity")]


def _coverage(results: RunResults) -> list[Part]:
    rows = []
    for rank, coverage in results.coverages.items():
        host, nodes, device = coverage.host_ops, coverage.et_nodes, coverage.gpu_events
        total_ns, attributed_ns = coverage.gpu_time_ns
        rows.append(
            {
                "rank": rank,
                "host_ops": host.total,
                "host_ops_linked": host.linked if coverage.has_et else None,
                "linked_share": host.share if coverage.has_et else None,
                "methods": ", ".join(host.by_method) if coverage.has_et else "no Execution Trace",
                "et_nodes": nodes.total if coverage.has_et else None,
                "et_nodes_linked": nodes.linked if coverage.has_et else None,
                "device_events": device.total,
                "attributed_events": device.linked,
                "device_ns": total_ns,
                "attributed_ns": attributed_ns,
                "attributed_share": attributed_ns / total_ns if total_ns else None,
            }
        )
    frame = pl.DataFrame(rows, schema=_COVERAGE.polars_schema())
    columns = [name for name in frame.columns if _says_something(frame.get_column(name))]
    table = DataTable("rows-coverage", "How much was linked", frame, _COVERAGE, tuple(columns))
    return [table, *_orphans(results)]


def _says_something(values: pl.Series) -> bool:
    known = values.drop_nulls()
    return not known.is_empty() and (values.name in ("rank", "methods") or bool((known != 0).any()))


def _orphans(results: RunResults) -> list[Part]:
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for rank, coverage in results.coverages.items():
        for orphans in coverage.orphans:
            key = orphans.kind.value.replace("-", " ").replace("_", " "), reason_sentence(orphans.reason)
            found.setdefault(key, []).append((rank, orphans.count))
    rows = [
        {
            "what": what,
            "count": sum(count for _, count in counts),
            "ranks": [rank for rank, _ in counts],
            "because": because,
        }
        for (what, because), counts in found.items()
    ]
    if not rows:
        return []
    frame = pl.DataFrame(rows, schema=_ORPHANS.polars_schema()).sort("count", descending=True)
    return [DataTable("rows-orphans", "What was not linked", frame, _ORPHANS)]


def _findings(results: RunResults) -> list[Part]:
    """A sentence for each; those that are good to know behind the others."""
    groups = sorted(alike(results.findings), key=lambda same: same[0].code in results.notes)
    parts: list[Part] = [
        Note(line_of_alike(same), _level(results, same[0]), same[0].code.value)
        for same in groups[:_FINDINGS_SHOWN]
    ]
    if len(groups) > _FINDINGS_SHOWN:
        parts.append(Note(f"{len(groups) - _FINDINGS_SHOWN:,} more findings: tracebraid check says all."))
    return parts


def _level(results: RunResults, finding: Finding) -> Level:
    return Level.NOTE if finding.code in results.notes else Level.WARNING


def _lacks(results: RunResults) -> list[Part]:
    """What the traces lack, how to capture it, and which analyses it would serve."""
    needed: dict[Need, list[str]] = {}
    better: dict[Need, list[str]] = {}
    for name, answer in results.answers.items():
        for need, ranks in answer.ranks_by_need.items():
            if len(ranks) == len(answer.lacks):
                (needed if need in answer.analysis.needs else better).setdefault(need, []).append(name)
    rows = []
    for need in Need:
        uses = [
            f"{words}: {', '.join(names)}"
            for words, names in (("Needed by", needed.get(need)), ("Better with it", better.get(need)))
            if names
        ]
        if uses:
            lacks, capture = NEED_SENTENCES[need]
            rows.append((need.value, f"{_sentence(lacks)}. {capture}. {'. '.join(uses)}."))
    if not rows:
        return []
    return [Note("What the traces lack, and how to capture it:"), Facts(rows)]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
