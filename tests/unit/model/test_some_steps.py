"""Names of steps for a sentence."""

from __future__ import annotations

from tracebraid.model.step import some_steps


def test_of_many_steps_the_first_and_the_last_are_named() -> None:
    names = [f"ProfilerStep#{number}" for number in range(100, 600)]
    words = some_steps(names).replace(",", "").split()
    assert set(names) & set(words) == {*names[:3], *names[-3:]}


def test_a_few_steps_are_all_named() -> None:
    assert some_steps(["a", "b", "c", "d"]) == "a, b, c, d"
    assert some_steps([]) == ""
