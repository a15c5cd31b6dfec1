"""Which Python functions are the user's own, and not of torch, the standard library or Python itself?"""

from __future__ import annotations

import polars as pl

__all__ = ["is_user_frame"]

_SOURCE_LINE = r"\.py\(\d+\)"
"""In the name of a Python frame: the file and line of the function, which built-in functions and modules lack."""

_NOT_OF_USER = (
    r"^<|(^|/)torch/|site-packages|dist-packages|/lib/python3[.\d]*/"
    r"|^(threading|contextlib|queue|selectors|functools|runpy|copy|json|logging|pickle|enum|typing|inspect|warnings"
    r"|subprocess|socket|weakref|abc|re|random|dataclasses|os|glob|tempfile|asyncio|concurrent|collections"
    r"|importlib|multiprocessing)(/|\.py\()"
)
"""In the names of frames of torch, of installed packages, and of the modules of the standard library that loops use.
Kineto leaves out the folders of `sys.path`: the frame of a package begins with its name, and counts as the user's."""


def is_user_frame(name: pl.Expr) -> pl.Expr:
    """Whether a Python frame is the user's.

    Args:
        name: names of frames, as text: `train.py(10): step`.
    """
    return name.str.contains(_SOURCE_LINE) & ~name.str.contains(_NOT_OF_USER)
