"""Values that are kept as long as they fit."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
import polars as pl

from tracebraid.model.kept import KeptValues, size_of

_ROW_BYTES = 8


class Counted:
    """Arrays of some rows by name; counts how often each is made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def array(self, name: str, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        self.made.append(name)
        return np.zeros(rows, dtype=np.int64)


def asked(kept: KeptValues, counted: Counted, name: str, rows: int = 10) -> None:
    kept.get(name, lambda: counted.array(name, rows))


def test_what_fits_is_computed_once() -> None:
    kept, counted = KeptValues(20 * _ROW_BYTES), Counted()
    for name in "abab":
        asked(kept, counted, name)
    assert counted.made == ["a", "b"]


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    kept, counted = KeptValues(20 * _ROW_BYTES), Counted()
    for name in ("a", "b", "a", "c", "a", "b"):
        asked(kept, counted, name)
    assert counted.made == ["a", "b", "c", "b"]


def test_a_value_larger_than_all_that_may_be_kept_is_kept_alone() -> None:
    kept, counted = KeptValues(20 * _ROW_BYTES), Counted()
    asked(kept, counted, "small")
    asked(kept, counted, "large", rows=100)
    asked(kept, counted, "large", rows=100)
    asked(kept, counted, "small")
    assert counted.made == ["small", "large", "small"]


def test_a_value_may_ask_for_others_and_outlive_them() -> None:
    kept, counted = KeptValues(15 * _ROW_BYTES), Counted()

    def outer() -> int:
        inner = kept.get("inner", lambda: counted.array("inner", 10))
        asked(kept, counted, "other")
        return len(inner)

    assert kept.get("outer", outer) == 10


def test_what_a_value_asked_for_goes_before_it() -> None:
    kept, counted = KeptValues(25 * _ROW_BYTES), Counted()

    def outer() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        asked(kept, counted, "inner")
        return counted.array("outer", 10)

    kept.get("outer", outer)
    asked(kept, counted, "other")
    kept.get("outer", outer)
    asked(kept, counted, "inner")
    assert counted.made == ["inner", "outer", "other", "inner"]


def test_threads_that_ask_together_wait_for_one_computation() -> None:
    kept, counted, may_end = KeptValues(), Counted(), Event()

    def slow() -> int:
        counted.made.append("slow")
        may_end.wait(10)
        return 1

    with ThreadPoolExecutor(2) as threads:
        asked_twice = [threads.submit(kept.get, "key", slow) for _ in range(2)]
        may_end.set()
        assert [future.result() for future in asked_twice] == [1, 1]
    assert counted.made == ["slow"]


def test_pickled_it_keeps_nothing_and_works() -> None:
    kept, counted = KeptValues(20 * _ROW_BYTES), Counted()
    asked(kept, counted, "a")
    again: KeptValues = pickle.loads(pickle.dumps(kept))
    asked(again, counted, "a")
    assert counted.made == ["a", "a"]


@dataclass(frozen=True)
class _Held:
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    frame: pl.DataFrame


def test_the_size_of_a_value_is_that_of_the_arrays_and_tables_in_it() -> None:
    rows = np.zeros(10, dtype=np.int64)
    frame = pl.DataFrame({"a": rows})
    assert (
        size_of(_Held(rows, frame))
        == size_of((rows, frame))
        == size_of({1: rows, 2: rows})
        == 20 * _ROW_BYTES
    )
