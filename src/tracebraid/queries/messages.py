"""DuckDB's messages as errors of a query: where, what, and what is near; nothing of the engine's insides."""

from __future__ import annotations

import re

from tracebraid.errors import QueryError
from tracebraid.queries.positions import position_of

__all__ = ["query_error"]

_KIND = re.compile(r"^(?:got external error: )?(?:[A-Z][\w -]* (?:Error|Exception): )?")
"""What the engine calls the kind of an error."""
_LOCATION = re.compile(r"\n+LINE (\d+): ([^\n]*)\n( *)\^[^\n]*", re.S)
_SUGGESTION = re.compile(r"\s*\n\s*(Did you mean|Candidate \w+:|Either|Possible solutions|You might)", re.S)
_CUT = "..."
"""Stands at the ends of a long line that the engine shows in part."""
_CANDIDATES = 4
"""Lines of a suggestion that are kept: a function may have dozens of forms."""
_ADVICE = "Correct it there"


def query_error(message: str, query: str, lines_before: int = 0) -> QueryError:
    """An error of DuckDB as ours.

    Args:
        message: its text.
        query: the query.
        lines_before: lines that stood before the query when it was run.
    """
    where = ""
    located = _LOCATION.search(message)
    if located:
        message = message[: located.start()]
        where = _where(
            query, int(located[1]) - lines_before, located[2], len(located[3]) - len(f"LINE {located[1]}: ")
        )
    problem, _, rest = _split(_KIND.sub("", message).strip())
    return QueryError(problem, _advice(rest), where)


def _where(query: str, line: int, excerpt: str, before: int) -> str:
    """The position of what lies so many characters from the start of an excerpt; "" where it cannot be found."""
    lines = query.split("\n")
    if not 0 < line <= len(lines):
        return ""
    starts_cut = excerpt.startswith(_CUT)
    bare = excerpt[len(_CUT) * starts_cut :].removesuffix(_CUT)
    at = lines[line - 1].find(bare)
    if at < 0 or (at > 0 and not starts_cut):
        return ""
    return position_of(line, at + before - len(_CUT) * starts_cut + 1)


def _split(message: str) -> tuple[str, str, str]:
    """What is wrong, and what the engine suggests."""
    found = _SUGGESTION.search(message)
    if found is None:
        return _in_a_line(message), "", ""
    return _in_a_line(message[: found.start()]), "", message[found.start() :].strip()


def _advice(rest: str) -> str:
    lines = [line.strip() for line in rest.split("\n") if line.strip()]
    kept = lines[: 1 + _CANDIDATES]
    more = [_CUT] if len(lines) > len(kept) else []
    return _in_a_line(" ".join([*kept[:1], ", ".join(kept[1:] + more)])) or _ADVICE


def _in_a_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".!")
