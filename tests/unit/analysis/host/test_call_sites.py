"""Which Python function of the user each host event is in."""

from __future__ import annotations

from tests.builders import op
from tests.planted import Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.host.call_sites import call_sites
from tracebraid.model.linked_trace import LinkedTrace

TORCH = "/x/site-packages/torch/nn/functional.py(1): f"
MODULE = "/x/site-packages/torch/nn/modules/module.py(727): _call_impl"


def sites(linked: LinkedTrace) -> dict[int, str | None]:
    return dict(call_sites(linked).iter_rows())


def test_the_innermost_frame_of_the_user_counts_even_outside_of_torch_s_own() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with (
        host.frame("train.py(3): main"),
        host.frame("model.py(7): forward", 1),
        host.module("Linear_0"),
        host.frame("torch/nn/modules/linear.py(1): forward"),
        host.frame("<built-in function linear>"),
        host.op("aten::linear", 2) as outer,
        host.op("aten::addmm", 1) as inner,
    ):
        pass
    found = sites(scene.linked())
    assert found[outer.event_id] == found[inner.event_id] == "model.py(7): forward"


def test_without_a_frame_of_the_user_it_is_the_innermost_that_has_a_line() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with (
        host.frame("threading.py(3): run"),
        host.frame("torch/x.py(1): f"),
        host.frame("<built-in function g>"),
        host.op("aten::add", 2) as planted,
    ):
        pass
    alone = host.run("aten::mul", 3)
    found = sites(scene.linked())
    assert found[planted.event_id] == "torch/x.py(1): f"
    assert found[alone.event_id] is None


def test_a_backward_op_on_a_thread_without_frames_has_the_line_of_its_forward_op() -> None:
    scene = Scene(devices=())
    host, autograd = scene.thread(), scene.thread()
    with host.frame("model.py(7): forward"), host.op("aten::mm", 5, sequence=1) as forward:
        pass
    autograd.until(host.now)
    with autograd.backward("MmBackward0", forward, host, 1) as backward, autograd.op("aten::mm", 1) as inner:
        pass
    other = autograd.run("aten::add", 1)
    found = sites(scene.linked())
    assert found[backward.event_id] == found[inner.event_id] == "model.py(7): forward"
    assert found[other.event_id] is None


def test_old_traces_have_the_stack_with_the_op() -> None:
    linked = linked_of(
        [
            op(
                "a",
                0,
                10,
                Call_stack=f"{TORCH};{MODULE};net.py(30): forward;train.py(5): main",
            ),
            op("b", 20, 10, Call_stack=f"{MODULE}"),
            op("c", 40, 10, Call_stack=""),
            op("d", 60, 10),
        ]
    )
    assert list(sites(linked).values()) == ["net.py(30): forward", MODULE, None, None]


def test_no_events_have_no_call_sites() -> None:
    assert call_sites(linked_of([])).is_empty()
