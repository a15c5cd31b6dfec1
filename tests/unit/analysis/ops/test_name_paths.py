"""Paths of names, from marks that are in each other."""

from __future__ import annotations

import numpy as np

from tracebraid.analysis.ops.name_paths import Paths, paths_of


def made(inside: list[int], names: list[int]) -> Paths:
    return paths_of(np.array(inside, dtype=np.int64), np.array(names, dtype=np.int64))


def test_marks_of_one_name_in_one_path_share_a_path() -> None:
    paths = made([-1, 0, -1, 2, 0], [0, 1, 0, 1, 2])
    texts = paths.texts(["net", "a", "b"], "/")
    assert [texts[path] for path in paths.path] == ["net", "net/a", "net", "net/a", "net/b"]
    assert paths.depth.tolist() == [0, 1, 1]


def test_a_mark_without_a_name_has_the_path_that_it_is_in() -> None:
    paths = made([-1, 0, 1, -1], [0, -1, 1, -1])
    assert paths.texts(["net", "a"], ".") == ["net", "net.a"]
    assert paths.path.tolist() == [0, 0, 1, -1]


def test_an_inner_mark_may_come_before_the_outer() -> None:
    paths = made([1, -1], [1, 0])
    assert paths.texts(["net", "a"], ".") == ["net", "net.a"]
    assert paths.path.tolist() == [1, 0]


def test_marks_in_a_circle_have_no_path() -> None:
    assert made([1, 0, -1], [0, 0, 0]).path.tolist() == [-1, -1, 0]


def test_a_walk_goes_into_each_path_and_orders_siblings() -> None:
    paths = made([-1, -1, 0, 0, 1], [0, 1, 2, 3, 2])
    texts = paths.texts(["x", "y", "a", "b"], "/")
    walk = [texts[path] for path in paths.walk(np.array([5, 1, 9, 7, 2]))]
    assert walk == ["y", "y/a", "x", "x/b", "x/a"]


def test_every_path_has_itself_and_what_it_extends_as_ancestors() -> None:
    found = made([-1, 0, 1], [0, 1, 2]).ancestors()
    assert sorted(found.rows()) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]


def test_no_marks_are_no_paths() -> None:
    paths = made([], [])
    assert (paths.texts([], "/"), paths.walk(np.empty(0, dtype=np.int64)), paths.ancestors().height) == (
        [],
        [],
        0,
    )
