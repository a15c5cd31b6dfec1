"""Find the declared analyses.

A function under `@analysis` or `@job_analysis` in a module of this package is an analysis; no list names it. The
source is searched for names, so that asking for one analysis imports its module alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import tracebraid.analysis
from tracebraid.model.analysis import Analysis, Family, JobAnalysis, declaration_of

_DECLARATION = re.compile(r"^@(job_)?analysis\(.*?^def (\w+)\(", re.MULTILINE | re.DOTALL)
_FAMILIES = list(Family)


class _Home(NamedTuple):
    module: str
    of_job: bool


@cache
def _homes() -> dict[str, _Home]:
    """Where each analysis is declared, by name, and whether it is one of a job."""
    return dict(sorted(_found()))


def _found() -> Iterator[tuple[str, _Home]]:
    for folder in map(Path, tracebraid.analysis.__path__):
        for path in sorted(folder.rglob("*.py")):
            module = ".".join((tracebraid.analysis.__name__, *path.relative_to(folder).with_suffix("").parts))
            for of_job, name in _DECLARATION.findall(path.read_text(encoding="utf-8")):
                yield name, _Home(module.removesuffix(".__init__"), bool(of_job))


def analysis_names() -> tuple[str, ...]:
    """Return the names of all analyses, in alphabetical order."""
    return tuple(_homes())


@cache
def analysis_named(name: str) -> Analysis:
    """Return the analysis of a name; KeyError if there is none."""
    found = declaration_of(getattr(import_module(_homes()[name].module), name))
    assert found is not None
    return found


@cache
def all_analyses() -> tuple[Analysis, ...]:
    """Return all analyses, by family and name."""
    return _in_order(_homes())


@cache
def rank_analyses() -> tuple[Analysis, ...]:
    """Return the analyses of one rank."""
    return _in_order(name for name, home in _homes().items() if not home.of_job)


@cache
def job_analyses() -> tuple[JobAnalysis, ...]:
    """Return the analyses over the ranks of a job; those of one rank are not imported."""
    found = _in_order(name for name, home in _homes().items() if home.of_job)
    return tuple(analysis for analysis in found if isinstance(analysis, JobAnalysis))


def _in_order(names: Iterable[str]) -> tuple[Analysis, ...]:
    found = map(analysis_named, names)
    return tuple(sorted(found, key=lambda analysis: _FAMILIES.index(analysis.family)))
