"""Callbacks that tests hand over."""

from __future__ import annotations

from typing import NoReturn

import pytest


def never(given: object) -> NoReturn:
    """Fail the test: nothing may call this in it."""
    pytest.fail(f"called with {given!r}")
