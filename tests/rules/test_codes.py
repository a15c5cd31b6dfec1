"""Codes are enums, sentences stand in one table, and no code compares, searches or cuts a sentence."""

from __future__ import annotations

import ast
import json
import pickle
from collections.abc import Iterator
from string import Formatter

import pytest
from msgspec.structs import replace

from tests.rules.imports import MODULES, PACKAGE, in_modules, parsed
from tracebraid.model.coverage import ChoiceReason, OrphanKind, OrphanReason
from tracebraid.model.finding import (
    CASE_SENTENCES,
    CHOICE_SENTENCES,
    ORPHAN_REASONS,
    Finding,
    FindingCase,
    finding_sentence,
    reason_sentence,
)
from tracebraid.model.finding_code import FindingCode

SENTENCES = {"message", "sentence", "why"}
"""Attributes that hold a sentence."""
MAKERS = {"Finding", "Issue"}


def reads_a_sentence(expression: ast.AST) -> bool:
    """Whether an expression is a sentence, or is made of one by methods and by parts."""
    while isinstance(expression, ast.Subscript | ast.Call | ast.Attribute):
        if isinstance(expression, ast.Attribute) and expression.attr in SENTENCES:
            return True
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return False


def judged_sentences(text: str) -> list[int]:
    """The lines that compare, search or cut a sentence."""
    lines = []
    for item in ast.walk(parsed(text)):
        parts: list[ast.expr] = []
        if isinstance(item, ast.Compare):
            parts = [item.left, *item.comparators]
        elif isinstance(item, ast.Subscript):
            parts = [item.value]
        elif isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute):
            parts = [item.func.value]
        lines += [part.lineno for part in parts if reads_a_sentence(part)]
    return lines


@pytest.mark.full
@pytest.mark.slow
def test_no_code_compares_searches_or_cuts_a_sentence() -> None:
    assert in_modules(lambda module: judged_sentences(module.read_text())) == {}


@pytest.mark.parametrize(
    "text",
    [
        'finding.message == "x"',
        '"x" in one.finding.message',
        'found[0].message.startswith("x")',
        'finding.message.lower().endswith("x")',
        "finding.message[:5]",
        'finding.message.split(": ")[1]',
        '{"a": 1}[one.sentence]["b"] if one.sentence != "y" else 0',
    ],
)
def test_the_rule_finds_what_judges_a_sentence(text: str) -> None:
    assert judged_sentences(text)


@pytest.mark.parametrize("text", ["print(finding.message)", 'f"{finding.message}, and"', "finding.code == x"])
def test_the_rule_lets_a_sentence_be_shown(text: str) -> None:
    assert judged_sentences(text) == []


# --- the tables -------------------------------------------------------------------------------------


def test_each_code_has_a_sentence_and_an_advice() -> None:
    assert all(code.sentence and code.advice for code in FindingCode)
    assert set(CASE_SENTENCES) == set(FindingCase)
    assert set(ORPHAN_REASONS) == set(OrphanReason)
    assert set(CHOICE_SENTENCES) == set(ChoiceReason)


@pytest.mark.parametrize("member", [*FindingCode, *FindingCase, *OrphanKind, *ChoiceReason])
def test_a_code_is_its_text_wherever_it_is_written(member: FindingCode) -> None:
    assert f"{member}" == str(member) == "%s" % member == member.value  # noqa: UP031
    assert json.loads(json.dumps([member])) == [member.value]
    assert pickle.loads(pickle.dumps(member)) is member


def test_a_finding_with_details_is_a_value() -> None:
    one = Finding.of(FindingCode.NO_ET, "a.json", rank=3)
    assert one == pickle.loads(pickle.dumps(one))
    assert one != replace(one, details={"rank": 4})
    assert len({one, Finding.of(FindingCode.NO_ET, "a.json", rank=3)}) == 1


def test_a_case_and_a_reason_are_put_into_words() -> None:
    events = {"events": 1234}
    why = OrphanReason.NO_CALL
    said = finding_sentence(FindingCode.LAUNCH_UNKNOWN, {**events, "reason": why})
    unsaid = finding_sentence(FindingCode.LAUNCH_UNKNOWN, {**events, "case": FindingCase.NO_REASON})
    assert said != unsaid
    assert reason_sentence(why) in said
    assert "1,234" in unsaid


# --- where findings are made ------------------------------------------------------------------------


def names_written(module: ast.Module, enum: str) -> set[str]:
    """The members of an enum that a module names."""
    return {
        item.attr
        for item in ast.walk(module)
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == enum
    }


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("enum", [FindingCode, FindingCase])
def test_each_member_is_used_where_something_is_found(enum: type[FindingCode] | type[FindingCase]) -> None:
    tables = {PACKAGE / "model" / "sentences.py", PACKAGE / "validation" / "advice.py"}
    used = {
        name
        for path in MODULES
        if path not in tables
        for name in names_written(parsed(path.read_text()), enum.__name__)
    }
    assert sorted(set(enum.__members__) - used) == []


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def makers_in(function: ast.AST) -> Iterator[ast.Call]:
    for item in ast.walk(function):
        if isinstance(item, ast.Call):
            func = item.func.value if isinstance(item.func, ast.Attribute) else item.func
            if isinstance(func, ast.Name) and func.id in MAKERS:
                yield item


def details_missing(text: str) -> list[tuple[str, list[str]]]:
    """Codes of findings whose sentence has fields that the function which makes them gives no value."""
    missing = []
    for function in (one for one in ast.walk(parsed(text)) if isinstance(one, ast.FunctionDef)):
        written = {
            key.value
            for item in ast.walk(function)
            if isinstance(item, ast.Dict)
            for key in item.keys
            if isinstance(key, ast.Constant)
        }
        for call in makers_in(function):
            code = call.args[0] if call.args else None
            if not isinstance(code, ast.Attribute) or code.attr not in FindingCode.__members__:
                continue
            given = {keyword.arg for keyword in call.keywords} | written
            if "case" not in given:
                lacking = fields_of(FindingCode[code.attr].sentence) - given
                missing += [(code.attr, sorted(lacking))] if lacking else []
        cases = names_written(ast.Module([function], []), "FindingCase")
        given_in_all = written | {k.arg for call in makers_in(function) for k in call.keywords if k.arg}
        for case in sorted(cases):
            lacking = fields_of(CASE_SENTENCES[FindingCase[case]]) - given_in_all
            missing += [(case, sorted(lacking))] if lacking else []
    return missing


@pytest.mark.full
@pytest.mark.slow
def test_a_finding_has_the_details_that_its_sentence_names() -> None:
    assert in_modules(lambda module: details_missing(module.read_text())) == {}


@pytest.mark.parametrize(
    "text",
    [
        "def f(): return Finding(FindingCode.NO_ET, path)",
        "def f(): return Finding.of(FindingCode.NO_ET, path, rang=1)",
        "def f(): return Issue.of(FindingCode.EVENT_UNREADABLE, 7, case=FindingCase.NO_EVENT)",
    ],
)
def test_the_rule_finds_a_detail_that_is_missing(text: str) -> None:
    assert details_missing(text)
