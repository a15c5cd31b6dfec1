"""What a function says of itself that answers a question: the question, and its options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["options_of", "question_of"]


def question_of(answer: Callable[..., Any]) -> str:
    """What a function answers: the first line of its module's docstring."""
    return (inspect.getdoc(sys.modules[answer.__module__]) or "").partition("\n")[0]


def options_of(answer: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters after the first, which is what it is asked of."""
    return tuple(inspect.signature(answer).parameters)[1:]
