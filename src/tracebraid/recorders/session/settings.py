"""Settings of a capture: content, method and destination, for one process or all that `tracebraid capture` starts."""

from __future__ import annotations

import json

from msgspec import Struct, field
from msgspec.structs import asdict

from tracebraid.errors import CaptureError
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.version import __version__

BACKENDS = ("auto", "native", "torch")
"""Recorders of Execution Traces; `auto` is the native recorder if it can be built."""

STEPS_BY = ("auto", "optimizer", "module")
"""Events that end the steps of a program that does not mark them."""


class Settings(Struct, frozen=True):
    """Settings of a capture.

    Args:
        out_dir: the folder for the files.
        schedule: which steps.
        stacks: whether to record Python stacks.
        memory: whether to record allocations.
        overwrite: whether files of an earlier run may be replaced.
        nsys: whether Nsight Systems, which runs outside, records the times instead of Kineto.
        new: whether the files go to a new folder inside `out_dir`: `run_1`, `run_2` and so on.
        steps_by: what ends a step of a program that does not mark it: `optimizer`, `module` (a call of the outermost
            one), or `auto`: the optimizer, else the module.
        recorder: who records the Execution Trace: `native`, `torch`, or `auto`.
        calibrate: whether to measure the costs of recording after a window.
    """

    out_dir: str
    schedule: Schedule = field(default_factory=Schedule)
    stacks: bool = False
    memory: bool = False
    overwrite: bool = False
    nsys: bool = False
    recorder: str = "auto"
    new: bool = False
    steps_by: str = "auto"
    calibrate: bool = True

    def to_json(self) -> str:
        """The settings as text."""
        return json.dumps({**asdict(self), "schedule": asdict(self.schedule)})

    @staticmethod
    def from_json(text: str) -> Settings:
        """The settings from text."""
        try:
            members = json.loads(text)
            return Settings(**{**members, "schedule": Schedule(**members["schedule"])})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CaptureError(
                f"the settings are not those of tracebraid {__version__}, which is installed here: another version "
                f"started the capture ({error})"
            ) from None
