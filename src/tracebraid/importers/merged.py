"""Kineto files that hold several ranks: each pid begins with the label of its rank, as in `[TP01] 4001`.

SGLang writes them (`merge_profiles`: `[TP00-DP00-PP00-EP00] 123`), as do scripts that merge traces for Perfetto. Every
id in them, such as a correlation, belongs to its rank; the header is that of the first merged file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tracebraid.importers.json_stream.chunks import ArrayFile
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode

_LABEL = r'(\[[^\[\]"\\]{1,100}\]|[Rr]ank[ _-]?[0-9]{1,6}(?![0-9]))'
_LABELLED = re.compile(rf"{_LABEL}[ _:/-]*(.*)", re.DOTALL)
_PID_IN_TEXT = re.compile(rf'"pid"\s*:\s*(?:"{_LABEL}|)'.encode())
_NUMBER = re.compile(r"([A-Za-z_]*?)[ _=:-]*([0-9]{1,6})")
_RANK_AXES = ("rank", "global_rank", "")
"""Axes of a label whose number is the rank: `[rank 3]`, `[3]`."""
_AXES = ("pp", "dp", "ep", "cp", "tp")
"""Axes of parallelism, the one with the largest stride of ranks first, as Megatron-LM and SGLang lay them out."""
_CHUNK_BYTES = 1 << 21
_SHOWN = 8
"""Labels in a finding."""


def split_pid(pid: object) -> tuple[str, str]:
    """The label that a pid begins with, and the pid without it; two empty texts of a pid without label."""
    found = _LABELLED.fullmatch(pid) if isinstance(pid, str) else None
    return (found[1], found[2]) if found else ("", "")


def labels_of_ranks(labels: Iterable[str]) -> list[str]:
    """The labels without the empty one, each once; none of a single word in brackets, which is a process's name."""
    found = [*filter(None, dict.fromkeys(labels))]
    return found if len(found) > 1 or any(map(_NUMBER.search, found)) else []


def labels_in(file: ArrayFile) -> Counter[str]:
    """How many pids begin with each label, in the order of the file; empty for an ordinary file.

    Only if the first events have labels, the file is searched for all; nothing is decoded. The count of pids without
    label is that of the empty text. Afterwards the header is complete.
    """
    counts: Counter[str] = Counter()
    if any(_PID_IN_TEXT.findall(file.head())):
        for chunk in file.chunks(_CHUNK_BYTES):
            for label, count in Counter(_PID_IN_TEXT.findall(chunk.data)).items():
                counts[label.decode("utf-8", "replace")] += count
    return counts if labels_of_ranks(counts) else Counter()


def ranks_of_labels(
    path: str, counts: Mapping[str, int], stated: int | None
) -> tuple[dict[str, int], Finding]:
    """The rank of each label, in the order of ranks, and a note on how they are numbered.

    Args:
        path: the file.
        counts: see `labels_in`.
        stated: the rank in the file's header, which is that of its first label.
    """
    ranks, axes = _numbered([label for label in counts if label], stated)
    numbers = _listed(ranks.values())
    details: dict[str, object] = {"ranks": len(ranks), "labels": _listed(ranks), "numbers": numbers}
    if axes:
        details |= {"case": FindingCase.NUMBERED_IN_ORDER, "axes": ", ".join(axes)}
    loss = Loss(counts[""], counts[""]) if counts.get("") else None
    return ranks, Finding(FindingCode.MERGED_RANKS, path, loss=loss, details=details)


def _numbered(labels: Sequence[str], stated: int | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """The rank of each label, in the order of ranks; and the axes that order them, if no label states a rank.

    Args:
        labels: the labels, in the order of the file.
        stated: the rank of the first label by the header; None if that has none.
    """
    parsed = {
        label: {axis.strip("_").lower(): int(number) for axis, number in _NUMBER.findall(label)}
        for label in labels
    }
    axes = {axis for numbers in parsed.values() for axis in numbers}
    candidates = [axis for axis in _RANK_AXES if axis in axes] or ([*axes] if len(axes) == 1 else [])
    for axis in candidates:
        ranks = {label: numbers[axis] for label, numbers in parsed.items() if axis in numbers}
        if len(set(ranks.values())) == len(labels):
            return _sorted(ranks if axis in _RANK_AXES else _from_first(ranks, stated)), ()
    order = (*sorted(axes.difference(_AXES)), *(axis for axis in _AXES if axis in axes))
    by_axes = sorted(labels, key=lambda label: [parsed[label].get(axis, -1) for axis in order])
    first = {label: number for number, label in enumerate(by_axes)}
    return _sorted(_from_first({label: first[label] for label in labels}, stated)), order


def _from_first(ranks: dict[str, int], stated: int | None) -> dict[str, int]:
    """The ranks, moved so that the first of the file is the one in the header."""
    shift = stated - next(iter(ranks.values())) if stated is not None else 0
    return (
        {label: rank + shift for label, rank in ranks.items()} if min(ranks.values()) + shift >= 0 else ranks
    )


def _sorted(ranks: dict[str, int]) -> dict[str, int]:
    return dict(sorted(ranks.items(), key=lambda of_label: of_label[1]))


def _listed(values: Iterable[object]) -> str:
    texts = [*map(str, values)]
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")
