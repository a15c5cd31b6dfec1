"""The environment in which Python processes capture themselves."""

from __future__ import annotations

import os
from pathlib import Path

from tracebraid.recorders.launcher.notes import NOTES_VARIABLE
from tracebraid.recorders.session.settings import Settings

__all__ = ["child_environment"]

_VARIABLE = "TRACEBRAID_CAPTURE"
_INJECT = Path(__file__).parent / "inject"


def child_environment(settings: Settings, notes: Path | None = None) -> dict[str, str]:
    """This process's environment, and what makes Python processes in it capture.

    Args:
        settings: what they capture.
        notes: the folder where they leave notes; None for none.

    The folder `inject` comes first on their module path: Python runs the `sitecustomize` in it at its start.
    """
    environment = dict(os.environ)
    rest = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = f"{_INJECT}{os.pathsep}{rest}" if rest else str(_INJECT)
    environment[_VARIABLE] = settings.to_json()
    environment.pop(NOTES_VARIABLE, None)
    if notes is not None:
        environment[NOTES_VARIABLE] = str(notes)
    return environment
