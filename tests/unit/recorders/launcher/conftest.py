"""What all tests of the launcher share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def module() -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
