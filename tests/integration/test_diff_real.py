"""Two captures of one program do not differ in what they run; an op that is added is found, beside what it costs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch.profiler import ProfilerActivity, profile, schedule

import tracebraid
from tests.integration.command import run
from tracebraid.model.answers.job import DiffChange, DiffPart
from tracebraid.model.questions import CautionCode

pytestmark = pytest.mark.torch

STEPS = 12


def model(added: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = [torch.nn.Linear(64, 64), torch.nn.ReLU()]
    layers += [torch.nn.Softplus()] if added else []
    layers += [torch.nn.Linear(64, 8)]
    net = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.randn(32, 64)

    def step() -> None:
        optimizer.zero_grad()
        net(data).sum().backward()
        optimizer.step()

    return step


def capture(folder: Path, added: bool = False, with_stack: bool = False) -> Path:
    folder.mkdir()
    step, path = model(added), folder / "kineto_trace_0.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            with_stack=with_stack,
            schedule=schedule(wait=2, warmup=2, active=STEPS),
            on_trace_ready=lambda found: found.export_chrome_trace(str(path)),
        ) as profiler:
            for _ in range(4 + STEPS):
                step()
                profiler.step()
    return folder


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("captures")
    capture(root / "unused")
    return {
        "first": capture(root / "first"),
        "again": capture(root / "again"),
        "added": capture(root / "added", added=True),
        "stacks": capture(root / "stacks", with_stack=True),
    }


def test_the_same_program_twice_runs_the_same(captures: dict[str, Path]) -> None:
    found = tracebraid.diff(captures["first"], captures["again"])
    assert found.changed_ops.filter(~found.changed_ops.get_column("irregular")).is_empty()
    # A machine that got slower or faster between the two is not a difference of the programs.
    assert {caution.code for caution in found.cautions} <= {CautionCode.DRIFT, CautionCode.STEPS_LEFT_OUT}
    assert found.parts.get_column("difference_ns").sum() == found.difference_ns


def test_an_added_op_is_found_forward_and_backward(captures: dict[str, Path]) -> None:
    found = tracebraid.diff(captures["first"], captures["added"])
    added = found.changed_ops.filter(found.changed_ops.get_column("change") == DiffChange.ADDED.value)
    assert {"aten::softplus", "aten::softplus_backward"} <= set(added.get_column("name"))
    compute = found.parts.filter(found.parts.get_column("part") == DiffPart.COMPUTE.value)
    of_op = compute.filter(compute.get_column("op") == "aten::softplus").row(0, named=True)
    assert of_op["a_ns"] == 0 < of_op["b_ns"]
    assert "aten::softplus" in run("diff", captures["first"], captures["added"]).stdout


def test_stacks_in_one_capture_are_named(captures: dict[str, Path]) -> None:
    found = tracebraid.diff(captures["first"], captures["stacks"])
    codes = {caution.code for caution in found.cautions}
    assert {CautionCode.PROFILER_DIFFERS, CautionCode.MODULES_UNKNOWN} <= codes
    assert found.ops.filter(found.ops.get_column("matched_by").is_null()).height <= found.ops.height * 0.1
