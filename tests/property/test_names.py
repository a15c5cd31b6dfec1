"""Shortened names fit, and names that differ stay different."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracebraid.reports.names import distinct_names

NAMESPACES = ["void ", "at::native::", "(anonymous namespace)::"]
WORDS = [*NAMESPACES, "gemm", "<", ">", "(", ")", "int", ", ", "_", "1", "128x", "64"]
NAMES = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=40).map("".join),
    st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=80),
    st.text("ab", min_size=30, max_size=60),
)


@given(st.lists(NAMES, max_size=25), st.integers(12, 90))
def test_names_fit_and_stay_different(names: list[str], width: int) -> None:
    shown = distinct_names(names, width)
    assert all(cell_len(text) <= width for text in shown)
    assert len(set(shown)) == len(set(names))
    by_name: dict[str, str] = {}
    for name, text in zip(names, shown, strict=True):
        assert by_name.setdefault(name, text) == text
        assert text == name or cell_len(name) > width


@given(st.lists(NAMES, max_size=10), st.integers(0, 12))
@example(["void " * 3, "void " * 4], 0)
def test_no_width_is_too_small(names: list[str], width: int) -> None:
    assert all(cell_len(text) <= width for text in distinct_names(names, width))
