"""`tracebraid chakra json` and `tracebraid chakra-jsonizer`, as they are typed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.command import run
from tests.unit.chakra.wire.test_round_trip import RANK
from tracebraid import chakra_from_json, chakra_to_json, write_chakra
from tracebraid.errors import OutputError, WrongTraceError

MODULE = [sys.executable, "-m", "tracebraid", "chakra", "json"]


@pytest.fixture
def et_file(tmp_path: Path) -> Path:
    write_chakra(tmp_path / "job.0.et", RANK)
    return tmp_path / "job.0.et"


@pytest.mark.parametrize("lines", [[], ["--lines"]])
def test_a_file_goes_there_and_back(et_file: Path, lines: list[str]) -> None:
    text, again = et_file.with_name("job.json.gz"), et_file.with_name("again.0.et")
    assert run("chakra", "json", et_file, "-o", text, *lines) == (0, "", "")
    content = gzip.decompress(text.read_bytes())
    first = json.loads(content.splitlines()[0] if lines else content)
    assert (first if lines else first["metadata"])["version"] == "0.0.4"
    assert run("chakra", "json", text, "-o", again) == (0, "", "")
    assert again.read_bytes() == et_file.read_bytes()
    assert run("chakra", "json", text, "-o", again).returncode == 1, "a file that is there is kept"


def test_standard_input_and_output_are_taken(et_file: Path) -> None:
    content = et_file.read_bytes()
    text = subprocess.run([*MODULE, "-"], input=content, capture_output=True, check=True).stdout
    assert [node["id"] for node in json.loads(text)["nodes"]] == ["7", "3", str(2**40)]
    assert subprocess.run([*MODULE, "-"], input=text, capture_output=True, check=True).stdout == content


def test_a_cut_file_is_converted_as_far_as_it_goes_and_that_is_said(et_file: Path) -> None:
    et_file.write_bytes(et_file.read_bytes()[:-3])
    done = run("chakra", "json", et_file, "-o", et_file.with_name("job.json"))
    assert done.returncode == 0
    assert "job.0.et, byte " in done.stderr
    assert len(json.loads(et_file.with_name("job.json").read_text())["nodes"]) == 2


@pytest.mark.parametrize("content", [b"", b"hello", b"{", b'{"a": 1}', b"\x7fELF" + b"\0" * 200])
@pytest.mark.parametrize("name", ["job.0.et", "job.json", "job"])
def test_what_is_neither_is_refused_and_nothing_is_written(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    done = run("chakra", "json", tmp_path / name, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert f"{name}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_functions_refuse_the_other_direction_and_files_that_are_there(et_file: Path) -> None:
    text = et_file.with_name("job.json")
    assert chakra_to_json(et_file, text) == []
    with pytest.raises(OutputError):
        chakra_to_json(et_file, text)
    with pytest.raises(WrongTraceError, match="chakra_from_json"):
        chakra_to_json(text, et_file.with_name("x"))
    with pytest.raises(WrongTraceError, match="chakra_to_json"):
        chakra_from_json(et_file, et_file.with_name("x"))


def test_the_jsonizer_of_chakra_is_taken_at_its_word(et_file: Path) -> None:
    from google.protobuf.json_format import MessageToJson

    from tests.unit.chakra.wire.test_round_trip import parsed

    out = et_file.with_name("out.json")
    out.write_text("of an earlier run")
    options = ["--input_filename", et_file, "--output_filename", out]
    assert run("chakra-jsonizer", *options) == (0, "", "")
    assert out.read_text() == "".join(MessageToJson(message) for message in parsed(et_file))
    assert run("chakra-jsonizer", "--input_filename", et_file, "--output_filename", et_file).returncode == 1
    again = et_file.with_name("again.0.et")
    assert run("chakra", "json", out, "-o", again).returncode == 0
    assert again.read_bytes() == et_file.read_bytes()
