"""What an analysis is: its question, the function and the table that answer it, and what a trace must hold for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tracebraid.model import notebook
from tracebraid.model.column import Table
from tracebraid.model.questions.asked import options_of, question_of

if TYPE_CHECKING:
    import polars as pl

    from tracebraid.model.linked_trace import LinkedTrace
    from tracebraid.model.questions.job_analysis import JobAnalysis

__all__ = ["Analysis", "Answer", "Family", "Need"]


class Family(Enum):
    """What an analysis is about."""

    VALIDITY = "validity"
    TIME = "time"
    KERNELS = "kernels"
    OPS = "ops"
    LAUNCHES = "launches"
    EFFICIENCY = "efficiency"
    MEMORY = "memory"
    INFERENCE = "inference"
    COLLECTIVES = "collectives"
    """Over all ranks."""
    RANKS = "ranks"
    """Of a job, against each other."""


class Need(Enum):
    """What a trace may lack, and an analysis needs; `model.need_sentences.NEED_SENTENCES` says how to capture it."""

    EVENTS = "events"
    """Anything at all."""
    HOST_OPS = "host ops"
    DEVICE_WORK = "device work"
    STEPS = "steps"
    SHAPES = "shapes"
    SHAPES_OF_EITHER = "shapes in either trace"
    """Of ops, in the Kineto trace or the Execution Trace."""
    STACKS = "stacks"
    MODULES = "modules"
    ANNOTATIONS = "annotations"
    ALLOCATIONS = "allocations, or an execution trace"
    MEMORY = "allocations"
    SYNC_EVENTS = "sync events"
    COMMUNICATION = "communication"
    """Anything that communicates, on a device or the host."""
    COLLECTIVES = "collectives"
    """Arguments of collectives."""
    COUNTERS = "counters"
    GRAPH_LAUNCHES = "graph launches"
    EXECUTION_TRACE = "execution trace"
    DEVICE_PEAKS = "device peaks"
    INFERENCE_ITERATIONS = "inference iterations"
    """Annotations of a serving engine or by hand (`prefill`, `decode`), or shapes of attention outside of training."""
    SEVERAL_RANKS = "several ranks"
    """Traces of more than one rank of a job."""


@dataclass(frozen=True)
class Analysis:
    """An analysis of one rank.

    Args:
        name: its name in Python, that of its function.
        family: what it is about.
        answer: the function; takes a linked trace and options by keyword.
        table: the schema of the DataFrame that it returns.
        needs: without any of these the answer is empty.
        uses: without any of these the answer lacks something.
    """

    name: str
    family: Family
    answer: Callable[..., pl.DataFrame]
    table: Table
    needs: tuple[Need, ...] = ()
    uses: tuple[Need, ...] = ()

    def answer_of(self, linked: LinkedTrace, **options: object) -> pl.DataFrame:
        """Its answer of a rank; with the defaults of all options a rank of a store may have it already.

        Args:
            linked: the rank.
            options: those of the analysis.
        """
        defaults = inspect.signature(self.answer).parameters
        if any(value != defaults[name].default for name, value in options.items()):
            return self.answer(linked, **options)
        return linked.answered(self.key, self.answer, self.table)

    @property
    def key(self) -> str:
        """The name of the question, with the defaults of all options."""
        return f"analysis.{self.name}"

    @property
    def question(self) -> str:
        """What it answers: the first line of its module's docstring."""
        return question_of(self.answer)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return options_of(self.answer)


@dataclass(frozen=True)
class Answer:
    """What an analysis answers, and what the traces lack for it.

    Args:
        analysis: what was asked, of a rank or of a whole job.
        frame: the answer, a table of `analysis.table`.
        lacks: what each rank lacks of `analysis.needs` and `analysis.uses`.
    """

    analysis: Analysis | JobAnalysis
    frame: pl.DataFrame
    lacks: Mapping[int, tuple[Need, ...]]

    @property
    def is_unanswerable(self) -> bool:
        """Whether every rank lacks something that the analysis needs: that the frame is empty says nothing then."""
        return all(set(lacks) & set(self.analysis.needs) for lacks in self.lacks.values())

    @property
    def ranks_by_need(self) -> dict[Need, list[int]]:
        """What is lacking, what is needed before what is only used, and which ranks lack it."""
        return {
            need: ranks
            for need in (*self.analysis.needs, *self.analysis.uses)
            if (ranks := [rank for rank, lacks in self.lacks.items() if need in lacks])
        }

    def __repr__(self) -> str:
        """What it is, in brief."""
        lacks = [need.value for need in self.ranks_by_need]
        return (
            f"Answer({self.analysis.name}, rows={self.frame.height}, ranks={len(self.lacks)}, lacks={lacks})"
        )

    def _repr_html_(self) -> str:
        """What it is, for a notebook: its first rows, and what the traces lack for it."""
        lacks = [_lack_html(need, ranks, len(self.lacks)) for need, ranks in self.ranks_by_need.items()]
        rows = notebook.frame_html(self.analysis.question, self.frame, self.analysis.table)
        return notebook.shown(self.analysis.name, rows, *lacks)


def _lack_html(need: Need, ranks: list[int], total: int) -> str:
    """A line that says what is lacking."""
    which = "" if len(ranks) == total else f" on {len(ranks):,} of {total:,} ranks"
    return notebook.note_html(f"the traces lack {need.value}{which}")
