"""What a user's frame is: a Python function that is neither PyTorch's own nor Python's."""

from __future__ import annotations

import sys

import polars as pl

__all__ = ["FRAMEWORK_PACKAGES", "is_line_frame", "is_user_frame"]

FRAMEWORK_PACKAGES = ("torch", "functorch", "torchgen", "triton", "tracebraid")
"""Packages whose frames stand between a user's line and its ops: PyTorch, its compiler, and this recorder.

Model libraries (transformers, megatron, sglang) are no such: their lines say where in a model an op is.
"""

_LINE = r"^.+\(\d+\): "
_GENERATED = r"^<|torchinductor_"
"""Files that nobody wrote: `<string>`, `<frozen os>`, `<eval_with_key>.3`, `<built-in ...>`, and Inductor's output."""

_STANDARD_LIBRARY = r"[/\\]lib(?:64)?[/\\]python\d[\d.]*[/\\]|[/\\]Lib[/\\]"
_PACKAGES = r"^.*[/\\](?:site|dist)-packages[/\\]"
_FIRST_NAME = r"^([^/\\(]*?)(?:\.py)?(?:[/\\(]|$)"


def is_line_frame(name: pl.Expr) -> pl.Expr:
    """Whether a frame's name tells its file and line: `file(line): function`. Null stays null.

    Built-in functions and the marks of nn.Modules do not.

    Args:
        name: names of Python functions, as text.
    """
    return name.str.contains(_LINE)


def is_user_frame(name: pl.Expr) -> pl.Expr:
    """Whether a frame is a user's: it has a line, in a file of neither `FRAMEWORK_PACKAGES` nor Python's library.

    The profiler cuts the folders of `sys.path` off: what is left of a file of the standard library is `threading.py`
    or `multiprocessing/spawn.py`, which is told from a user's file by the name of the module. Generated code is no
    user's. Null stays null.

    Args:
        name: names of Python functions, as text.
    """
    in_packages = name.str.contains(_PACKAGES)
    path = name.str.replace(_PACKAGES, "")
    package = path.str.extract(_FIRST_NAME)
    is_absolute = path.str.contains(r"^(?:/|\\|[A-Za-z]:)")
    of_library = (
        pl.when(is_absolute)
        .then(path.str.contains(_STANDARD_LIBRARY))
        .otherwise(~in_packages & package.is_in(list(sys.stdlib_module_names)))
    )
    framework = package.is_in(list(FRAMEWORK_PACKAGES))
    return is_line_frame(name) & ~name.str.contains(_GENERATED) & ~of_library & ~framework
