"""Which loop of a program is followed."""

from __future__ import annotations

from tracebraid.recorders.launcher.loops import LoopKind, Loops


class Owner:
    """Stands for an optimizer or a module."""


class Other(Owner):
    """Another class of them."""


def followed(loops: Loops, *steps: tuple[Owner, LoopKind]) -> list[Owner]:
    """The owners of the loop that is followed, of the steps that were steps of it."""
    return [owner for owner, kind in steps if loops.stepped(owner, kind, thread=1) is not None]


def test_a_better_kind_of_loop_takes_over_with_its_first_step() -> None:
    loops, one = Loops(), Owner()
    for kind in LoopKind:
        assert loops.stepped(one, kind, thread=1) is not None
    assert loops.stepped(one, LoopKind.MODULE, thread=1) is None
    assert loops.followed is not None
    assert loops.followed.kind is LoopKind.OPTIMIZER


def test_a_loop_takes_over_where_the_one_before_takes_no_steps_for_long() -> None:
    loops, first, second = Loops(), Owner(), Owner()
    kind = LoopKind.OPTIMIZER
    assert followed(loops, (first, kind), *[(second, kind)] * 40) == [first, *[second] * 24]


def test_loops_that_take_turns_leave_the_first_one_followed() -> None:
    loops, generator, critic = Loops(), Owner(), Other()
    turns = [(generator, LoopKind.OPTIMIZER), *[(critic, LoopKind.OPTIMIZER)] * 5]
    assert followed(loops, *turns * 10) == [generator] * 10


def test_once_all_windows_are_recorded_only_a_better_kind_takes_over() -> None:
    loops, first, second = Loops(), Owner(), Owner()
    loops.stepped(first, LoopKind.MODULE, thread=1)
    loops.has_all_windows = True
    assert followed(loops, *[(second, LoopKind.MODULE)] * 40) == []
    assert followed(loops, (second, LoopKind.TRAINING_MODULE)) == [second]
    assert not loops.has_all_windows


def test_a_loop_whose_owner_is_gone_is_over() -> None:
    loops, first, second = Loops(), Owner(), Owner()
    loops.stepped(first, LoopKind.OPTIMIZER, thread=1)
    del first
    assert followed(loops, (second, LoopKind.OPTIMIZER)) == [second]


def test_steps_on_another_thread_than_the_first_are_not_counted() -> None:
    loops, one = Loops(), Owner()
    assert loops.stepped(one, LoopKind.OPTIMIZER, thread=1) is not None
    assert loops.stepped(one, LoopKind.OPTIMIZER, thread=2) is None
    assert [loop["steps"] for loop in loops.summary()] == [1]


def test_the_summary_counts_loops_of_objects_that_are_gone() -> None:
    loops, kept = Loops(), Other()
    for _ in range(600):
        loops.stepped(Owner(), LoopKind.MODULE, thread=1, may_follow=False)
    loops.stepped(kept, LoopKind.OPTIMIZER, thread=1)
    assert [(loop["name"], loop["steps"], loop["followed"]) for loop in loops.summary()] == [
        ("Owner", 600, False),
        ("Other", 1, True),
    ]
