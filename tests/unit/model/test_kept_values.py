"""Values that are kept as long as they fit."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np
import polars as pl
import pytest

import tracebraid.importers.execution_trace.tables as tables
from tests.builders import node, tensor
from tests.unit.importers.reading import trace_of
from tests.waiting import HANG_S
from tracebraid.importers.execution_trace.tables import tensor_graph
from tracebraid.model.execution_trace import TensorGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS
from tracebraid.model.stage import KeptValues, Stage, computed, size_of

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


def test_small_values_go_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracebraid.model.stage._SMALL_BYTES", 5 * _ROW_BYTES)
    kept, counted = KeptValues(22 * _ROW_BYTES), Counted()
    asked(kept, counted, "small", rows=2)
    for name in ("a", "b", "c", "small", "b", "a"):
        asked(kept, counted, name, rows=2 if name == "small" else 10)
    assert counted.made == ["small", "a", "b", "c", "a"]


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
        may_end.wait(HANG_S)
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


# --- A value that is computed once, when it is first asked for ---------------------------------------


def counted(value: int = 7) -> tuple[Stage[int], list[int]]:
    calls: list[int] = []

    def compute() -> int:
        calls.append(value)
        return value

    return Stage(compute), calls


def test_it_is_computed_when_it_is_asked_for_and_kept() -> None:
    stage, calls = counted()
    assert (stage.is_computed, calls) == (False, [])
    assert (stage(), stage(), stage.is_computed, calls) == (7, 7, True, [7])


def test_threads_that_ask_at_once_wait_for_one_computation() -> None:
    begun, calls = threading.Event(), []

    def compute() -> object:
        calls.append(threading.get_ident())
        begun.wait(HANG_S)
        return object()

    stage: Stage[object] = Stage(compute)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(stage())) for _ in range(8)]
    for thread in threads:
        thread.start()
    begun.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_one_that_raises_is_tried_again() -> None:
    answers: list[Callable[[], int]] = [lambda: int("no number"), lambda: 3]
    stage = Stage(lambda: answers.pop(0)())
    with pytest.raises(ValueError, match="no number"):
        stage()
    assert not stage.is_computed
    assert stage() == 3


class Input:
    """Something that takes memory."""


def test_what_the_computation_refers_to_is_released() -> None:
    gc.disable()
    try:
        given = Input()
        seen = weakref.ref(given)
        stage = Stage(partial(id, given))
        del given
        assert seen() is not None
        stage()
        assert seen() is None
    finally:
        gc.enable()


def test_it_is_pickled_as_its_value() -> None:
    stage, calls = counted()
    again = pickle.loads(pickle.dumps(stage))
    assert (again.is_computed, again(), calls) == (True, 7, [7])


def test_a_value_that_is_known_is_computed() -> None:
    assert (computed(None).is_computed, computed(None)()) == (True, None)


# --- What is derived of linked ranks is computed once, and never another job's -----------------------


_ASKED: list[int] = []


def _height(ranks: LinkedRanks) -> int:
    _ASKED.append(ranks.members.height)
    return ranks.members.height


def _gather(linked: LinkedTrace) -> pl.DataFrame:
    return pl.DataFrame({"rank": [linked.rank]})


def _ranks() -> LinkedRanks:
    return LinkedRanks(RANKS.empty(), CLOCKS.empty(), MEMBERS.empty(), MATCHED_COLLECTIVES.empty())


def test_it_is_computed_once_with_whatever_parts() -> None:
    _ASKED.clear()
    ranks = _ranks()
    assert ranks.derived(_height) == 0
    other = ranks.with_parts({_gather: pl.DataFrame()})
    assert other.derived(_height) == 0
    assert list(other.parts) == [_gather]
    assert _ASKED == [0]


def test_it_is_computed_anew_of_other_members() -> None:
    ranks = _ranks()
    assert ranks.derived(_height) == 0
    member = MEMBERS.conform(pl.DataFrame({"rank": [0], "event_id": [1]}), fill_missing=True)
    assert replace(ranks, members=member).derived(_height) == 1


# --- Is a tensor graph computed when it is asked for, once, whoever asks -----------------------------


NODES = [node(3, "a", 2, [], [tensor(10, 100, [4])]), node(4, "b", 2, [tensor(10, 100, [4])])]


def test_reading_does_not_compute_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: object) -> TensorGraph:
        calls.append(1)
        return tensor_graph(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "tensor_graph", counted)
    trace = trace_of(tmp_path, NODES)
    assert trace.nodes.height == 4
    assert calls == []
    assert trace.tensor_edges.select("producer", "consumer").rows() == [(3, 4)]
    assert trace.tensors.height == 1
    assert trace.tensor_uses.height == 2
    assert calls == [1]


def test_a_trace_is_pickled_with_its_graph(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, NODES)
    again = pickle.loads(pickle.dumps(trace))
    assert again.tensor_edges.equals(trace.tensor_edges)
    assert again.nodes.equals(trace.nodes)
