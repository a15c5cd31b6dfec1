from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.errors import InputError
from tracebraid.filesystem import interface as file_view
from tracebraid.filesystem.interface import FileView, matches, matches_from_end
from tracebraid.filesystem.local import LocalFiles

CLOSE = re.compile(rb"\}\s*\]")


def view_of(text: bytes) -> FileView:
    return FileView("t.json", len(text), lambda start, stop: text[start:stop])


@given(
    st.lists(st.sampled_from([b"}", b"]", b" ", b"x", b"}]", b"} ]"]), max_size=60),
    st.integers(4, 40),
    st.integers(4, 40),
)
def test_matches_are_those_of_the_whole_text_wherever_windows_end(
    parts: list[bytes], window: int, first: int
) -> None:
    """White space between is shorter than the overlap of windows."""
    text = re.sub(rb" {4,}", b"   ", b"".join(parts))
    expected = [match.span() for match in CLOSE.finditer(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_view, "_WINDOW_BYTES", window)
        patch.setattr(file_view, "_FIRST_WINDOW_BYTES", first)
        patch.setattr(file_view, "_OVERLAP_BYTES", 8)
        assert list(matches(CLOSE, view_of(text), 0, len(text))) == expected
        assert list(matches_from_end(CLOSE, view_of(text), 0)) == expected[::-1]


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(bytes(100_000))
    view = LocalFiles().open(str(path)).whole()
    assert isinstance(view, FileView)
    os.truncate(path, 50_000)
    assert len(view[:50_000]) == 50_000
    with pytest.raises(InputError, match=r"t\.json: it became shorter while it was read"):
        view[40_000:60_000]
