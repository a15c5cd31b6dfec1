"""ThreadSanitizer and AddressSanitizer over the native recorder, for a few seconds; `make sanitize` is the long form.

The first one's program `identity_race` also proves that ids of storages are right while other threads change the
storages that lay at the same addresses.
"""

from __future__ import annotations

import re
import sys

import pytest

from tests.conftest import ROOT
from tests.integration.running import ended, started

pytest.importorskip("torch")

from tools.sanitize_recorder import why_not

pytestmark = pytest.mark.full

SECONDS = 2
LIMIT_S = 600.0


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["thread", "address"])
def test_a_sanitizer_finds_nothing(kind: str) -> None:
    if problem := why_not(kind):
        pytest.skip(problem)
    with started(sys.executable, ROOT / "tools" / "sanitize_recorder.py", SECONDS, kind) as process:
        done = ended(process, limit_s=LIMIT_S)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-4000:]
    assert re.search(r"\d+ storages, 0 ids used again, \d+ aliases, 0 of them wrong", done.stdout)
    assert re.search(r"[1-9]\d* recordings of \d{4,} nodes", done.stdout)
