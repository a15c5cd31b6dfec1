"""How the profiler names calls of nn.Modules: `nn.Module: Linear_3` is the fourth instance of `Linear` that it saw."""

from __future__ import annotations

import polars as pl

__all__ = [
    "MODULE_PREFIX",
    "calls_modules",
    "class_of",
    "forward_function",
    "instance_of",
    "is_module_call",
]

MODULE_PREFIX = "nn.Module: "


def is_module_call(name: pl.Expr) -> pl.Expr:
    """Whether a Python function of the profiler is the call of an nn.Module.

    Args:
        name: names of Python functions, as text.
    """
    return name.str.starts_with(MODULE_PREFIX)


def instance_of(name: pl.Expr) -> pl.Expr:
    """The module of such a call: its class with the number that the profiler gave to the instance, `Linear_3`."""
    return name.str.strip_prefix(MODULE_PREFIX)


def class_of(instance: pl.Expr) -> pl.Expr:
    """The class of an instance: `Linear` of `Linear_3`."""
    return instance.str.replace(r"_\d+$", "")


def calls_modules(name: pl.Expr) -> pl.Expr:
    """Whether a Python function is one of `nn.Module.__call__`: what it calls elsewhere is a forward function."""
    return name.str.contains(r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): ")


def forward_function(name: pl.Expr) -> pl.Expr:
    """What a module is called whose forward function alone is known: `linear.py:forward`.

    Args:
        name: names of Python functions with a line, as text.
    """
    return name.str.replace(r"^(?:.*[/\\])?([^/\\]*)\(\d+\): (.*)$", "$1:$2")
