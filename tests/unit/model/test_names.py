"""Rules about names, asked once for each."""

from __future__ import annotations

from collections.abc import Set

import polars as pl
import pytest

from tracebraid.errors import ArgumentError
from tracebraid.model.name_rules import (
    PATTERNS,
    CallAction,
    by_name,
    call_does,
    distinct_pairs,
    flags_by_name,
)
from tracebraid.model.op_schema import argument_names, written_positions
from tracebraid.model.quantities import OPEN_END, missing_from, number_ranges, numbers_text
from tracebraid.model.step import is_profiler_step, is_step_name, some_steps, step_name
from tracebraid.model.user_frame import is_line_frame, is_user_frame

NAMES = pl.Series("name", ["mm", None, "add", "mm", None])


def test_each_event_has_what_the_rule_says_of_its_name_and_each_name_is_asked_once() -> None:
    asked: list[str | None] = []

    def length(distinct: pl.Series) -> pl.Series:
        asked.extend(distinct.to_list())
        return distinct.str.len_bytes()

    assert by_name(NAMES, length).to_list() == [2, None, 3, 2, None]
    assert len(asked) == len({*asked}) == 3


def test_text_and_categoricals_are_asked_alike() -> None:
    for names in (NAMES, NAMES.cast(pl.Categorical), NAMES.cast(pl.Categorical)[2:]):
        found = flags_by_name(names, lambda name: name.str.starts_with("m"))
        assert found.tolist() == [name == "mm" for name in names.to_list()]


def test_null_has_no_flag() -> None:
    assert not flags_by_name(NAMES.clear(2), lambda name: name.is_not_null()).any()


def test_no_names_have_no_flags() -> None:
    assert len(flags_by_name(NAMES.clear(), lambda name: name.is_not_null())) == 0


def test_pairs_are_distinct_and_each_event_finds_its_own() -> None:
    categories = pl.Series("category", ["op", "op", None, "call", "op"])
    pairs, row = distinct_pairs(NAMES, categories)
    assert pairs.height == 4
    assert pairs[row].rows() == list(zip(NAMES.to_list(), categories.to_list(), strict=True))


def test_no_events_have_no_pairs() -> None:
    pairs, row = distinct_pairs(NAMES.clear(), NAMES.clear().alias("category"))
    assert (pairs.height, len(row)) == (0, 0)


# --- What calls do, by their names -------------------------------------------------------------------


LAUNCH, GRAPH, COPY = CallAction.LAUNCH_KERNEL, CallAction.LAUNCH_GRAPH, CallAction.COPY
ALLOCATE, RELEASE = CallAction.ALLOCATE_ON_DEVICE, CallAction.RELEASE_ON_DEVICE

DOES = [
    ("cudaLaunchKernel", LAUNCH),
    ("cuLaunchKernelEx", LAUNCH),
    ("hipExtModuleLaunchKernel", LAUNCH),
    ("zeCommandListAppendLaunchKernel", LAUNCH),
    ("urEnqueueKernelLaunch", LAUNCH),
    ("cudaGraphLaunch_ptsz", GRAPH),
    ("hipGraphLaunch", GRAPH),
    ("cudaMemcpyAsync", COPY),
    ("hipMemcpyWithStream", COPY),
    ("hipMemsetAsync", CallAction.FILL),
    ("cudaMalloc", ALLOCATE),
    ("cuMemAlloc_v2", ALLOCATE),
    ("cuMemCreate", ALLOCATE),
    ("hipExtMallocWithFlags", ALLOCATE),
    ("zeMemAllocDevice", ALLOCATE),
    ("cudaFree", RELEASE),
    ("cudaFreeAsync_v11020", RELEASE),
    ("hipMemUnmap", RELEASE),
    ("cudaStreamWaitEvent", CallAction.MAKE_STREAM_WAIT),
    ("cudaEventSynchronize", CallAction.WAIT_FOR_EVENT),
    ("zeEventHostSynchronize", CallAction.WAIT_FOR_EVENT),
    ("cuStreamSynchronize", CallAction.WAIT_FOR_STREAM),
    ("hipDeviceSynchronize", CallAction.WAIT),
    ("cudaEventQuery", CallAction.QUERY),
]
DOES_NOT = [
    ("cudaGraphLaunch", LAUNCH),
    ("cudaLaunchHostFunc", LAUNCH),
    ("cudaGraphAddMemcpyNode", COPY),
    ("cudaGraphAddMemsetNode", CallAction.FILL),
    ("cudaMallocHost", ALLOCATE),
    ("cuMemAllocHost_v2", ALLOCATE),
    ("cudaMallocArray", ALLOCATE),
    ("cudaFreeHost", RELEASE),
    ("cuMemFreeHost", RELEASE),
    ("cudaEventRecord", CallAction.WAIT),
    ("cudaStreamWaitEvent", CallAction.WAIT),
]


