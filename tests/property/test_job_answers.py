"""Answers over several ranks, each analysis of the catalog: they fit their tables, and depend on no order."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.api.job.whole_job import answer_of_ranks, rank_of_job
from tracebraid.model.column import Kind
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.job_analysis import JobAnalysis

steady = settings(deadline=None, derandomize=True, max_examples=8)


def answered(analysis: JobAnalysis, ranks: Sequence[LinkedTrace]) -> pl.DataFrame:
    """The answer, which fits its table."""
    found = answer_of_ranks(analysis, [rank_of_job(analysis, rank, {}) for rank in ranks], {})[0].frame
    assert dict(found.schema) == analysis.table.polars_schema(), analysis.name
    for column in analysis.table.columns:
        if column.kind is Kind.FLOAT:
            values = found.get_column(column.name)
            assert not (values.is_nan() | values.is_infinite()).any(), (analysis.name, column.name)
    return found


@pytest.mark.parametrize("analysis", JOB_ANALYSES, ids=lambda analysis: analysis.name)
def test_a_name_is_that_of_the_function_and_of_the_table(analysis: JobAnalysis) -> None:
    assert analysis.answer.__name__ == analysis.name == analysis.table.name
    assert analysis.question.endswith("?")


@steady
@given(st.lists(scenes(), min_size=1, max_size=3))
def test_every_answer_of_random_ranks_fits_its_table_and_depends_on_no_order(found: list[Scene]) -> None:
    for rank, scene in enumerate(found):
        scene.rank, scene.world_size = rank, len(found)
    ranks = [scene.linked() for scene in found]
    for analysis in JOB_ANALYSES:
        assert answered(analysis, ranks).equals(answered(analysis, ranks[::-1])), analysis.name


@pytest.mark.parametrize(
    "scenes_of_job",
    [[], [Scene()], [Scene(), Scene(rank=1)], [clean()], [clean(rank=rank, world_size=3) for rank in (0, 2)]],
    ids=["no rank", "no event", "two without events", "no communication", "a rank is missing"],
)
def test_every_answer_can_do_with_less(scenes_of_job: list[Scene]) -> None:
    ranks = [scene.linked() for scene in scenes_of_job]
    for analysis in JOB_ANALYSES:
        assert answered(analysis, ranks).equals(answered(analysis, ranks)), analysis.name
