"""Report section: reliability of the figures, by the gate, link coverage, findings and missing data."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.model.analysis import Analysis, Answer, JobAnalysis, Need
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding, reason_sentence
from tracebraid.model.report import DataTable, Level, Missing, Note, Part, RunResults, Section
from tracebraid.reports.answers import no_rows_sentence, null_text, shown_names
from tracebraid.reports.findings import alike, line_of_alike


def answer_parts(results: RunResults, names: Sequence[str]) -> list[Part]:
    """Build tables of some analyses; for unanswered ones, note what to capture, once for each need."""
    parts: list[Part] = []
    empty: list[Missing] = []
    lacking: dict[Need, list[Answer]] = {}
    for name in names:
        answer = results.answers.get(name)
        if answer is None or not answer.lacks:
            continue
        if not answer.frame.is_empty() and not _lacks_ranks(answer):
            parts.append(answer_table(results, name))
        elif answer.is_unanswerable:
            lacking.setdefault(_first_lacking(answer), []).append(answer)
        else:
            empty.append(Missing(_name(answer), no_rows_sentence(answer), "", "no-rows"))
    parts += empty
    parts += [Missing.of(", ".join(map(_name, answers)), need) for need, answers in lacking.items()]
    return parts


def _lacks_ranks(answer: Answer) -> bool:
    """Return whether its rows compare ranks but there is only one."""
    return Need.SEVERAL_RANKS in answer.analysis.needs and Need.SEVERAL_RANKS in answer.ranks_by_need


def answer_table(results: RunResults, name: str) -> DataTable:
    """Build a table from an answer, with informative columns."""
    answer = results.answers[name]
    analysis = answer.analysis
    of_job = isinstance(analysis, JobAnalysis)
    columns = [name for name in shown_names(answer) if not _is_never(answer.frame.get_column(name))]
    words = {column: null_text(analysis, column) for column in columns}
    texts = [
        pl.col(column).fill_null(word)
        for column, word in words.items()
        if word != "-" and answer.frame.schema[column] == pl.String
    ]
    return DataTable(
        id=f"rows-{name.replace('_', '-')}",
        title=analysis.question,
        frame=_most_first(answer).with_columns(texts),
        schema=analysis.table,
        columns=tuple(columns),
        formula=formula_line(analysis),
        left_out=results.left_out.get(name, 0),
        start_ns=results.start_ns,
        starts={} if of_job else results.starts,
    )


def _is_never(values: pl.Series) -> bool:
    """Whether a mark, such as that of warmup steps, is on no row."""
    return values.dtype == pl.Boolean and not values.any()


def formula_line(analysis: Analysis) -> str:
    """Return the formula of an analysis with the command that prints all rows; empty if none is declared."""
    return f"{analysis.formula} (tracebraid analyze {analysis.name})" if analysis.formula else ""


def _most_first(answer: Answer) -> pl.DataFrame:
    """Sort the rows of an answer in time order by size instead; trees stay as they are."""
    frame, picked_by = answer.frame, answer.analysis.picked_by
    if not picked_by or "depth" in frame.columns:
        return frame
    sums = [pl.sum_horizontal(columns.split()) for columns in picked_by]
    return frame.sort(sums, descending=True, maintain_order=True)


def _first_lacking(answer: Answer) -> Need:
    """Return the first unmet need of an answer, preferring one that no rank meets."""
    needs = [need for need in (Need.LOST, *answer.analysis.needs) if need in answer.ranks_by_need]
    return max(needs, key=lambda need: len(answer.ranks_by_need[need]))


def _name(answer: Answer) -> str:
    return answer.analysis.name.replace("_", " ")


_FINDINGS_SHOWN = 50
"""Maximum number of findings; a capture of many ranks may have thousands."""
_FOLLOWS = {Need.DEVICE_WORK: Need.SYNC_EVENTS, Need.COMMUNICATION: Need.COLLECTIVES}
"""Needs that are implied by another need: without that, they cannot be met."""
_RANK = Column("rank", Kind.INT, "the rank")
_COVERAGE = Table(
    "coverage",
    "Link coverage of each rank.",
    (
        _RANK,
        Column("host_ops", Kind.INT, "host ops of the Kineto trace"),
        Column("host_ops_linked", Kind.INT, "those with a node of the Execution Trace"),
        Column("linked_share", Kind.FLOAT, "their share; null without Execution Trace"),
        Column("methods", Kind.TEXT, "methods of their links"),
        Column("et_nodes", Kind.INT, "nodes of the Execution Trace"),
        Column("et_nodes_linked", Kind.INT, "those with a host op"),
        Column("device_events", Kind.INT, "work on the device"),
        Column("attributed_events", Kind.INT, "device work with a known launching op"),
        Column("device_ns", Kind.INT, "duration of the work on the device"),
        Column("attributed_ns", Kind.INT, "duration of work with a known op"),
        Column("attributed_share", Kind.FLOAT, "share of the duration; null without device work"),
    ),
)
_ORPHANS = Table(
    "orphans",
    "Unlinked rows by reason.",
    (
        Column("what", Kind.TEXT, "kind of orphans"),
        Column("count", Kind.INT, "count over all ranks"),
        Column("ranks", Kind.INTS, "on which ranks"),
        Column("because", Kind.TEXT, "why"),
    ),
)


def trust(results: RunResults) -> Section:
    """The section."""
    parts: list[Part] = [*_gate(results), *_coverage(results), *_findings(results), *_lacks(results)]
    return Section(
        "trust",
        "Reliability of the figures",
        parts,
        "Doubts about the figures, and link coverage of the two traces.",
    )


def _gate(results: RunResults) -> list[Part]:
    answer = results.answers["validity"]
    if answer.is_unanswerable and answer.frame.is_empty():
        return [Note("The traces have no events.", Level.WARNING)]
    if answer.frame.is_empty():
        return [Note("No step is doubtful.")]
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
    columns = [name for name in frame.columns if _is_informative(frame.get_column(name))]
    table = DataTable("rows-coverage", "Link coverage", frame, _COVERAGE, tuple(columns))
    return [table, *_orphans(results)]


def _is_informative(values: pl.Series) -> bool:
    if values.name == "rank":
        return len(values) > 1
    known = values.drop_nulls()
    return not known.is_empty() and (values.name == "methods" or bool((known != 0).any()))


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
    return [DataTable("rows-orphans", "Orphans", frame, _ORPHANS)]


def _findings(results: RunResults) -> list[Part]:
    """List the findings; notes after warnings."""
    groups = sorted(alike(results.findings), key=lambda same: same[0].code in results.notes)
    parts: list[Part] = [
        Note(line_of_alike(same), _level(results, same[0]), same[0].code.value)
        for same in groups[:_FINDINGS_SHOWN]
    ]
    if len(groups) > _FINDINGS_SHOWN:
        parts.append(Note(f"{len(groups) - _FINDINGS_SHOWN:,} more findings: see tracebraid check."))
    return parts


def _level(results: RunResults, finding: Finding) -> Level:
    return Level.NOTE if finding.code in results.notes else Level.WARNING


def _lacks(results: RunResults) -> list[Part]:
    """List the data that another capture could add, and the analyses that need it."""
    needed: set[Need] = set()
    better: dict[Need, list[str]] = {}
    for name, answer in results.answers.items():
        for need, ranks in answer.ranks_by_need.items():
            if len(ranks) == len(answer.lacks):
                if need in answer.analysis.needs:
                    needed.add(need)
                else:
                    better.setdefault(need, []).append(name.replace("_", " "))
    for need, follows in _FOLLOWS.items():
        if need in needed:
            needed.add(follows)
    return [
        Missing.of(f"parts of {', '.join(names)}", need)
        for need, names in better.items()
        if need not in needed
    ]