def judged(name: str | None, action: CallAction) -> bool | None:
    frame = pl.DataFrame({"name": [name]}, schema={"name": pl.String})
    found: bool | None = frame.select(call_does(pl.col("name"), action)).item()
    return found


@pytest.mark.parametrize(("name", "action"), DOES)
def test_what_a_call_does(name: str, action: CallAction) -> None:
    assert judged(name, action) is True


@pytest.mark.parametrize(("name", "action"), DOES_NOT)
def test_what_a_call_does_not(name: str, action: CallAction) -> None:
    assert judged(name, action) is False


def test_every_action_has_a_pattern_and_no_name_stays_null() -> None:
    assert set(PATTERNS) == set(CallAction)
    assert all(judged(None, action) is None for action in CallAction)


# --- Which Python frames are a user's ----------------------------------------------------------------


USERS = [
    "train.py(12): main",
    "/home/me/project/copying.py(3): copy_all",
    "/home/u/project/train.py(3): <module>",
    "transformers/models/qwen2/modeling_qwen2.py(120): forward",
    "/opt/conda/lib/python3.11/site-packages/transformers/modeling.py(7): forward",
    "/srv/lib/model.py(1): forward",
    "torchvision/models/resnet.py(7): forward",
    r"C:\work\train.py(4): main",
    "my folder (2)/train.py(4): <lambda>",
]
OTHERS = [
    "torch/nn/modules/module.py(1743): _call_impl",
    "/opt/conda/lib/python3.11/site-packages/torch/nn/functional.py(9): linear",
    r"C:\Python\Lib\site-packages\torch\_ops.py(4): __call__",
    "threading.py(1002): _bootstrap",
    "multiprocessing/spawn.py(1): main",
    "_collections_abc.py(821): get",
    "/opt/conda/lib/python3.10/contextlib.py(78): inner",
    "<frozen importlib._bootstrap>(241): _call_with_frames_removed",
    "/usr/lib/python3.8/threading.py(932): run",
    "<frozen os>(709): __getitem__",
    "<string>(2): __init__",
    "<eval_with_key>.3(5): forward",
    "/tmp/torchinductor_u/ab/cab.py(80): call",
    "<built-in function linear>",
    "nn.Module: Linear_0",
    "triton/runtime/jit.py(400): run",
    "",
]


def frames_judged(names: list[str | None], which: str) -> list[bool | None]:
    frame = pl.DataFrame({"name": names}, schema={"name": pl.String})
    expression = is_user_frame if which == "user" else is_line_frame
    return frame.select(expression(pl.col("name"))).to_series().to_list()


@pytest.mark.parametrize("name", USERS)
def test_frames_of_a_user(name: str) -> None:
    assert frames_judged([name], "user") == [True]


@pytest.mark.parametrize("name", OTHERS)
def test_frames_of_the_framework_and_of_python(name: str) -> None:
    assert frames_judged([name], "user") == [False]


def test_a_frame_with_a_line() -> None:
    assert frames_judged([*OTHERS[:2], "nn.Module: Linear_0", "<built-in function len>"], "line") == [
        True,
        True,
        False,
        False,
    ]


def test_no_name_is_neither() -> None:
    assert frames_judged([None], "user") == [None]
    assert frames_judged([None], "line") == [None]


# --- Which arguments does an operator write, by its schema -------------------------------------------


NONE: Set[int] = set()


@pytest.mark.parametrize(
    ("schema", "inputs", "outputs"),
    [
        ("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", NONE, NONE),
        ("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", {0}, {0}),
        ("aten::add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", {2}, {0}),
        ("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", NONE, NONE),
        ("aten::split.Tensor(Tensor(a -> *) self, SymInt size, SymInt dim=0) -> Tensor(a)[]", NONE, NONE),
        (
            "aten::topk.values(Tensor self, int k, *, Tensor(a!) values, Tensor(b!) indices)"
            " -> (Tensor(a!) values, Tensor(b!) indices)",
            {2, 3},
            {0, 1},
        ),
        ("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", {0}, NONE),
        ("f(int[2] size=[1, 2], Tensor(a!)? x, Tensor(b!)[]? y) -> Tensor(a!)?", {1, 2}, {0}),
        ("f(Tensor(a! -> *) x, Tensor y) -> ()", {0}, NONE),
        ("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)", {0}, {0}),
        ("f((Tensor(a!), int) pair, Tensor(b!) x) -> ()", {0, 1}, NONE),
        ("aten::native_batch_norm(Tensor x, Tensor(a!)? mean, float eps) -> (Tensor, Tensor)", {1}, NONE),
    ],
)
def test_written_arguments_are_found_by_position(schema: str, inputs: Set[int], outputs: Set[int]) -> None:
    assert written_positions(schema) == (inputs, outputs)


