"""Classify Python frames as user code, PyTorch or the standard library."""

from __future__ import annotations

import re
import sys

import polars as pl

FRAMEWORK_PACKAGES = ("torch", "functorch", "torchgen", "triton", "tracebraid")
"""Packages whose frames stand between a user's line and its ops: PyTorch, its compiler, and this recorder.

Model libraries (transformers, megatron, sglang) are no such: their lines say where in a model an op is.
"""

_LINE = r"^.+\(\d+\): "
_NUMBER = re.compile(r"\(\d+\): ")
_GENERATED = r"^<|torchinductor_"
"""Files that nobody wrote: `<string>`, `<frozen os>`, `<eval_with_key>.3`, `<built-in ...>`, and Inductor's output."""

_STANDARD_LIBRARY = r"[/\\]lib(?:64)?[/\\]python\d[\d.]*[/\\]|[/\\]Lib[/\\]"
_PACKAGES = r"^.*[/\\](?:site|dist)-packages[/\\]"
_FIRST_NAME = r"^([^/\\(]*?)(?:\.py)?(?:[/\\(]|$)"


_ADDRESS = r"( object)? at 0x[0-9a-fA-F]+"
_OBJECT = r" of \S+( object)? at 0x[0-9a-fA-F]+"


def without_address(name: pl.Expr) -> pl.Expr:
    """Name built-in methods by the type of their object, without its address."""
    return name.str.replace_all(_ADDRESS, "")


def without_object(name: pl.Expr) -> pl.Expr:
    """Name built-in methods without their object: `<built-in method sleep>`."""
    return name.str.replace(_OBJECT, "")


def is_line_frame(name: pl.Expr) -> pl.Expr:
    """Return whether a frame's name tells its file and line: `file(line): function`. Null stays null.

    Built-in functions and the marks of nn.Modules do not.
    """
    return name.str.contains(_LINE)


def at_line(name: str, line: int) -> str:
    """The name of a frame with another line."""
    return _NUMBER.sub(f"({line}): ", name, count=1)


def is_user_frame(name: pl.Expr) -> pl.Expr:
    """Return whether a frame is a user's: it has a line, in a file of neither `FRAMEWORK_PACKAGES` nor Python's
    library.

    The profiler cuts the folders of `sys.path` off: what is left of a file of the standard library is `threading.py`
    or `multiprocessing/spawn.py`, which is told from a user's file by the name of the module. Generated code is no
    user's. Null stays null.
    """
    in_packages = name.str.contains(_PACKAGES)
    path, package = _path(name), _package(name)
    is_absolute = path.str.contains(r"^(?:/|\\|[A-Za-z]:)")
    of_library = (
        pl.when(is_absolute)
        .then(path.str.contains(_STANDARD_LIBRARY))
        .otherwise(~in_packages & package.is_in(list(sys.stdlib_module_names)))
    )
    return is_line_frame(name) & ~name.str.contains(_GENERATED) & ~of_library & ~is_framework_frame(name)


def is_framework_frame(name: pl.Expr) -> pl.Expr:
    """Return whether a frame is of one of `FRAMEWORK_PACKAGES`, or generated code. Null stays null."""
    return _package(name).is_in(list(FRAMEWORK_PACKAGES)) | name.str.contains(_GENERATED)


def _path(name: pl.Expr) -> pl.Expr:
    return name.str.replace(_PACKAGES, "")


def _package(name: pl.Expr) -> pl.Expr:
    return _path(name).str.extract(_FIRST_NAME)


MODULE_PREFIX = "nn.Module: "


def is_module_call(name: pl.Expr) -> pl.Expr:
    """Return whether a Python function of the profiler is the call of an nn.Module."""
    return name.str.starts_with(MODULE_PREFIX)


def instance_of(name: pl.Expr) -> pl.Expr:
    """The module of such a call: its class with the number that the profiler gave to the instance, `Linear_3`."""
    return name.str.strip_prefix(MODULE_PREFIX)


def class_of(instance: pl.Expr) -> pl.Expr:
    """The class of an instance: `Linear` of `Linear_3`."""
    return instance.str.replace(r"_\d+$", "")


def calls_modules(name: pl.Expr) -> pl.Expr:
    """Return whether a Python function implements `nn.Module.__call__`; it calls forward functions."""
    return name.str.contains(r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): ")


def forward_function(name: pl.Expr) -> pl.Expr:
    """Return the name of a module of which only the forward function is known: `linear.py:forward`."""
    return name.str.replace(r"^(?:.*[/\\])?([^/\\]*)\(\d+\): (.*)$", "$1:$2")
