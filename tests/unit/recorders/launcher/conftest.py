"""What all tests of the launcher share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def module() -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


@pytest.fixture(autouse=True)
def calls_of_modules_stay_torch_s_own() -> Iterator[None]:
    """Where a test wraps the watch's wrapper, the watch leaves both in place: later tests are to see torch's own."""
    torch = sys.modules.get("torch")
    call = torch.nn.Module.__call__ if torch is not None else None
    yield
    if torch is not None:
        torch.nn.Module.__call__ = call
