"""What is said, and how soon, where a server is slow, fails, cuts its answers or refuses?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.servers import Stub, cut_after, drip, hang, s3_environment, status, stub_server
from tracebraid import clock
from tracebraid.errors import ArgumentError, InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind
from tracebraid.importers.kineto.reader import read_timeline

NAME = "kineto_trace_0.json"
PATH = f"/bucket/{NAME}"
EVENTS = 30_000
TEXT = json.dumps(
    {
        "traceEvents": [
            {
                "ph": "X",
                "name": f"aten::op{i}",
                "cat": "cpu_op",
                "ts": i * 10,
                "dur": 5,
                "pid": 1,
                "tid": 1,
                "args": {},
            }
            for i in range(EVENTS)
        ]
    }
).encode()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "pause", lambda _: None)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    with stub_server(files={PATH: TEXT, "/bucket/empty.json": b""}) as server:
        for name, value in s3_environment(server.address).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=["s3", "web"])
def root(request: pytest.FixtureRequest, stub: Stub) -> str:
    """The bucket by either way to it."""
    return "s3://bucket" if request.param == "s3" else f"{stub.address}/bucket"


def untouched(_: Any) -> bool:
    """No fault."""
    return False


def events_of(url: str) -> int:
    return read_timeline(url).events.height


def refusal(url: str) -> str:
    with pytest.raises(InputError) as caught:
        read_timeline(url)
    assert caught.value.path == url
    return caught.value.problem


def test_a_trace_is_read_in_few_ranges(stub: Stub, root: str) -> None:
    assert events_of(f"{root}/{NAME}") == EVENTS
    ranges = [request[2] for request in stub.requests if request[2] != "bytes=0-0" and request[0] == "GET"]
    assert ranges == ["bytes=0-131071", "bytes=131072-1048575", f"bytes=1048576-{len(TEXT) - 1}"]


def test_a_fault_that_passes_is_not_noticed(stub: Stub, root: str) -> None:
    stub.faults = [status(503), status(500), untouched, status(429), cut_after(60_000), cut_after(10)]
    assert events_of(f"{root}/{NAME}") == EVENTS


def test_a_cut_body_goes_on_where_it_ended(stub: Stub) -> None:
    stub.faults = [untouched, untouched, cut_after(300_000)]
    assert events_of(f"{stub.address}{PATH}") == EVENTS
    assert stub.requests[3][2] == f"bytes={131072 + 300_000}-1048575"


@pytest.mark.parametrize(
    ("fault", "word", "requests"),
    [
        (status(503), "the server fails (503", 5),
        (cut_after(3), "the connection ended", 5),
        (drip, "too slow", 2),
        (hang, "too slow", 2),
        (status(403, "InvalidAccessKeyId"), "access is denied (403 Forbidden", 1),
        (status(404), "there is no such file", 1),
    ],
    ids=["503", "cut", "drip", "hang", "403", "404"],
)
def test_a_fault_that_lasts_is_one_error_after_few_tries(
    stub: Stub, root: str, fault: Any, word: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if word == "too slow":
        monkeypatch.setenv("TRACEBRAID_REMOTE_TIMEOUT_S", "0.4")
    stub.faults = [untouched, *[fault] * 20]
    assert word in refusal(f"{root}/{NAME}")
    assert len(stub.requests) == 1 + requests


def test_the_code_of_s3_is_said_and_the_key_is_not(stub: Stub) -> None:
    stub.faults = [untouched, status(403, "SignatureDoesNotMatch")]
    with pytest.raises(InputError, match=r"SignatureDoesNotMatch.*AWS_ACCESS_KEY_ID") as caught:
        read_timeline("s3://bucket/" + NAME)
    assert "secret-of-the-key" not in str(caught.value)


def test_a_bucket_of_another_region_is_said(stub: Stub) -> None:
    stub.faults = [status(301, "PermanentRedirect")]
    assert "another region" in refusal(f"s3://bucket/{NAME}")


def test_a_file_that_changes_while_it_is_read_is_refused(stub: Stub, root: str) -> None:
    def change(_: Any) -> bool:
        stub.files[PATH] = TEXT[:-1] + b" "
        return False

    stub.faults = [untouched, untouched, change]
    assert "changed" in refusal(f"{root}/{NAME}")


def test_a_file_that_vanishes_while_it_is_read_is_said(stub: Stub, root: str) -> None:
    def remove(_: Any) -> bool:
        stub.files.pop(PATH, None)
        return False

    stub.faults = [untouched, untouched, remove]
    assert "no such file" in refusal(f"{root}/{NAME}")


def test_an_empty_file_is_said(stub: Stub, root: str) -> None:
    assert "empty" in refusal(f"{root}/empty.json")


def test_a_rank_that_cannot_be_read_does_not_stop_the_others(stub: Stub) -> None:
    stub.files = {f"/bucket/job/kineto_trace_{rank}.json": TEXT for rank in (0, 1)}
    stub.listed = [path.removeprefix("/bucket/") for path in stub.files]
    stub.always = lambda handler: "trace_1" in handler.path and status(403)(handler)
    job = tracebraid.open("s3://bucket/job")
    assert job.ranks == [0, 1]
    assert job[0].timeline.events.height == EVENTS
    with pytest.raises(InputError, match=r"kineto_trace_1.json: access is denied"):
        _ = job[1].timeline


@pytest.mark.full
def test_a_folder_of_100_000_objects_is_listed_by_pages(stub: Stub) -> None:
    stub.listed = [f"many/step_{number:06d}.txt" for number in range(100_000)]
    files = file_system_of("s3://bucket/many")
    assert files.kind("s3://bucket/many") is Kind.FOLDER
    stub.requests.clear()
    entries = files.entries("s3://bucket/many")
    assert (len(entries), entries[-1].name) == (100_000, "step_099999.txt")
    assert len(stub.requests) == 100


def test_a_server_that_nobody_runs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_environment("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)
    for url in (f"s3://bucket/{NAME}", f"http://127.0.0.1:1/{NAME}"):
        assert refusal(url) == "the server cannot be reached (Connection refused)"


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEBRAID_REMOTE_TIMEOUT_S", seconds)
    with pytest.raises(ArgumentError, match="TRACEBRAID_REMOTE_TIMEOUT_S"):
        tracebraid.open("s3://bucket/job")


def test_nothing_is_written_while_a_url_is_read(
    stub: Stub, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    events_of(f"{root}/{NAME}")
    assert list(tmp_path.iterdir()) == []
