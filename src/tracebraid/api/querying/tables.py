"""What a query may name: the tables of a rank and of a job, and how each is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import polars as pl

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.event_context import device_context, host_context
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.api.exports.ledger import coverage_frame, headers_frame, orphans_frame
from tracebraid.model import schema
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Analysis
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.schema import ledger
from tracebraid.model.schema.context import DEVICE_CONTEXT, HOST_CONTEXT
from tracebraid.queries.catalog import Catalog, SourceTable, SqlSchema
from tracebraid.queries.macros import MACROS
from tracebraid.queries.views import VIEWS

__all__ = ["CATALOG", "LINKED_RANKS_TABLES", "OF_JOB", "OF_RANK", "FrameOfRank"]

FrameOfRank: TypeAlias = Callable[[LinkedTrace], pl.DataFrame | None]
"""Makes a table of a rank; None: the rank has nothing that it is made of."""


def _timeline_table(name: str, linked: LinkedTrace) -> pl.DataFrame:
    frame: pl.DataFrame = linked.timeline.tables[name]
    return frame


def _groups(linked: LinkedTrace) -> pl.DataFrame:
    return linked.timeline.process_groups


def _et_table(name: str, linked: LinkedTrace) -> pl.DataFrame | None:
    return None if linked.et is None else getattr(linked.et, name)


def _linked_table(name: str, linked: LinkedTrace) -> pl.DataFrame:
    frame: pl.DataFrame = getattr(linked, name)
    return frame


def _by_step(analysis: Analysis, linked: LinkedTrace) -> pl.DataFrame:
    return analysis.answer(linked, per_step=True)


_OF_ET = (
    schema.ET_NODES,
    schema.ET_VALUES,
    schema.ET_TENSORS,
    schema.ET_TENSOR_USES,
    schema.ET_TENSOR_EDGES,
    schema.ET_COLLECTIVES,
    schema.ET_EXTRA_ATTRS,
    schema.PROCESS_GROUPS,
)
_OF_LINKS = (
    schema.HOST_TREE,
    schema.HOST_LINKS,
    schema.NODE_LINKS,
    schema.LAUNCHES,
    schema.DEVICE_LINKS,
    schema.FORWARD_BACKWARD,
    schema.DEPENDENCIES,
)

OF_RANK: dict[SourceTable, FrameOfRank] = {
    **{SourceTable(SqlSchema.TIMELINE, t): partial(_timeline_table, t.name) for t in schema.KINETO_TABLES},
    SourceTable(SqlSchema.TIMELINE, schema.PROCESS_GROUPS): _groups,
    **{SourceTable(SqlSchema.ET, t): partial(_et_table, t.name) for t in _OF_ET},
    **{SourceTable(SqlSchema.LINKS, t): partial(_linked_table, t.name) for t in _OF_LINKS},
    SourceTable(SqlSchema.LINKS, ledger.COVERAGE): coverage_frame,
    SourceTable(SqlSchema.LINKS, ledger.ORPHANS): orphans_frame,
    SourceTable(SqlSchema.TIMELINE, ledger.HEADERS): headers_frame,
    SourceTable(SqlSchema.CONTEXT, HOST_CONTEXT): host_context,
    SourceTable(SqlSchema.CONTEXT, DEVICE_CONTEXT): device_context,
    **{SourceTable(SqlSchema.ANSWERS, analysis.table): analysis.answer for analysis in ANALYSES},
    **{
        SourceTable(SqlSchema.PER_STEP, analysis.table): partial(_by_step, analysis)
        for analysis in ANALYSES
        if "per_step" in analysis.options
    },
}
"""How each table of a rank is made."""

LINKED_RANKS_TABLES: dict[SourceTable, Callable[[LinkedRanks], pl.DataFrame]] = {
    SourceTable(SqlSchema.RANKS, schema.RANKS, of_rank=False): lambda linked: linked.ranks,
    SourceTable(SqlSchema.RANKS, schema.CLOCKS, of_rank=False): lambda linked: linked.clocks,
    SourceTable(SqlSchema.RANKS, schema.MEMBERS, of_rank=False): lambda linked: linked.members,
    SourceTable(SqlSchema.RANKS, schema.MATCHED_COLLECTIVES, of_rank=False): lambda linked: (
        linked.collectives
    ),
}
"""How each table of the linked ranks is made."""

OF_JOB: dict[SourceTable, JobAnalysis] = {
    SourceTable(SqlSchema.ANSWERS, analysis.table, of_rank=False): analysis for analysis in JOB_ANALYSES
}
"""The analysis that answers with each table over all ranks."""

CATALOG = Catalog((*OF_RANK, *LINKED_RANKS_TABLES, *OF_JOB), VIEWS, MACROS)
"""All that a query may name."""
