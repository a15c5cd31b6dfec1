"""What an analysis of a whole job is: what it takes of each rank, and what it answers from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tracebraid.model.column import Table
from tracebraid.model.linked_ranks import Gather
from tracebraid.model.questions.analysis import Family, Need
from tracebraid.model.questions.asked import options_of, question_of

__all__ = ["JobAnalysis"]


@dataclass(frozen=True)
class JobAnalysis:
    """An analysis over the ranks of a job.

    Each rank is read once and released: what its function in `gathers` takes of it is kept. Then the ranks are linked
    with each other, and `answer` is asked.

    Args:
        name: its name in Python, that of its function.
        family: what it is about.
        answer: the function; takes `LinkedRanks` and options by keyword.
        table: the schema of the DataFrame that it returns.
        gathers: what it takes of each rank beside members.
        needs: without any of these, on any rank, the answer is empty.
        uses: without any of these the answer lacks something.
    """

    name: str
    family: Family
    answer: Callable[..., pl.DataFrame]
    table: Table
    gathers: tuple[Gather, ...] = ()
    needs: tuple[Need, ...] = ()
    uses: tuple[Need, ...] = ()

    @property
    def question(self) -> str:
        """What it answers: the first line of its module's docstring."""
        return question_of(self.answer)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return options_of(self.answer)
