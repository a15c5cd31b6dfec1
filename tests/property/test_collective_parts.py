"""Of random members, however damaged: waiting, transfer and rest add up to durations, and none is below 0."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.catalog import ANALYSES
from tracebraid.analysis.collectives.collective_bandwidth import collective_bandwidth
from tracebraid.analysis.collectives.collective_ranks import collective_ranks
from tracebraid.analysis.collectives.collective_totals import collective_totals
from tracebraid.analysis.collectives.collectives import collectives
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.column import Kind
from tracebraid.model.linked_ranks import LinkedRanks

steady = settings(deadline=None, derandomize=True, max_examples=30)

sizes = st.one_of(st.none(), st.integers(-5, 10**6), st.just(2**59))
ranks_of = st.one_of(st.none(), st.integers(0, 4))
splits = st.sampled_from([None, "[]", "[1, 2, 3]", "[0, 0]", "x", "[-1]"])


@st.composite
def members(draw: st.DrawFn) -> dict[str, object]:
    start = draw(st.integers(0, 1000))
    return member(
        draw(st.integers(0, 4)),
        start,
        start + draw(st.integers(-50, 500)),
        draw(st.one_of(st.none(), st.integers(0, 5))),
        type=draw(st.one_of(st.none(), st.sampled_from([kind.value for kind in CollectiveType]))),
        source=draw(ranks_of),
        destination=draw(ranks_of),
        group_size=draw(st.one_of(st.none(), st.integers(-1, 5))),
        group_ranks=draw(st.sampled_from([None, "[]", "[0,1]", "[0,1,2,3,4]"])),
        in_bytes=draw(sizes),
        out_bytes=draw(sizes),
        in_split=draw(splits),
        out_split=draw(splits),
        step=draw(st.sampled_from([None, "ProfilerStep#1", "ProfilerStep#2"])),
    )


clock = st.fixed_dictionaries(
    {
        "host": st.sampled_from([None, "a", "b"]),
        "method": st.sampled_from(["unknown", "collectives", "same host", "reference"]),
        "offset_low_ns": st.one_of(st.none(), st.integers(-100, 0)),
        "offset_high_ns": st.one_of(st.none(), st.integers(0, 100)),
        "at_ns": st.one_of(st.none(), st.just(500)),
        "drift_low_ppm": st.one_of(st.none(), st.just(-1.0)),
        "drift_high_ppm": st.one_of(st.none(), st.just(1.0)),
    }
)
jobs = st.builds(
    linked_ranks,
    st.lists(members(), max_size=25),
    st.dictionaries(st.integers(0, 4), clock, max_size=5),
)


@steady
@given(jobs)
def test_parts_of_members_add_up(ranks: LinkedRanks) -> None:
    found = collective_ranks(ranks)
    parts = ("waiting_ns", "transfer_ns", "rest_ns")
    assert found.select((pl.sum_horizontal(parts) == pl.col("dur_ns")).all()).item()
    assert found.select(pl.all_horizontal(pl.col(*parts, "late_by_ns").fill_null(0) >= 0).all()).item()
    assert found.height == ranks.members.height
    waited = found.filter(pl.col("waited_for").is_not_null())
    assert waited.select((pl.col("waited_for") != pl.col("rank")).all()).item()
    assert waited.select((pl.col("waiting_ns") > 0).all()).item()


@steady
@given(jobs)
def test_no_member_is_dropped_and_totals_agree(ranks: LinkedRanks) -> None:
    members, found = collective_ranks(ranks), collectives(ranks)
    assert found.get_column("ranks").list.len().sum() == members.height
    assert found["waiting_ns"].sum() == members["waiting_ns"].sum()
    assert found["rest_ns"].sum() == members["rest_ns"].sum()
    assert found.select((pl.col("transfer_ns") >= 0).all()).item()
    for per_step in (False, True):
        totals = collective_totals(ranks, per_step=per_step)
        for name in ("dur_ns", "transfer_ns", "waiting_ns", "rest_ns"):
            assert totals[name].sum() == members[name].sum()
        known = members.filter(pl.col("waited_for").is_not_null())
        assert totals["caused_ns"].sum() == known["waiting_ns"].sum()
        by_size = collective_bandwidth(ranks, per_step=per_step, peak_bandwidth=1e9)
        assert by_size["count"].sum() == found.height
        assert by_size["transfer_ns"].sum() == found["transfer_ns"].sum()


@steady
@given(jobs)
def test_every_answer_fits_its_table_and_holds_no_nan(ranks: LinkedRanks) -> None:
    for analysis in ANALYSES:
        found = analysis.answer(ranks)
        assert dict(found.schema) == analysis.table.polars_schema(), analysis.name
        for column in analysis.table.columns:
            if column.kind is Kind.FLOAT:
                values = found.get_column(column.name)
                assert not (values.is_nan() | values.is_infinite()).any(), (analysis.name, column.name)
