"""`AnsweredTrace`: a rank of a store that knows the answers to the usual questions, and is read for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import polars as pl

from tracebraid.model.column import Table
from tracebraid.model.finding import Finding
from tracebraid.model.gaps import Judge
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.stage import KeptValues, Stage
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.timeline import Timeline
from tracebraid.store.answers.joined import Touched
from tracebraid.store.answers.stored_answers import StoredAnswers, schemas
from tracebraid.store.findings import findings_of

T = TypeVar("T")

_KIND_OF = (Touched.ET, Touched.NOTHING, Touched.TREE, Touched.LINKS, Touched.DEPENDENCIES)
"""Stages to touch before each of `RankFacts.findings` is known; findings in a Kineto trace are always known."""


class _LazyTimeline(Timeline):
    """A `Timeline` with few known values; access to others reads it."""

    _read: Stage[LinkedTrace]

    @classmethod
    def of(cls, known: dict[str, object], read: Stage[LinkedTrace]) -> _LazyTimeline:
        """Make one."""
        timeline = cls.__new__(cls)
        vars(timeline).update(known, _read=read)
        return timeline

    def __getattr__(self, name: str) -> Any:
        # Is called for what is not there yet.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._read().timeline, name)


class AnsweredTrace(LinkedTrace):
    """A `LinkedTrace` of a store. Named questions are answered from the store; anything else reads the rank."""

    _rank: int
    _answers: StoredAnswers
    _read: Stage[LinkedTrace]
    _touched: list[Touched]

    @classmethod
    def of(cls, rank: int, answers: StoredAnswers, read: Callable[[], LinkedTrace]) -> AnsweredTrace:
        """Make one."""
        facts = answers.facts(rank)
        stage = Stage(read)
        known = {
            "rank": facts.rank,
            "path": facts.path,
            "size_bytes": facts.size_bytes,
            "span_ns": facts.span_ns,
            "findings": findings_of(facts.findings[1]),
        }
        trace = cls.__new__(cls)
        vars(trace).update(
            timeline=_LazyTimeline.of(known, stage),
            annotation=PROFILER_STEP,
            _derived=KeptValues(),
            _rank=rank,
            _answers=answers,
            _read=stage,
            _touched=[],
        )
        return trace

    def with_annotation(self, name: str) -> LinkedTrace:
        """See `LinkedTrace`: stored answers are those by the usual annotation."""
        return self if name == self.annotation else self._read().with_annotation(name)

    def judged_by(self, judge: Judge | None) -> LinkedTrace:
        """See `LinkedTrace`."""
        vars(self).update(judge=judge)
        return self

    def __getattr__(self, name: str) -> Any:
        # Is called for what is not there yet: how its stages are computed is known when it is read.
        if name != "stages":
            raise AttributeError(name)
        return self._read().stages

    def answered(self, key: str, question: Callable[[LinkedTrace], T], table: Table | None = None) -> T:
        """See `LinkedTrace`."""
        schema = schemas().get(key) if table is None else table.polars_schema()
        found = self._answers.answer(self._rank, key, schema)
        if found is None:
            return question(self)
        value, touched = found
        self._touched.append(touched)
        return value  # type: ignore[no-any-return]

    @property
    def is_read(self) -> bool:
        """See `LinkedTrace`."""
        return self._read.is_computed

    def compacted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """See `LinkedTrace`; the tables of answers are shared by all ranks."""
        return super().compacted(frame) if self.is_read else frame

    @property
    def has_et(self) -> bool:
        """See `LinkedTrace`."""
        return self._answers.facts(self._rank).has_et

    @property
    def known_findings(self) -> tuple[Finding, ...]:
        """See `LinkedTrace`: those too that were known when it answered."""
        touched = Touched.NOTHING
        for some in self._touched:
            touched |= some
        if self._read.is_computed:
            stages = self._read().stages
            touched |= Touched.ET if stages.et is not None and stages.et.is_computed else Touched.NOTHING
            for stage, kind in zip(stages.findings, _KIND_OF[2:], strict=True):
                touched |= kind if stage.of.is_computed else Touched.NOTHING
        known = zip(self._answers.facts(self._rank).findings, _KIND_OF, strict=True)
        found = (finding for some, kind in known if kind in touched for finding in findings_of(some))
        return (*found, *self.findings_of_gaps)
