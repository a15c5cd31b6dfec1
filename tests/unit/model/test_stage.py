"""A value that is computed once, when it is first asked for."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from tracebraid.model.stage import Stage, computed


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
        begun.wait(5)
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
