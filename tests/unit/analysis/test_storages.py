"""Memory by the storages of an Execution Trace: alone, and joined to the allocator's instants."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, node, op, tensor
from tests.unit.linking.made import et_of, linked_of
from tracebraid.analyses import activations, allocations, memory_at_peak, memory_peak, memory_timeline
from tracebraid.model.linked_trace import LinkedTrace

BYTES = (64, 128, 192, 256, 320)
"""Sizes of input, weight, activation, gradient and state."""

LINEAR = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
ADD = "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()"


def events() -> list[Json]:
    """A step: forward, backward with a gradient that is accumulated, and an optimizer."""
    return [
        made("ProfilerStep#1", 0, 1000, 1, cat="user_annotation"),
        made("aten::linear", 100, 100, 2, Sequence_number=7, Fwd_thread_id=0),
        made("autograd::engine::evaluate_function: LinearBackward0", 300, 100, 3),
        made("LinearBackward0", 310, 50, 4, Sequence_number=7, Fwd_thread_id=1),
        made("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 410, 50, 5),
        made("torch::autograd::AccumulateGrad", 420, 10, 6),
        made("Optimizer.step#Adam.step", 500, 100, 7, cat="user_annotation"),
        made("aten::_foreach_add_", 520, 50, 8),
    ]


def made(name: str, ts: float, dur: float, number: int, **args: Any) -> Json:
    return op(name, ts, dur, External_id=number, Record_function_id=number, **args)


def nodes(device: str = "cpu") -> list[Json]:
    source, weight, hidden, gradient, moment = (
        tensor(100 + i, 200 + i, [size // 4], device=device) for i, size in enumerate(BYTES)
    )
    ids = {event["args"]["Record function id"]: event["name"] for event in events()}
    return et_of(
        node(10, ids[1], 1001, rf_id=1, scope=7),
        node(11, ids[2], 10, [source, weight], [hidden], rf_id=2, seq_id=7, op_schema=LINEAR),
        node(12, ids[3], 10, rf_id=3),
        node(13, ids[4], 12, [hidden], [gradient], rf_id=4, seq_id=7, scope=1, fw_tid=1),
        node(14, ids[5], 10, rf_id=5),
        node(15, ids[6], 14, [gradient], rf_id=6, scope=1),
        node(16, ids[7], 10, rf_id=7, scope=7),
        node(17, ids[8], 16, [listed(weight, moment), listed(gradient)], rf_id=8, op_schema=ADD),
    )


def listed(*tensors: tuple[str, list[object], list[int]]) -> tuple[str, list[object], list[object]]:
    kinds, values, shapes = zip(*tensors, strict=True)
    return f"GenericList[{','.join(kinds)}]", list(values), list(shapes)


def instant(ts: float, size: int, address: int, total: int, device: int = -1) -> Json:
    args = {"Addr": address, "Bytes": size, "Total Allocated": total, "Total Reserved": 0}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "args": {**args, "Device Type": int(device >= 0), "Device Id": device},
    }


CATEGORIES = {64: "inputs", 128: "parameters", 192: "activations", 256: "gradients", 320: "optimizer-state"}


def by_size(linked: LinkedTrace) -> dict[int, str]:
    return dict(allocations(linked).select("size_bytes", "category").iter_rows())


def test_without_instants_storages_are_what_was_allocated() -> None:
    linked = linked_of(events(), nodes())
    assert by_size(linked) == CATEGORIES
    assert set(memory_timeline(linked).get_column("source")) == {"storages"}


def test_parameters_and_state_last_and_the_rest_lives_until_its_last_use() -> None:
    linked = linked_of(events(), nodes())
    rows = allocations(linked).select("size_bytes", "lifetime_ns").rows()
    lifetimes = {size: lifetime for size, lifetime in rows if size in (192, 256)}
    assert lifetimes == {192: 360_000 - 200_000, 256: 570_000 - 360_000}
    lasting = allocations(linked).filter(pl.col("size_bytes").is_in([128, 320]))
    assert lasting.get_column("released_ns").to_list() == [None, None]


def test_the_peak_of_storages_adds_up() -> None:
    linked = linked_of(events(), nodes())
    (peak,) = memory_peak(linked).to_dicts()
    assert peak["peak_bytes"] == 128 + 320 + 192 + 256
    assert peak["before_trace_bytes"] == 128 + 320
    found = dict(memory_at_peak(linked).select("category", "bytes").iter_rows())
    assert found == {"parameters": 128, "optimizer-state": 320, "activations": 192, "gradients": 256}


def test_recomputing_saves_the_time_between_the_last_use_in_forward_and_the_first_in_backward() -> None:
    (row,) = activations(linked_of(events(), nodes())).to_dicts()
    assert (row["op"], row["shape"], row["dtype"]) == ("aten::linear", "[48]", "float")
    assert row["saved_byte_seconds"] == pytest.approx(192 * (310 - 200) * 1e-6)


def test_an_allocation_is_the_storage_that_its_op_made() -> None:
    """The activation is told by what reads it: it is released only after the step."""
    instants = [
        instant(110, 999, 1, 999),
        instant(120, 192, 2, 1191),
        instant(150, -999, 1, 192),
        instant(320, 256, 3, 448),
        instant(700, -192, 2, 256),
    ]
    linked = linked_of([*events(), *instants], nodes())
    table = allocations(linked).select("size_bytes", "category", "rule", "shape")
    assert table.rows() == [
        (999, "temporaries", "released-before-backward", None),
        (192, "activations", "read-by-backward", "[48]"),
        (256, "gradients", "accumulated", "[64]"),
    ]


def on_a_device(before: int) -> LinkedTrace:
    """The allocator of a device rounds up to 512 bytes; `before` of them were there before the trace."""
    instants = [instant(120, 512, 2, before + 512, 0), instant(320, 512, 3, before + 1024, 0)]
    return linked_of([*events(), *instants], nodes("cuda:0"))


def test_storages_explain_what_was_there_before_the_trace_where_they_fit() -> None:
    found = dict(memory_at_peak(on_a_device(1000)).select("category", "bytes").iter_rows())
    assert found == {
        "parameters": 128,
        "optimizer-state": 320,
        "activations": 512,
        "gradients": 512,
        "before-trace": 1000 - 128 - 320,
    }


def test_storages_that_do_not_fit_explain_nothing() -> None:
    found = dict(memory_at_peak(on_a_device(400)).select("category", "bytes").iter_rows())
    assert found == {"activations": 512, "gradients": 512, "before-trace": 400}


def test_an_id_that_is_used_again_is_another_storage() -> None:
    again = tensor(102, 202, [1000])
    more = [*events(), made("aten::relu", 700, 10, 9), made("aten::empty", 702, 5, 10)]
    with_more = [
        *nodes()[:-1],
        node(18, "aten::relu", 10, [], [again], rf_id=9),
        node(19, "aten::empty", 18, [], [again], rf_id=10),
        nodes()[-1],
    ]
    table = allocations(linked_of(more, with_more))
    assert table.filter(size_bytes=4000).select("lifetime_ns", "op").rows() == [(3000, "aten::relu")]
    assert table.filter(size_bytes=192).height == 1


def test_what_uses_an_id_after_the_release_uses_another_storage() -> None:
    """Compiled code makes storages that no op shows, under ids that are free again."""
    more = [*events(), made("aten::randn", 50, 20, 9)]
    source = tensor(104, 203, [64])
    first = node(18, "aten::randn", 10, [], [source], rf_id=9)
    kept = [one for one in nodes() if one["name"] != "LinearBackward0"]
    instants = [instant(60, 256, 9, 256), instant(405, -256, 9, 0)]
    table = allocations(linked_of([*more, *instants], [kept[0], first, *kept[1:]]))
    assert table.select("shape", "category").rows() == [("[64]", "inputs")]


COPY = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"


@pytest.mark.slow
def test_a_bucket_that_gradients_are_copied_into_and_the_optimizer_reads_holds_gradients() -> None:
    bucket = tensor(110, 210, [256])
    more = [*events(), made("aten::zeros", 20, 20, 9), made("aten::copy_", 440, 10, 10)]
    *parts, update, process = nodes()
    update["inputs"] = node(17, "", 16, [listed(tensor(101, 201, [32])), listed(bucket)])["inputs"]
    of_bucket = [
        node(18, "aten::zeros", 10, [], [bucket], rf_id=9),
        node(19, "aten::copy_", 14, [bucket, tensor(103, 203, [64])], [bucket], rf_id=10, op_schema=COPY),
    ]
    linked = linked_of([*more, instant(25, 1024, 7, 1024)], [*parts, *of_bucket, update, process])
    assert allocations(linked).select("category", "rule").rows() == [("gradients", "written-by-backward")]
    without = linked_of([*more, instant(25, 1024, 7, 1024)])
    assert allocations(without).get_column("category").to_list() == ["inputs"]
