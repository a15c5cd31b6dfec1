"""Which rank is worked on when, with workers that only say what happens to them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tracebraid.engine.automatic import TRIES, Limits, scheduled
from tracebraid.engine.workers import Advanced, Event, Failed, Finished, Lost, Raised
from tracebraid.errors import ArgumentError, InputError, LostWorkerError
from tracebraid.model.engine import Outcome
from tracebraid.model.rank_files import RankFiles, RanksDone

UNLIMITED = 1 << 60


def ranks_of(count: int) -> list[RankFiles]:
    return [RankFiles(number, f"kineto_{number}.json", None) for number in range(count)]


def finish(number: int) -> list[Event]:
    return [Finished(number, number * 10)]


@dataclass
class FakeWorkers:
    """What becomes of a rank is what `happens` says; the rank that was submitted last is the first to end."""

    happens: Callable[[int], list[Event]] = finish
    submitted: list[int] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    at_once: list[list[int]] = field(default_factory=list)
    closed: int = 0

    def submit(self, number: int, files: RankFiles) -> None:
        assert files.rank == number
        self.submitted.append(number)
        self.in_flight.append(number)
        self.at_once.append(sorted(self.in_flight))

    def wait(self) -> Sequence[Event]:
        return self.happens(self.in_flight.pop())

    def close(self) -> None:
        self.closed += 1


def run(
    workers: FakeWorkers, peaks: list[int], limits: Limits, progress: Callable[[float], None] | None = None
) -> list[Outcome[object]]:
    return list(scheduled(ranks_of(len(peaks)), peaks, workers, limits, progress))


def test_outcomes_come_in_the_order_of_ranks_whichever_ends_first() -> None:
    workers = FakeWorkers()
    found = run(workers, [1] * 9, Limits(UNLIMITED, 4))
    assert [outcome.answer for outcome in found] == [number * 10 for number in range(9)]
    assert [outcome.files.rank for outcome in found] == list(range(9))
    assert workers.closed == 1


def test_no_ranks_need_no_worker() -> None:
    workers = FakeWorkers()
    assert run(workers, [], Limits(UNLIMITED, 4)) == []
    assert workers.submitted == []


def test_the_number_in_flight_is_bounded() -> None:
    workers = FakeWorkers()
    run(workers, [1] * 20, Limits(UNLIMITED, 3))
    assert max(map(len, workers.at_once)) == 3


def test_the_memory_in_flight_is_bounded() -> None:
    peaks = [30, 30, 30, 60, 100, 10, 10, 10, 90]
    workers = FakeWorkers()
    run(workers, peaks, Limits(100, 8))
    assert max(sum(peaks[number] for number in numbers) for numbers in workers.at_once) == 100
    assert [0, 1, 2] in workers.at_once
    assert [4] in workers.at_once


def test_a_rank_that_is_larger_than_the_memory_is_worked_on_alone() -> None:
    workers = FakeWorkers()
    assert len(run(workers, [10, 1000, 10], Limits(100, 8))) == 3
    assert [1] in workers.at_once
    assert all(numbers == [1] for numbers in workers.at_once if 1 in numbers)


def test_finished_ranks_do_not_pile_up_behind_a_slow_one() -> None:
    """Rank 0 ends last of all that may be begun beside it."""
    workers = FakeWorkers()
    outcomes = scheduled(ranks_of(100), [1] * 100, workers, Limits(UNLIMITED, 2, ahead=5))
    next(outcomes)
    assert max(workers.submitted) == 4
    outcomes.close()


def test_an_iterator_that_is_dropped_closes_the_workers() -> None:
    workers = FakeWorkers()
    outcomes = scheduled(ranks_of(100), [1] * 100, workers, Limits(UNLIMITED, 2))
    next(outcomes)
    outcomes.close()
    assert workers.closed == 1
    assert len(workers.submitted) < 20


def test_a_rank_that_fails_does_not_stop_the_others() -> None:
    bad = InputError("kineto_1.json", "it is cut", "Copy it again")
    workers = FakeWorkers(lambda number: [Failed(number, bad)] if number == 1 else finish(number))
    found = run(workers, [1] * 4, Limits(UNLIMITED, 2))
    assert [outcome.answer for outcome in found] == [0, None, 20, 30]
    assert found[1].error is bad
    assert workers.submitted.count(1) == 1


def test_a_rank_whose_worker_is_lost_once_is_tried_again() -> None:
    lost = {2}

    def happens(number: int) -> list[Event]:
        if number in lost:
            lost.remove(number)
            return [Lost(number, "its worker was killed by signal 9")]
        return finish(number)

    workers = FakeWorkers(happens)
    found = run(workers, [1] * 5, Limits(UNLIMITED, 2))
    assert [outcome.answer for outcome in found] == [0, 10, 20, 30, 40]
    assert workers.submitted.count(2) == 2


def test_a_rank_whose_worker_is_always_lost_is_an_error_that_says_so() -> None:
    why = "its worker was killed by signal 9 (SIGKILL)"
    workers = FakeWorkers(lambda number: [Lost(number, why)] if number == 2 else finish(number))
    found = run(workers, [1] * 5, Limits(UNLIMITED, 2))
    assert [outcome.answer for outcome in found] == [0, 10, None, 30, 40]
    error = found[2].error
    assert isinstance(error, LostWorkerError)
    assert error.path == "kineto_2.json"
    assert "signal 9" in str(error)
    assert "memory" in error.advice
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert workers.submitted.count(2) == TRIES == 3


def test_a_rank_that_was_lost_is_given_twice_the_memory() -> None:
    lost = [2]

    def happens(number: int) -> list[Event]:
        return [Lost(lost.pop(), "its worker was killed")] if number == 2 and lost else finish(number)

    workers = FakeWorkers(happens)
    run(workers, [40] * 6, Limits(100, 2))
    again = len(workers.submitted) - 1 - workers.submitted[::-1].index(2)
    assert all(numbers == [2] for numbers in workers.at_once[again:] if 2 in numbers)


def test_an_error_that_is_not_about_a_rank_ends_the_run_where_it_would_have_ended_one_after_the_other() -> (
    None
):
    """Rank 3 is known to have failed before rank 1 is; the first in order is raised, after the outcomes before it."""
    raised = {1: ArgumentError("of rank 1"), 3: ArgumentError("of rank 3")}
    workers = FakeWorkers(
        lambda number: [Raised(number, raised[number])] if number in raised else finish(number)
    )
    outcomes = scheduled(ranks_of(50), [1] * 50, workers, Limits(UNLIMITED, 4))
    assert next(outcomes).answer == 0
    with pytest.raises(ArgumentError, match="of rank 1"):
        next(outcomes)
    assert max(workers.submitted) == 3
    assert workers.closed == 1


def test_progress_counts_ranks_and_never_goes_back() -> None:
    def happens(number: int) -> list[Event]:
        return [Advanced(number, 0.5), Advanced(number, 0.25), *finish(number)]

    told: list[float] = []
    run(FakeWorkers(happens), [1] * 4, Limits(UNLIMITED, 2), told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    last = told[-1]
    assert isinstance(last, RanksDone)
    assert (last.done, last.ranks) == (4, 4)
    assert 0.125 in told
    assert pickle.loads(pickle.dumps(last)).done == 4


def test_what_a_worker_says_of_a_rank_that_is_done_is_not_heard() -> None:
    workers = FakeWorkers(lambda number: [*finish(number), Lost(number, "late"), Advanced(number, 0.1)])
    assert [outcome.answer for outcome in run(workers, [1] * 3, Limits(UNLIMITED, 1))] == [0, 10, 20]
