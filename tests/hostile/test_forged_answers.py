"""Answers that somebody wrote into a store, with hashes that fit: other columns than the question has are refused."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import msgspec
import pytest

import tracebraid
from tracebraid.api.stored_questions import stored_questions
from tracebraid.errors import InputError
from tracebraid.store.answers.joined import INDEX, Index, joined_file
from tracebraid.store.answers.schemas import schemas
from tracebraid.store.layout import ANSWERS
from tracebraid.store.parquet import frame_of
from tracebraid.store.sealed_json import read_sealed, sealed, sha256_of


@pytest.fixture(scope="module")
def packed(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("packed") / "job.tbstore"
    tracebraid.pack(demo, store, engine="in-process")
    return store


@pytest.fixture
def store(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / "job.tbstore"))


def forge(store: Path, key: str) -> None:
    """Name the first column of an answer otherwise."""
    file, index_file = joined_file(store, key), store / ANSWERS / INDEX
    content = io.BytesIO()
    frame = frame_of(file.read_bytes())
    frame.rename({frame.columns[0]: "forged"}).write_parquet(content)
    file.write_bytes(content.getvalue())
    index, _ = read_sealed(index_file, Index)
    size_bytes, sha256 = len(content.getvalue()), sha256_of(content.getvalue())
    table = msgspec.structs.replace(index.tables[key], size_bytes=size_bytes, sha256=sha256)
    index_file.write_bytes(sealed(msgspec.structs.replace(index, tables={**index.tables, key: table})))


@pytest.mark.parametrize("key", sorted(schemas()))
def test_an_answer_with_other_columns_is_refused(key: str, store: Path) -> None:
    forge(store, key)
    question = stored_questions(0)[key]
    with pytest.raises(InputError, match="it has other columns"):
        tracebraid.open(store, engine="in-process")[0].answered(key, question)


def test_advice_of_forged_answers_is_one_error(store: Path) -> None:
    forge(store, "advice.windows")
    with pytest.raises(InputError, match=r"advice\.windows\.parquet: this file of the store is damaged"):
        tracebraid.advise(tracebraid.open(store, engine="in-process"))
