"""Which Python frames are the user's."""

from __future__ import annotations

import polars as pl
import pytest

from tracebraid.analysis.user_frames import is_user_frame


@pytest.mark.parametrize(
    ("frame", "is_users"),
    [
        ("train.py(10): step", True),
        ("/home/me/project/copying.py(3): copy_all", True),
        ("transformers/models/qwen2/modeling_qwen2.py(503): forward", True),
        ("torch/nn/modules/module.py(1743): _call_impl", False),
        ("/usr/lib/python3.11/site-packages/torch/optim/sgd.py(80): step", False),
        ("/opt/conda/lib/python3.10/site-packages/numpy/core.py(1): f", False),
        ("threading.py(1032): _bootstrap", False),
        ("multiprocessing/process.py(108): run", False),
        ("/opt/conda/lib/python3.10/contextlib.py(78): inner", False),
        ("<built-in method mm of type object at 0x7f1a>", False),
        ("<frozen importlib._bootstrap>(241): _call_with_frames_removed", False),
        ("nn.Module: Linear_0", False),
    ],
)
def test_a_frame_is_the_users_or_not(frame: str, is_users: bool) -> None:
    found = pl.DataFrame({"name": [frame]}).select(is_user_frame(pl.col("name"))).item()
    assert found is is_users
