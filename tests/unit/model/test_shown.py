"""Results in a notebook: small, escaped, without scripts, and in a single line on a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracebraid
from tests.builders import node, op
from tests.unit.linking.made import et_of, linked_of
from tracebraid.model.analysis import Answer
from tracebraid.model.coverage import Count, Coverage
from tracebraid.model.engine import Job
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.notebook import facts_html, frame_html, rows_html, shown
from tracebraid.model.printable import printable_json
from tracebraid.model.rank_files import RankFiles
from tracebraid.model.report import Report, Section
from tracebraid.reports.machine import finding_data

HOSTILE = "</td></table></script><script>alert(1)</script>'\"&\u202e\x1b[31m\x00\n" + "x" * 10_000
MOST_BYTES = 20_000
MOST_CHARACTERS = 1_000
VOID = {"br", "hr"}


class Checked(HTMLParser):
    """Reads HTML; notes its tags, and whether each that is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check(html: str) -> Checked:
    assert len(html.encode()) < MOST_BYTES
    found = Checked(html)
    assert found.open == []
    known = {"div", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert found.tags <= known
    assert found.attributes <= {"style", "scope", "title"}
    text = "".join(found.text)
    assert not any(character in text for character in "\u202e\x1b\x00\n")
    return found


@pytest.fixture(scope="module")
def results(demo: Path) -> dict[str, object]:
    job = tracebraid.open(demo)
    graph = tracebraid.dependency_graph(job)
    linked = job[0]
    return {
        "job": job,
        "linked": linked,
        "timeline": linked.timeline,
        "et": linked.et,
        "coverage": linked.coverage,
        "answer": tracebraid.analyze("ops", linked),
        "unanswerable": tracebraid.analyze("kernels", linked),
        "graph": graph,
        "path": tracebraid.critical_path(graph),
        "what_if": tracebraid.what_if(graph, "scale 0.5 name=aten::addmm"),
        "advice": tracebraid.advise(job),
        "comparison": tracebraid.diff(job, job),
        "report": Report("a run", [Section("one", HOSTILE, [])]),
    }


TRACES = ["job", "linked", "timeline", "et", "coverage"]
ANSWERS = ["answer", "unanswerable", "graph", "path", "what_if", "advice", "comparison", "report"]
NAMES = [*TRACES, *ANSWERS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_small_html_without_a_script(results: dict[str, object], name: str) -> None:
    html = results[name]._repr_html_()  # type: ignore[attr-defined]
    assert check(html).text


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_line_on_a_terminal(results: dict[str, object], name: str) -> None:
    text = repr(results[name])
    assert "\n" not in text
    assert 0 < len(text) < MOST_CHARACTERS


def test_a_linked_trace_computes_nothing_to_show_itself(demo: Path) -> None:
    linked = tracebraid.open(demo)[0]
    before = repr(linked)
    check(linked._repr_html_())
    assert repr(linked) == before
    et = linked.et
    assert et is not None
    check(et._repr_html_())
    assert not et.tensor_graph.is_computed


def test_hostile_names_are_text() -> None:
    nodes = et_of(node(5, HOSTILE, 1001, rf_id=3))
    linked = linked_of([op(HOSTILE, 0, 10, Record_function_id=3)], nodes)
    found = check(tracebraid.analyze("ops", linked)._repr_html_())
    assert any("alert(1)" in text for text in found.text)
    check(replace(linked.timeline, path=HOSTILE)._repr_html_())
    check(Report(HOSTILE, [Section("a", HOSTILE, [])])._repr_html_())
    assert "\n" not in repr(replace(linked.timeline, path=HOSTILE))


def test_ten_thousand_ranks_are_the_first_and_how_many_more() -> None:
    files = tuple(RankFiles(rank, f"kineto_{rank}.json", None) for rank in range(10_000))
    job = Job("job", files, lambda *_: pytest.fail("a rank is read"))
    text = " ".join(check(job._repr_html_()).text)
    assert "kineto_0.json" in text
    assert "kineto_9999.json" not in text
    assert "9,990" in text
    assert "\n" not in repr(job)


def test_what_ranks_lack_is_a_line_however_many_they_are(demo: Path) -> None:
    answer = tracebraid.analyze("kernels", tracebraid.open(demo)[0])
    many = Answer(answer.analysis, answer.frame, dict.fromkeys(range(10_000), answer.lacks[0]))
    check(many._repr_html_())
    assert len(repr(many)) < MOST_CHARACTERS


def test_values_have_the_units_of_their_columns() -> None:
    frame = pl.DataFrame({"dur_ns": [1_500_000, None], "share": [0.25, 1.0], "size_bytes": [2_000_000, 0]})
    text = " ".join(Checked(frame_html("made", frame)).text)
    assert all(shown_value in text for shown_value in ("1.500 ms", "25.0 %", "2.0 MB"))


def test_tables_without_rows_columns_or_facts_are_html() -> None:
    check(shown("", facts_html({}), frame_html("", pl.DataFrame()), rows_html("", (), (), 0)))
    check(shown("", frame_html("none", pl.DataFrame(schema={"a": pl.Int64}))))


def test_a_coverage_of_nothing_shows_itself() -> None:
    nothing = Count(0, 0, {})
    check(Coverage(nothing, nothing, nothing, (0, 0), (), has_et=False)._repr_html_())


# --- What a trace shows of itself: brief, and nothing that was recorded ------------------------------


SECRET = "a-token-of-the-environment"


def test_a_linked_trace_shows_itself_in_brief(demo: Path) -> None:
    job = tracebraid.open(demo)
    for text in (repr(job[0]), repr(job[0].timeline), repr(job[0].et), repr(job)):
        assert len(text) < MOST_CHARACTERS
    assert job[0].timeline.path in repr(job[0])


def test_what_was_recorded_is_not_shown() -> None:
    nodes = et_of(node(5, "op", 1001, inputs=[("String", SECRET, [])], rf_id=3))
    events = [op(SECRET, 0, 10, Record_function_id=3, Concrete_Inputs=[SECRET])]
    linked = linked_of(events, nodes, header={"environment": {"TOKEN": SECRET}})
    assert SECRET not in repr(linked)


# --- printable ---------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.slow
@given(
    st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_a_document_says_the_same_in_characters_that_steer_nothing(data: object) -> None:
    document = printable_json(msgspec.json.encode(data))
    assert json.loads(document) == data
    assert document.decode().isprintable()


def test_what_terminals_obey_is_written_out() -> None:
    document = printable_json('{"a": "\x9b31m \x7f \u202e \u2028 \U000e0041 é 😀"}'.encode())
    assert document.decode() == '{"a": "\\u009b31m \\u007f \\u202e \\u2028 \\udb40\\udc41 é 😀"}'


# --- Do losses add up, and does what is unknown stay unknown -----------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (Loss(1, 1, 10), Loss(2, 2, 5), Loss(3, 3, 15)),
        (Loss(1, 4, 10), Loss(2, 2), Loss(3, 6, 10)),
        (Loss(1, 1, 10), Loss(2, None, 5), Loss(3, None, 15)),
        (Loss(), Loss(), Loss(0, None, 0)),
    ],
)
def test_losses_add_up(first: Loss, second: Loss, both: Loss) -> None:
    assert first + second == both
    assert second + first == both


def test_each_kind_of_loss_reads_otherwise() -> None:
    losses = [Loss(), Loss(3), Loss(3, 3), Loss(3, 5), Loss(3, 3, 7)]
    assert len({str(loss) for loss in losses}) == len(losses)


def test_the_json_of_a_finding_has_its_loss_where_there_is_one() -> None:
    assert "loss" not in finding_data(Finding(FindingCode.TRUNCATED))
    data = finding_data(Finding(FindingCode.TRUNCATED, loss=Loss(2, None, 9)))
    assert data["loss"] == {"at_least": 2, "at_most": None, "skipped_bytes": 9}
