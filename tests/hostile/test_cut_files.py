"""Files that were cut or damaged anywhere are read for the rest."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from tests.builders import (
    et_text,
    kineto_text,
    op,
)
from tests.hostile.reading import (
    EVENTS,
    KINETO,
    NODES,
    codes,
    names,
    timeline,
    trace,
)
from tracebraid.errors import NotATraceError

LAYOUTS = {
    "as Kineto writes it": KINETO,
    "one line": json.dumps({"traceEvents": EVENTS, "distributedInfo": {"rank": 0}}),
    "a bare list": json.dumps([*EVENTS, op("nested", 1, 2, x=[{"a": 1}, {"b": [{}]}])]),
}


def ends(text: str, array: str) -> list[int]:
    """Where each object of the array ends."""
    place = text.index("[", text.index(array) if array in text else 0) + 1
    found = []
    while "{" in text[place:]:
        begin = text.index("{", place)
        if text[place:begin].strip(" \n,"):
            break
        place = json.JSONDecoder().raw_decode(text, begin)[1]
        found.append(place)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_trace_cut_at_any_byte_gives_all_events_before_the_cut(tmp_path: Path, layout: str) -> None:
    text = LAYOUTS[layout]
    whole = ends(text, '"traceEvents"')
    assert len(whole) >= 3
    for cut in range(len(text.rstrip())):
        before = sum(end <= cut for end in whole)
        try:
            found = timeline(tmp_path, text[:cut])
        except NotATraceError:
            assert before == 0, cut
            continue
        assert names(found) == ["first", "second", "third", "nested"][:before], cut
        assert codes(found), cut


def test_an_execution_trace_cut_at_any_byte_gives_all_nodes_before_the_cut(tmp_path: Path) -> None:
    brief = [{**one, "attrs": one["attrs"][:2]} for one in NODES[:4]]
    text = et_text(brief)
    whole = ends(text, '"nodes"')
    assert len(whole) == 4
    for cut in range(len(text.rstrip())):
        before = sum(end <= cut for end in whole)
        try:
            found = trace(tmp_path, text[:cut])
        except NotATraceError:
            assert before == 0, cut
            continue
        assert found.nodes.height == before, cut
        assert "truncated" in codes(found), cut


def test_a_gzip_file_cut_at_any_byte_gives_the_rest_or_one_error(tmp_path: Path) -> None:
    packed = gzip.compress(KINETO.encode(), mtime=0)
    most = 0
    for cut in range(1, len(packed)):
        try:
            found = timeline(tmp_path, packed[:cut], "t.json.gz")
        except NotATraceError:
            assert most == 0, cut
            continue
        assert "compression-damaged" in codes(found), cut
        assert len(names(found)) >= most
        most = len(names(found))
    assert most == 3


def test_a_damaged_gzip_file_gives_the_rest_or_one_error(tmp_path: Path) -> None:
    text = kineto_text([op(random.Random(i).randbytes(40).hex(), i, 1) for i in range(500)])
    packed = gzip.compress(text.encode(), mtime=0)
    for seed in range(40):
        rng = random.Random(seed)
        damaged = bytearray(packed)
        at = rng.randrange(len(packed) // 2, len(packed) - 9)
        damaged[at : at + 4] = rng.randbytes(4)
        found = timeline(tmp_path, bytes(damaged), "t.json.gz")
        assert "compression-damaged" in codes(found)
        assert len(names(found)) > 150
