"""Rules about names, asked once for each."""

from __future__ import annotations

import polars as pl

from tracebraid.model.name_rules import by_name, distinct_pairs, flags_by_name

NAMES = pl.Series("name", ["mm", None, "add", "mm", None])


def test_each_event_has_what_the_rule_says_of_its_name_and_each_name_is_asked_once() -> None:
    asked: list[str | None] = []

    def length(distinct: pl.Series) -> pl.Series:
        asked.extend(distinct.to_list())
        return distinct.str.len_bytes()

    assert by_name(NAMES, length).to_list() == [2, None, 3, 2, None]
    assert len(asked) == len({*asked}) == 3


def test_text_and_categoricals_are_asked_alike() -> None:
    for names in (NAMES, NAMES.cast(pl.Categorical), NAMES.cast(pl.Categorical)[2:]):
        found = flags_by_name(names, lambda name: name.str.starts_with("m"))
        assert found.tolist() == [name == "mm" for name in names.to_list()]


def test_null_has_no_flag() -> None:
    assert not flags_by_name(NAMES.clear(2), lambda name: name.is_not_null()).any()


def test_no_names_have_no_flags() -> None:
    assert len(flags_by_name(NAMES.clear(), lambda name: name.is_not_null())) == 0


def test_pairs_are_distinct_and_each_event_finds_its_own() -> None:
    categories = pl.Series("category", ["op", "op", None, "call", "op"])
    pairs, row = distinct_pairs(NAMES, categories)
    assert pairs.height == 4
    assert pairs[row].rows() == list(zip(NAMES.to_list(), categories.to_list(), strict=True))


def test_no_events_have_no_pairs() -> None:
    pairs, row = distinct_pairs(NAMES.clear(), NAMES.clear().alias("category"))
    assert (pairs.height, len(row)) == (0, 0)
