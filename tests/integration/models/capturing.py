"""Captures a step of a model with torch.profiler on the CPU, and counts its FLOPs with PyTorch's own counter."""

from __future__ import annotations

import warnings
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

from tests.integration.models.small import Step
from tracebraid import link
from tracebraid.model.linked_trace import LinkedTrace


def captured(step: Step, folder: Path) -> LinkedTrace:
    """One step, in an annotation `step`."""
    path = folder / "kineto_trace_0.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler,
            record_function("step#0"),
        ):
            step()
        profiler.export_chrome_trace(str(path))
    return link(None, path)


def torch_flops(step: Step) -> dict[str, int]:
    """FLOPs of a step by the names of ops that Kineto uses, as FlopCounterMode counts them."""
    with FlopCounterMode(display=False) as counter:
        step()
    counts = counter.get_flop_counts()["Global"]
    return {f"aten::{packet.__name__}": flops for packet, flops in counts.items()}
