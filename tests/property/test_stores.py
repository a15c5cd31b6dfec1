"""Tables with odd values go into Parquet and come back as they were."""

from __future__ import annotations

import json
from datetime import date
from string import Formatter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.matched import ChosenIterations
from tracebraid.model.reason import ChoiceReason
from tracebraid.model.sentences import FINDING_SENTENCES
from tracebraid.store.findings import findings_of, stored_findings, to_builtin
from tracebraid.store.manifest import StoredFinding
from tracebraid.store.parquet import decoded, encoded
from tracebraid.store.sealed_json import read_sealed, sealed
from tracebraid.store.tables import STORED_TABLES

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["", "\0", "a" * 5000, "[]", "null"]
)
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: INTS,
    Kind.FLOAT: st.floats(),
    Kind.BOOL: st.booleans(),
    Kind.NAME: TEXTS,
    Kind.JSON: TEXTS,
    Kind.TEXT: TEXTS,
    Kind.INT3: st.lists(INTS, min_size=3, max_size=3),
    Kind.INTS: st.lists(INTS | st.none(), max_size=4),
}


def column_of(column: Column, rows: int) -> st.SearchStrategy[list[Any]]:
    value = VALUES[column.kind]
    # Events have their rows as ids, a start and a duration; nodes have ids: no nulls there.
    given = value if column.name in ("ts_ns", "dur_ns", "event_id", "node_id") else st.none() | value
    return st.lists(given, min_size=rows, max_size=rows)


@st.composite
def frames(draw: st.DrawFn, table: Table) -> pl.DataFrame:
    rows = draw(st.integers(0, 12))
    schema = table.polars_schema()
    columns = {column.name: draw(column_of(column, rows)) for column in table.columns}
    if table.name == "events":
        columns["event_id"] = list(range(rows))
    return pl.DataFrame(
        {name: pl.Series(name, values, dtype=schema[name]) for name, values in columns.items()}
    )


@pytest.mark.parametrize("name", STORED_TABLES)
@settings(max_examples=12)
@given(data=st.data())
def test_a_table_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    table = STORED_TABLES[name]
    frame = data.draw(frames(table))
    found = decoded(name, table, encoded(name, frame))
    assert found.schema == frame.schema
    assert found.equals(frame)


PLAIN: st.SearchStrategy[Any] = st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | st.text()
CHOICES = st.builds(
    ChosenIterations,
    st.text(),
    st.text(),
    INTS,
    st.text(),
    st.text(),
    st.floats(0, 1),
    INTS,
    st.sampled_from(ChoiceReason),
)
DETAILS = st.recursive(
    PLAIN | st.sampled_from(FindingCase) | CHOICES,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def said(code: FindingCode) -> st.SearchStrategy[dict[str, Any]]:
    """Details with which the sentence of a code can be said, and others."""
    fields = [(name, spec) for _, name, spec, _ in Formatter().parse(FINDING_SENTENCES[code]) if name]
    known = st.fixed_dictionaries({name: INTS if spec else DETAILS for name, spec in fields})
    return st.tuples(st.dictionaries(st.text(), DETAILS), known).map(lambda both: both[0] | both[1])


FINDINGS = st.sampled_from(FindingCode).flatmap(
    lambda code: st.builds(
        Finding,
        st.just(code),
        st.text(st.characters()),
        st.text(),
        INTS,
        st.none() | st.builds(Loss, INTS, st.none() | INTS, INTS),
        said(code),
    )
)


@given(FINDINGS)
def test_a_finding_comes_back_as_it_was_though_its_path_is_no_text(
    tmp_path_factory: pytest.TempPathFactory, finding: Finding
) -> None:
    path = tmp_path_factory.getbasetemp() / "finding.json"
    path.write_bytes(sealed(stored_findings([finding])[0]))
    read, _ = read_sealed(path, StoredFinding)
    assert findings_of([read]) == (finding,)
    assert repr(findings_of([read])) == repr((finding,))
    json.loads(path.read_bytes())


@pytest.mark.parametrize("value", [date(2026, 1, 1), b"bytes", {1, 2}, object()])
def test_what_a_store_has_no_form_for_is_refused_when_it_is_written(value: object) -> None:
    with pytest.raises(TypeError, match="no form"):
        to_builtin(value)


@pytest.mark.parametrize(
    "value", [{"$kind": "Popen", "value": "ls"}, {"$kind": "tuple"}, {}, {"$kind": "FindingCase", "value": 3}]
)
def test_a_file_cannot_name_a_kind_that_is_not_known(value: dict[str, Any]) -> None:
    stored = StoredFinding("not-a-trace", "", "", 1, None, {"problem": value})
    if value.get("$kind") == "tuple":
        assert findings_of([stored])[0].details == {"problem": ()}
        return
    with pytest.raises(ValueError, match=r"."):
        findings_of([stored])
