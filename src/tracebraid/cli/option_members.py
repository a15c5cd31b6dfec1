"""Options of several commands, or options that belong together, as the members of one dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints

__all__ = ["with_option_members"]


def with_option_members(parameter: str, of: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of which a parameter stands for an option for each member of a dataclass.

    Args:
        parameter: its name.
        of: the dataclass; the annotation of each member is that of its option, and each has a default.
    """
    given = get_type_hints(of, include_extras=True)
    members = [
        inspect.Parameter(
            member.name, inspect.Parameter.KEYWORD_ONLY, default=member.default, annotation=given[member.name]
        )
        for member in fields(of)
    ]

    def with_members(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        signature = inspect.signature(command)
        own = [
            each.replace(annotation=hints[name])
            for name, each in signature.parameters.items()
            if name != parameter
        ]

        @functools.wraps(command)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            options = of(**{member.name: kwargs.pop(member.name) for member in members})
            command(*args, **kwargs, **{parameter: options})

        wrapper.__signature__ = signature.replace(parameters=[*own, *members], return_annotation=None)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {each.name: each.annotation for each in (*own, *members)}
        return wrapper

    return with_members
