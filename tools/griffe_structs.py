"""An extension of Griffe, which reads sources for the reference: the constructor of a `msgspec.Struct`.

Its parameters are the fields, as Griffe itself has it for dataclasses.
"""

from __future__ import annotations

from typing import Any

import griffe


class StructConstructors(griffe.Extension):
    """Gives each class whose base is `Struct` an `__init__`; those with further fields of a base have none."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add it when the members of a class are known."""
        if not any(str(base) == "Struct" for base in cls.bases):
            return
        parameters = [
            griffe.Parameter(
                name,
                annotation=member.annotation,
                default=_default(member),
            )
            for name, member in cls.members.items()
            if isinstance(member, griffe.Attribute) and member.annotation and "property" not in member.labels
        ]
        cls.set_member(
            "__init__",
            griffe.Function(
                "__init__",
                parameters=griffe.Parameters(griffe.Parameter("self"), *parameters),
                returns="None",
            ),
        )


def _default(member: griffe.Attribute) -> str | griffe.Expr | None:
    """The default of a field: of `field(default_factory=list)` it is `list()`."""
    value = member.value
    if not isinstance(value, griffe.ExprCall) or str(value.function) != "field":
        return value
    given = {part.name: part.value for part in value.arguments if isinstance(part, griffe.ExprKeyword)}
    factory = given.get("default_factory")
    return griffe.ExprCall(factory, []) if isinstance(factory, griffe.Expr) else given.get("default")
