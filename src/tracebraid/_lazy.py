"""Public names that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def lazy_names(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose public names stand in the stub beside it.

    The stub is read when the first name is used, so that importing the package costs next to nothing.
    """

    @cache
    def public():  # type: ignore[no-untyped-def]
        import lazy_loader

        return lazy_loader.attach_stub(package, file)

    def load(name: str) -> object:
        of_stub, _, names = public()
        return names if name == "__all__" else of_stub(name)

    def listed() -> list[str]:
        names: list[str] = public()[1]()
        return names

    return load, listed
