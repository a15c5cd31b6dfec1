"""The extras of the package: which libraries each brings, and the check that they are there."""

from __future__ import annotations

from enum import Enum
from importlib.util import find_spec

from tracebraid.errors import MissingLibraryError

OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl"})
"""Schemes of URLs that the extra `remote` reads; others that fsspec knows need packages of their own."""


class Extra(Enum):
    """An extra: its name, what needs it, and the modules that it brings."""

    CHAKRA = "chakra", "Chakra's .et files need protobuf", ("google.protobuf",)
    PANDAS = "pandas", "a pandas DataFrame needs pandas and pyarrow", ("pandas", "pyarrow")
    RAY = "ray", "the engine ray needs Ray", ("ray",)
    REMOTE = "remote", "URLs of object stores are read by fsspec and obstore", ("fsspec", "obstore")
    REPORT = "report", "a page needs jinja2", ("jinja2",)
    SQL = "sql", "SQL needs duckdb", ("duckdb",)

    def __init__(self, extra: str, need: str, modules: tuple[str, ...]) -> None:
        self.extra = extra
        self.need = need
        self.modules = modules


def missing_extra(extra: Extra) -> MissingLibraryError:
    """The error that says what is missing and how to install it."""
    alone = len(extra.modules) == 1
    missing = (
        "which is not installed here. Install it"
        if alone
        else "which are not all installed here. Install them"
    )
    return MissingLibraryError(f"{extra.need}, {missing} with: pip install 'tracebraid[{extra.extra}]'")


def require(extra: Extra) -> None:
    """Check that the modules of an extra are installed, without importing them."""
    if not is_installed(extra):
        raise missing_extra(extra)


def is_installed(extra: Extra) -> bool:
    """Return whether the modules of an extra are installed; they are not imported."""
    enough = any if extra is Extra.REMOTE else all  # obstore and fsspec stand in for each other
    return enough(map(_is_installed, extra.modules))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # Its package is missing, or blocked.
        return False
