"""What wraps a model is told by names that frames, annotations and ops have, and the change follows it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tracebraid.analysis.wrappers import wrappers_of
from tracebraid.api import advising
from tracebraid.model.questions import Advice, Wrapper

_CASES = {
    "FSDP2, annotation": ("FSDP::pre_forward (layers.0)", "user_annotation", Wrapper.FSDP2),
    "FSDP2, op": ("fsdp::all_gather_copy_in", "cpu_op", Wrapper.FSDP2),
    "FSDP2, frame": (
        "torch/distributed/fsdp/_fully_shard/_fsdp_state.py(358): _post_forward",
        "python_function",
        Wrapper.FSDP2,
    ),
    "FSDP": ("FullyShardedDataParallel.forward", "user_annotation", Wrapper.FSDP),
    "ZeRO": ("Optimizer.step#ZeroRedundancyOptimizer.step", "user_annotation", Wrapper.ZERO),
    "DeepSpeed": ("deepspeed/runtime/zero/stage3.py(1203): step", "python_function", Wrapper.ZERO),
    "pipeline": ("Backward 3", "user_annotation", Wrapper.PIPELINE),
    "DDP": ("DistributedDataParallel.forward", "cpu_op", Wrapper.DDP),
    "a user's function": ("train.py(12): fsdp_step", "python_function", None),
}


@pytest.mark.parametrize(("name", "category", "wrapper"), _CASES.values(), ids=_CASES)
def test_told_by_a_name(name: str, category: str, wrapper: Wrapper | None, tmp_path: Path) -> None:
    event = {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": 1, "ts": 1.0, "dur": 5.0, "args": {}}
    path = tmp_path / "kineto_trace_0.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    (linked,) = tracebraid.open(path)
    assert wrappers_of(linked) == ({wrapper} if wrapper else set())


@pytest.mark.parametrize(
    ("detector", "wrapper", "says"),
    [
        ("hidable-communication", Wrapper.FSDP2, "fully_shard"),
        ("hidable-communication", None, "DDP, FSDP2"),
        ("repeated-reduction", Wrapper.DDP, "no_sync"),
        ("small-collectives", Wrapper.ZERO, "bucket"),
        ("rank-imbalance", Wrapper.PIPELINE, "stages"),
        ("host-work", Wrapper.DDP, "DataLoader"),
    ],
)
def test_changes_follow_it(detector: str, wrapper: Wrapper | None, says: str) -> None:
    nothing = pl.DataFrame()
    known = advising.all_detectors().by_name
    wrappers = frozenset([wrapper] if wrapper else [])
    advice = Advice(nothing, nothing, nothing, nothing, known, (0,), 1, 1.0, 1.0, wrappers=wrappers)
    assert says in advice.change_of(detector)
