"""Findings and errors as JSON, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from msgspec.structs import asdict, astuple

from tracebraid.errors import (
    ArgumentError,
    InputError,
    NotATraceError,
    ProgramError,
    TracebraidError,
    WrongTraceError,
)
from tracebraid.model.coverage import ChoiceReason, OrphanReason
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.matching import ChosenIterations
from tracebraid.store.manifest import StoredError, StoredFinding

_CODES: dict[str, type[Enum]] = {
    code.__name__: code for code in (FindingCase, FindingCode, ChoiceReason, OrphanReason)
}
_ERRORS: dict[str, type[TracebraidError]] = {
    error.__name__: error
    for error in (InputError, NotATraceError, WrongTraceError, ProgramError, ArgumentError)
}
"""Classes that a file may name; no other class is instantiated."""
_KIND, _VALUE = "$kind", "value"


def stored_findings(findings: Iterable[Finding]) -> tuple[StoredFinding, ...]:
    """Findings as a store holds them."""
    return tuple(
        StoredFinding(
            finding.code.value,
            finding.path,
            finding.where,
            finding.count,
            None if finding.loss is None else astuple(finding.loss),
            {name: to_builtin(value) for name, value in finding.details.items()},
        )
        for finding in findings
    )


def findings_of(stored: Iterable[StoredFinding]) -> tuple[Finding, ...]:
    """The findings that a store holds."""
    return tuple(map(_finding, stored))


def _finding(stored: StoredFinding) -> Finding:
    """Convert a finding, checking that its sentence can be formatted."""
    found = Finding(
        FindingCode.of(stored.code),
        stored.path,
        stored.where,
        stored.count,
        None if stored.loss is None else Loss(*stored.loss),
        {name: from_builtin(value) for name, value in stored.details.items()},
    )
    try:
        str(found)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{stored.code} has other details ({error!r})") from None
    return found


def to_builtin(value: object) -> object:
    """Convert a detail of a finding to JSON; other types are tagged with their kind."""
    if isinstance(value, Enum) and type(value).__name__ in _CODES:
        return {_KIND: type(value).__name__, _VALUE: value.value}
    if isinstance(value, ChosenIterations):
        members = {name: to_builtin(member) for name, member in asdict(value).items()}
        return {_KIND: ChosenIterations.__name__, _VALUE: members}
    if isinstance(value, tuple):
        return {_KIND: "tuple", _VALUE: [to_builtin(item) for item in value]}
    if isinstance(value, list):
        return [to_builtin(item) for item in value]
    if isinstance(value, Mapping):
        return {_KIND: "dict", _VALUE: [[to_builtin(key), to_builtin(item)] for key, item in value.items()]}
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise TypeError(f"a finding contains a {type(value).__name__}, which a store cannot represent")


def from_builtin(value: Any) -> Any:
    """A detail of a finding from JSON."""
    if isinstance(value, list):
        return [from_builtin(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, content = value.get(_KIND), value.get(_VALUE)
    try:
        if kind == "tuple":
            return tuple(from_builtin(item) for item in content or ())
        if kind == "dict":
            return {from_builtin(key): from_builtin(item) for key, item in content or ()}
        if kind == ChosenIterations.__name__ and isinstance(content, dict):
            return _said(ChosenIterations(**{name: from_builtin(item) for name, item in content.items()}))
        if kind in _CODES:
            return _CODES[kind](content)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"a {kind} has another content ({error!r})") from None
    raise ValueError(f"there is no kind {kind!r}")


def _said(choice: ChosenIterations) -> ChosenIterations:
    """Check that a finding's sentence can be formatted."""
    str(choice)
    return choice


def stored_error(error: TracebraidError) -> StoredError:
    """An error as a store holds it."""
    kind = type(error).__name__
    if isinstance(error, InputError):
        return StoredError(
            kind if kind in _ERRORS else InputError.__name__,
            (error.path, error.problem, error.advice, error.where),
        )
    return StoredError(ArgumentError.__name__, (str(error),))


def error_of(stored: StoredError) -> TracebraidError:
    """The error that a store holds."""
    if stored.kind not in _ERRORS or len(stored.values) != (
        1 if stored.kind == ArgumentError.__name__ else 4
    ):
        raise ValueError(f"there is no error {stored.kind!r}")
    return _ERRORS[stored.kind](*stored.values)
