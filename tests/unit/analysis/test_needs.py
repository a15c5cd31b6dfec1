"""What a trace lacks for an analysis."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.needs import HAS, lacking
from tracebraid.model.answers import KERNELS
from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.analysis import Analysis, Answer, Need


@pytest.mark.parametrize("need", Need)
def test_every_need_can_be_decided_and_has_its_sentences(need: Need) -> None:
    assert HAS[need](linked_of([])) is False
    assert all(NEED_SENTENCES[need])


def test_a_trace_lacks_what_it_does_not_hold_in_the_order_of_the_analysis() -> None:
    analysis = _analysis((Need.DEVICE_WORK, Need.HOST_OPS), (Need.STACKS, Need.SHAPES))
    host_only = linked_of([op("aten::mm", 0, 5, Input_Dims=[[2, 3]])])
    assert lacking(analysis, host_only) == (Need.DEVICE_WORK, Need.STACKS)


def test_steps_are_those_of_the_annotation_that_is_asked_for() -> None:
    analysis = _analysis((Need.STEPS,), ())
    linked = linked_of([op("train#1", 0, 5, cat="user_annotation")])
    assert lacking(analysis, linked) == (Need.STEPS,)
    assert lacking(analysis, linked, "train") == ()


def test_a_graph_launch_is_seen_by_its_call() -> None:
    launched = [call("hipGraphLaunch", 0, 5, 3), kernel("k", 10, 5, 3)]
    assert HAS[Need.GRAPH_LAUNCHES](linked_of(launched)) is True


def test_work_of_a_graph_is_seen_without_its_call() -> None:
    assert HAS[Need.GRAPH_LAUNCHES](linked_of([kernel("k", 10, 5, 3, **Json({"graph id": 4}))])) is True


def test_iterations_of_inference_are_seen_by_their_annotations() -> None:
    marked = [op("step[DECODE bs=1]", 0, 5, cat="user_annotation")]
    assert HAS[Need.INFERENCE_ITERATIONS](linked_of(marked)) is True


def test_only_what_is_needed_makes_an_answer_unanswerable() -> None:
    analysis = _analysis((Need.DEVICE_WORK,), (Need.STACKS,))
    frame = KERNELS.empty()
    assert Answer(
        analysis, frame, {0: (Need.DEVICE_WORK,), 1: (Need.DEVICE_WORK, Need.STACKS)}
    ).is_unanswerable
    some = Answer(analysis, frame, {0: (Need.DEVICE_WORK,), 1: (Need.STACKS,)})
    assert not some.is_unanswerable
    assert some.ranks_by_need == {Need.DEVICE_WORK: [0], Need.STACKS: [1]}


def test_names_are_unique_and_those_of_the_functions_and_tables() -> None:
    names = [analysis.name for analysis in ANALYSES]
    assert len(set(names)) == len(names)
    assert [a.name for a in ANALYSES if a.answer.__name__ != a.name or a.table.name != a.name] == []


def test_every_table_begins_with_the_rank_and_every_question_is_a_question() -> None:
    assert [a.name for a in ANALYSES if a.table.columns[0].name != "rank"] == []
    assert [a.name for a in ANALYSES if not a.question.endswith("?")] == []


def _analysis(needs: tuple[Need, ...], uses: tuple[Need, ...]) -> Analysis:
    kernels = next(analysis for analysis in ANALYSES if analysis.name == "kernels")
    return Analysis("kernels", kernels.family, kernels.answer, KERNELS, needs, uses)


def test_a_trace_without_an_event_gives_validity_nothing_to_judge() -> None:
    (analysis,) = (found for found in ANALYSES if found.name == "validity")
    assert lacking(analysis, linked_of([])) == (Need.EVENTS,)
    assert lacking(analysis, linked_of([op("aten::mm", 0, 5)])) == ()
