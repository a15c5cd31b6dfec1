"""The tables over all ranks, as they are exported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.api.exports.ledger import within
from tracebraid.api.exports.options import ExportOptions
from tracebraid.exporters.tables.exported_table import ExportedTable, exported
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model import schema
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.printable import encodable
from tracebraid.model.schema import ledger

__all__ = ["FINDINGS_TABLE", "JOB_TABLES", "findings_frame", "job_frames"]

_RANKS = {
    "ranks": exported("ranks", schema.RANKS),
    "clocks": exported("ranks", schema.CLOCKS),
    "members": exported("ranks", schema.MEMBERS),
    "collectives": exported("ranks", schema.MATCHED_COLLECTIVES),
}
"""The tables of `LinkedRanks`, by the attributes that they are."""
_ANSWERS = {analysis.name: exported("answers", analysis.table) for analysis in JOB_ANALYSES}

JOB_TABLES = (*_RANKS.values(), *_ANSWERS.values())
"""All tables over all ranks, in order."""
FINDINGS_TABLE = exported("run", ledger.FINDINGS)


def job_frames(
    parts: Sequence[RankParts], options: ExportOptions
) -> Iterator[tuple[ExportedTable, pl.DataFrame]]:
    """Each table over all ranks with its rows.

    Args:
        parts: what was kept of each rank, with all that the analyses gather.
        options: what is exported.
    """
    linked = link_ranks(parts)
    for name, table in _RANKS.items():
        yield table, getattr(linked, name)
    for analysis in JOB_ANALYSES:
        given: dict[str, object] = {}
        if "annotation" in analysis.options:
            given["annotation"] = options.annotation
        if options.step is not None and "per_step" in analysis.options:
            given["per_step"] = True
        frame = analysis.answer(linked, **given)
        if options.step is not None and "step" in frame.columns:
            frame = frame.filter(pl.col("step").is_in(options.step_names))
        yield _ANSWERS[analysis.name], frame


def findings_frame(findings: Iterable[Finding], opened: str) -> pl.DataFrame:
    """`FINDINGS` of the job that was opened by a path."""
    rows = [
        {
            "code": finding.code.value,
            "message": encodable(finding.message),
            "file": within(opened, finding.path) if finding.path else None,
            "location": encodable(finding.where) or None,
            "count": finding.count,
            "lost_at_least": finding.loss.at_least if finding.loss else None,
            "lost_at_most": finding.loss.at_most if finding.loss else None,
        }
        for finding in findings
    ]
    return pl.DataFrame(rows, schema=ledger.FINDINGS.polars_schema())
