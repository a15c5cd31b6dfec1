"""Does what a store's JSON says hold together? Its hashes prove who wrote it no more than its name does."""

from __future__ import annotations

from collections.abc import Iterable

from tracebraid.model.matched import ChosenIterations
from tracebraid.store.answers.joined import Index
from tracebraid.store.findings import error_of, findings_of, from_builtin
from tracebraid.store.manifest import CaptureFacts, Manifest, RankContent, StoredError
from tracebraid.store.tables import STORED_TABLES

__all__ = ["check_capture", "check_index", "check_manifest", "check_rank"]

_RANKS_AT_MOST = 1 << 31


def check_manifest(manifest: Manifest) -> None:
    """Check a store's manifest.

    Raises:
        ValueError: a rank is there twice or negative, or a finding or an error is none.
    """
    findings_of(manifest.findings)
    _check_ranks(entry.rank for entry in manifest.ranks)
    for entry in manifest.ranks:
        _check_errors(entry.error, entry.link_error)


def check_rank(content: RankContent) -> None:
    """Check what describes a rank.

    Raises:
        ValueError: a table, finding or error is none, or what should be there is not.
    """
    _check_ranks([content.rank, content.timeline.rank])
    # A newer version may know more tables; what is asked is asked by the names of this one.
    for name in (*content.tables, *content.same, *content.same.values()):
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no table")
    for name, other in content.same.items():
        if name in STORED_TABLES and other not in STORED_TABLES:
            raise ValueError(f"{name} is equal to {other!r}, which is no table")
    _check_errors(content.et_error, content.link_error)
    of_et = () if content.execution_trace is None else content.execution_trace.findings
    for findings in (*content.findings, content.timeline.findings, of_et):
        findings_of(findings)
    if len(content.findings) != len(("host tree", "links", "dependencies")):
        raise ValueError("it has not the findings of three stages")
    if content.et is not None and content.et_error is None and content.execution_trace is None:
        raise ValueError("it says nothing of the Execution Trace")
    if content.link_error is None and content.et_error is None and content.coverage is None:
        raise ValueError("it says nothing of what was linked")
    choice = None if content.matched is None else from_builtin(content.matched.choice)
    if choice is not None and not isinstance(choice, ChosenIterations):
        raise ValueError("it does not say which iterations were matched")


def check_index(index: Index) -> None:
    """Check the index of a store's answers.

    Raises:
        ValueError: it says something of other ranks than its own.
    """
    _check_ranks(index.ranks)
    count = len(index.ranks)
    lists = [index.descriptions, index.facts]
    lists += [part for table in index.tables.values() for part in (table.rows, table.touched)]
    lists += [part for value in index.values.values() for part in (value.values, value.touched)]
    if any(len(part) != count for part in lists):
        raise ValueError("it has not as many answers as ranks")
    for name in (*index.tables, *index.values):
        if "/" in name or "\0" in name:
            raise ValueError(f"{name!r} is no question")
    for facts in index.facts:
        if len(facts.findings) != len(("et", "timeline", "host tree", "links", "dependencies")):
            raise ValueError("it has not the findings of five stages")
        for findings in facts.findings:
            findings_of(findings)


def check_capture(capture: CaptureFacts) -> None:
    """Check what lay beside the traces of a store.

    Raises:
        ValueError: a finding is none.
    """
    findings_of(capture.findings)
    findings_of(capture.leftovers)


def _check_ranks(ranks: Iterable[int]) -> None:
    for rank in ranks:
        if not 0 <= rank < _RANKS_AT_MOST:
            raise ValueError(f"{rank} is no rank")


def _check_errors(*errors: StoredError | None) -> None:
    for error in errors:
        if error is not None:
            error_of(error)