@pytest.mark.parametrize("schema", ["", "aten::add_", "f(Tensor(a!) x", ")(", "f)( -> x", "a -> b", "(" * 99])
def test_what_is_no_schema_writes_nothing(schema: str) -> None:
    assert written_positions(schema) == (NONE, NONE)


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("aten::addmm(Tensor self, Tensor mat1, *, Scalar beta=1) -> Tensor", ("self", "mat1", "beta")),
        ("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", ("self", "scalar")),
        ("aten::empty() -> Tensor", ()),
        ("", ()),
        ("broken(", ()),
    ],
)
def test_arguments_have_their_names_by_position(schema: str, names: tuple[str, ...]) -> None:
    assert argument_names(schema) == names


# --- Which names are those of steps ------------------------------------------------------------------


STEP_NAMES = [
    "ProfilerStep",
    "ProfilerStep#7",
    "ProfilerStep#x",
    "ProfilerSteps#7",
    "my ProfilerStep#7",
    "train#1",
    None,
]


def those(condition: pl.Expr) -> list[str]:
    return pl.DataFrame({"name": STEP_NAMES}).filter(condition).get_column("name").to_list()


def test_a_step_has_the_annotations_name_with_or_without_a_number() -> None:
    assert those(is_step_name(pl.col("name"))) == STEP_NAMES[:3]
    assert those(is_step_name(pl.col("name"), "train")) == ["train#1"]
    assert those(is_step_name(pl.col("name"), "train#1")) == ["train#1"]


def test_the_profiler_never_leaves_the_number_out() -> None:
    assert those(is_profiler_step(pl.col("name"))) == [step_name(7)]


# --- Names of steps for a sentence -------------------------------------------------------------------


def test_of_many_steps_the_first_and_the_last_are_named() -> None:
    names = [f"ProfilerStep#{number}" for number in range(100, 600)]
    words = some_steps(names).replace(",", "").split()
    assert set(names) & set(words) == {*names[:3], *names[-3:]}


def test_a_few_steps_are_all_named() -> None:
    assert some_steps(["a", "b", "c", "d"]) == "a, b, c, d"
    assert some_steps([]) == ""


# --- Lists of numbers: read, written, and compared without making wide ranges ------------------------


def test_numbers_and_ranges_with_spaces_are_read() -> None:
    assert number_ranges(" 0, 8 - 15,3, 7 -") == (range(1), range(8, 16), range(3, 4), range(7, OPEN_END))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "0,",
        "a",
        "-1",
        "-3",
        "-",
        "0--2",
        "1,,2",
        "x",
        "1-2-3",
        "0-1-",
        "0x1",
        "1.5",
        "٣-a",
        "1;2",
        "9" * 30,
    ],
)
def test_what_is_no_list_is_an_error_that_shows_a_list(text: str) -> None:
    with pytest.raises(ArgumentError, match="such as 0,8-15"):
        number_ranges(text, "ranks")


def test_a_range_that_runs_backwards_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(ArgumentError, match="write 8-15"):
        number_ranges("0,15-8")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], "none"),
        ([1, 0], "0, 1"),
        ([2, 0, 1, 1, 9], "0-2, 9"),
        (range(1024), "0-1023"),
        (range(0, 100, 2), "0, 2, 4, 6, 8, 10, 12, 14, ..."),
    ],
)
def test_numbers_are_written_as_ranges_and_shortened(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ("0-3", ""),
        ("0,5", "5"),
        ("2-10", "4-7, 10"),
        ("0-900000000000000", "4-7, 10-900000000000000"),
        ("20-22,21", "20-22, 21"),
        ("0-", ""),
        ("9-", ""),
        ("5,8-", "5"),
        ("10-", "10-"),
        ("0-999999999999", "4-7, 10-999999999999"),
    ],
)
def test_what_is_not_known_is_named_however_wide_the_range_is(asked: str, missing: str) -> None:
    assert missing_from(number_ranges(asked), [0, 1, 2, 3, 8, 9]) == missing
