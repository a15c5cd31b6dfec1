"""Do commands answer from S3 what they answer from the folder, byte for byte?"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import tracebraid
from tests.integration.command import fail, run, run_process, succeed
from tests.servers import REGION, moto_server, s3_environment
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind

BUCKET = "traces"


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A client of moto's S3, whose address and key are in the environment."""
    with moto_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in s3_environment(endpoint).items():
            patch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=endpoint, region_name=REGION)
        client.create_bucket(Bucket=BUCKET)
        yield client
        client.close()


def upload(s3: Any, folder: Path, prefix: str) -> str:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(folder).as_posix()}"
            s3.put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())
    return f"s3://{BUCKET}/{prefix}"


@pytest.fixture(scope="module")
def job(s3: Any) -> str:
    return upload(s3, tracebraid.demo_path(), "runs/job")


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        ("summary", "--json"),
        ("info", "--json"),
        ("check", "--json"),
        ("link", "--json"),
        ("analyze", "ops", "--csv"),
    ],
    ids=" ".join,
)
def test_a_command_prints_the_same(job: str, command: tuple[str, ...]) -> None:
    name, *rest = command
    arguments = [name, rest[0]] if name == "analyze" else [name]
    options = rest[1:] if name == "analyze" else rest
    here, there = (run(*arguments, path, *options) for path in (str(tracebraid.demo_path()), job))
    expected = here.stdout.replace(str(tracebraid.demo_path()), job)
    assert there.stderr == here.stderr.replace(str(tracebraid.demo_path()), job)
    assert (there.returncode, there.stdout) == (here.returncode, expected)
    assert there.stdout


@pytest.mark.full
def test_exported_tables_and_et_plus_are_the_same(job: str, tmp_path: Path) -> None:
    for path, name in ((str(tracebraid.demo_path()), "here"), (job, "there")):
        assert run("export", path, "--to", "csv", "-o", tmp_path / name).returncode == 0
        assert run("link", path, "-o", tmp_path / f"plus_{name}").returncode == 0
    for left, right in (("here", "there"), ("plus_here", "plus_there")):
        names = sorted(path.name for path in (tmp_path / left).iterdir())
        assert names == sorted(path.name for path in (tmp_path / right).iterdir())
        assert len(names) >= 2
        for name in names:
            here = (
                (tmp_path / left / name)
                .read_bytes()
                .replace(str(tracebraid.demo_path()).encode(), job.encode())
            )
            assert here == (tmp_path / right / name).read_bytes(), name


@pytest.mark.full
def test_a_process_of_its_own_reads_s3(job: str) -> None:
    """As users start it, with the environment alone."""
    found = succeed("info", f"{job}/kineto_trace_0.json.gz", "--json", by=run_process)
    assert json.loads(found)["files"][0]["path"] == f"{job}/kineto_trace_0.json.gz"


def test_a_pair_of_objects_is_linked(job: str) -> None:
    et, kineto = (f"{job}/{name}_0.json.gz" for name in ("torch_et", "kineto_trace"))
    linked = tracebraid.link(et, kineto)
    assert linked.et is not None
    assert linked.et.recorder == "native"
    assert linked.coverage.host_ops.share == 1.0


def test_windows_of_a_capture_are_found(s3: Any, tmp_path: Path) -> None:
    for window in (0, 1):
        shutil.copytree(tracebraid.demo_path(), tmp_path / f"window_{window}")
    url = upload(s3, tmp_path, "windows")
    opened = tracebraid.open(url)
    assert [finding.code.value for finding in opened.findings] == ["window-chosen"]
    assert opened.files[0].kineto == f"{url}/window_1/kineto_trace_0.json.gz"
    assert tracebraid.open(url, window=0).files[1].et == f"{url}/window_0/torch_et_1.json.gz"


@pytest.mark.full
def test_pack_reads_urls_and_packs_again_only_what_changed(s3: Any, tmp_path: Path) -> None:
    url = upload(s3, tracebraid.demo_path(), "packed")
    first = tracebraid.pack(url, tmp_path / "job.tbstore")
    assert (len(first.packed), len(first.kept)) == (2, 0)
    assert len(tracebraid.pack(url, tmp_path / "job.tbstore").kept) == 2
    other = (tracebraid.demo_path() / "kineto_trace_1.json.gz").read_bytes()
    s3.put_object(Bucket=BUCKET, Key="packed/kineto_trace_1.json.gz", Body=other + b"\0" * 9)
    again = tracebraid.pack(url, tmp_path / "job.tbstore")
    assert (len(again.packed), len(again.kept)) == (1, 1)


@pytest.mark.parametrize("key", ["a b/ü 1.json", "x%2Fy.json", "q?x.json", "h#a+b&c.json", "..json"])
def test_odd_names_are_taken_as_they_are(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"odd/{key}", Body=b'{"traceEvents": []}')
    folder, _, name = f"s3://{BUCKET}/odd/{key}".rpartition("/")
    assert name in [entry.name for entry in file_system_of(folder).entries(folder)]
    assert file_system_of(folder).open(f"{folder}/{name}").read(0, 5) == b'{"tra'


@pytest.mark.parametrize("key", ["a/../b.json", "a//b.json", "./b.json"])
def test_names_that_the_library_cannot_ask_for_are_refused(s3: Any, key: str) -> None:
    assert "its name" in fail("info", f"s3://{BUCKET}/{key}")


def test_what_is_not_there_or_empty_is_said(s3: Any, job: str) -> None:
    s3.put_object(Bucket=BUCKET, Key="empty/kineto_trace_0.json", Body=b"")
    assert "no such bucket" in fail("summary", "s3://another-bucket/job")
    assert "no such bucket" in fail("summary", "s3://another-bucket")
    assert "no such file or folder" in fail("summary", f"{job}/nothing")
    assert "this is a folder" in fail("link", job, f"{job}/kineto_trace_0.json.gz")
    assert "the file is empty" in fail("info", f"s3://{BUCKET}/empty/kineto_trace_0.json")
    assert file_system_of(job).kind(f"s3://{BUCKET}/run") is Kind.ABSENT


def test_a_repair_behind_a_url_is_refused(job: str) -> None:
    assert "impossible behind a URL" in fail("check", job, "--repair")


def test_without_credentials_the_variables_are_named(job: str) -> None:
    told = fail("summary", job, AWS_PROFILE="nobody-has-this")
    assert "credentials" in told
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in told


@pytest.mark.full
@pytest.mark.parametrize("form", ["zip", "tar", "gztar"])
def test_an_archive_on_s3_is_a_folder(s3: Any, form: str, tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "job"), form, tracebraid.demo_path()))
    s3.put_object(Bucket=BUCKET, Key=f"archives/{archive.name}", Body=archive.read_bytes())
    there, here = (
        tracebraid.open(f"s3://{BUCKET}/archives/{archive.name}"),
        tracebraid.open(tracebraid.demo_path()),
    )
    assert there.ranks == here.ranks
    assert there[1].timeline.events.equals(here[1].timeline.events)
