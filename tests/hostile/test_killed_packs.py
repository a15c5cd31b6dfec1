"""A pack killed at any moment leaves a store that opens, says what is missing, and resumes to the same bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracebraid
from tests.integration.command import write_pair
from tests.stores import content_of
from tracebraid.errors import InputError
from tracebraid.model.finding_code import FindingCode

RANKS = 3
KILLS = 8
KILLER = """
import os, random, signal, sys, time
from tracebraid.api.packing import pack

def packed_in(out, kill_after_s):
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        pack(sys.argv[1], out)
        os._exit(0)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return time.monotonic() - begin

random.seed(int(sys.argv[3]))
takes_s = packed_in(sys.argv[2] + "/whole.tbstore", None)
for number in range(int(sys.argv[4])):
    packed_in(f"{sys.argv[2]}/{number}.tbstore", random.uniform(0, takes_s))
"""
"""Packs in processes that share what was imported, and kills each after a part of the time that the first took."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    for rank in range(RANKS):
        write_pair(folder / "traces", rank)
    arguments = map(str, (folder / "traces", folder, 1, KILLS))
    subprocess.run([sys.executable, "-c", KILLER, *arguments], check=True, timeout=300)
    return folder


def missing_of(store: Path) -> Iterator[int]:
    """The ranks that an open of the store says are missing; all where it says that there is no store yet."""
    if not (store / "store.json").exists() or not any(store.glob("ranks/*.json")):
        with pytest.raises(InputError, match=r"no store|no rank of this store"):
            tracebraid.open(store)
        yield from range(RANKS)
        return
    job = tracebraid.open(store)
    missing = set(range(RANKS)) - set(job.ranks)
    said = [finding for finding in job.findings if finding.code is FindingCode.STORE_INCOMPLETE]
    assert [finding.count for finding in said] == ([len(missing)] if missing else [])
    for rank in job.ranks:
        job[rank].compute_all()
    yield from missing


@pytest.mark.slow
def test_a_pack_that_was_killed_is_resumed_to_the_same_bytes(folder: Path) -> None:
    whole = content_of(folder / "whole.tbstore")
    were_missing = []
    for number in range(KILLS):
        store = folder / f"{number}.tbstore"
        missing = list(missing_of(store)) if store.exists() else list(range(RANKS))
        packed = tracebraid.pack(folder / "traces", store)
        assert list(packed.packed) == missing, number
        assert content_of(store) == whole, number
        were_missing.append(len(missing))
    # The moments were spread over the whole pack.
    assert len({0, *were_missing}) > RANKS // 2
