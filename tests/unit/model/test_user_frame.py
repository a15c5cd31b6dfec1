"""Which Python frames are a user's."""

from __future__ import annotations

import polars as pl
import pytest

from tracebraid.model.user_frame import is_line_frame, is_user_frame

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


def judged(names: list[str | None], which: str) -> list[bool | None]:
    frame = pl.DataFrame({"name": names}, schema={"name": pl.String})
    expression = is_user_frame if which == "user" else is_line_frame
    return frame.select(expression(pl.col("name"))).to_series().to_list()


@pytest.mark.parametrize("name", USERS)
def test_frames_of_a_user(name: str) -> None:
    assert judged([name], "user") == [True]


@pytest.mark.parametrize("name", OTHERS)
def test_frames_of_the_framework_and_of_python(name: str) -> None:
    assert judged([name], "user") == [False]


def test_a_frame_with_a_line() -> None:
    assert judged([*OTHERS[:2], "nn.Module: Linear_0", "<built-in function len>"], "line") == [
        True,
        True,
        False,
        False,
    ]


def test_no_name_is_neither() -> None:
    assert judged([None], "user") == [None]
    assert judged([None], "line") == [None]
