"""Are URLs and paths on disk taken apart alike, and is nothing secret shown?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tracebraid.filesystem.paths import is_loopback, is_url, joined, name_of, parent_of, shown, within


@pytest.mark.parametrize("path", ["s3://b/k", "gs://b", "https://h/x.json", "memory://a", "S3://b"])
def test_a_url_is_known_by_its_scheme(path: str) -> None:
    assert is_url(path)


@pytest.mark.parametrize("path", ["a/b", "/a://b", "c:/x", "s3:/b/k", "x://y", "-", "", Path("s3://b/k")])
def test_a_path_on_disk_is_no_url(path: str | Path) -> None:
    assert not is_url(path)


@pytest.mark.parametrize(
    ("path", "name", "parent"),
    [
        ("/a/b/c.json", "c.json", "/a/b"),
        ("c.json", "c.json", "."),
        ("s3://bucket/a/c.json", "c.json", "s3://bucket/a"),
        ("s3://bucket/a/", "a", "s3://bucket"),
        ("s3://bucket/c?d#e.json", "c?d#e.json", "s3://bucket"),
        ("s3://bucket", "bucket", "s3://bucket"),
        ("https://host/a/c.json.gz?X-Amz-Signature=a/b", "c.json.gz", "https://host/a"),
        ("https://host/a%20b/%C3%BC.json", "ü.json", "https://host/a%20b"),
        ("memory://c.json", "c.json", "memory://c.json"),
    ],
)
def test_names_and_folders(path: str, name: str, parent: str) -> None:
    assert (name_of(path), parent_of(path)) == (name, parent)


def test_paths_are_joined_and_cut() -> None:
    assert joined("s3://b/a/", "c", "d.json") == "s3://b/a/c/d.json"
    assert joined("a", "c", "d.json") == "a/c/d.json"
    assert within("s3://b/a", "s3://b/a/c/d.json") == "c/d.json"
    assert within("s3://b/a", "s3://b/ab/d.json") == "d.json"


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("s3://b/a b/ü%2F.json", "s3://b/a b/ü%2F.json"),
        ("https://h/x.json?X-Amz-Signature=SECRET&a=1#SECRET", "https://h/x.json?..."),
        ("https://SECRET@h/x.json", "https://***@h/x.json"),
        ("ftp://user:SECRET@h/x.json", "ftp://***@h/x.json"),
        (
            "abfss://container@account.dfs.core.windows.net/x?sig=SECRET",
            "abfss://container@account.dfs.core.windows.net/x?...",
        ),
        ("s3://b/x.json?X-Amz-Signature=SECRET", "s3://b/x.json?..."),
        ("/a/b?c=d", "/a/b?c=d"),
    ],
)
def test_what_may_be_secret_in_a_url_is_not_shown(url: str, public: str) -> None:
    assert shown(url) == public


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:80/x", True),
        ("http://localhost/x", True),
        ("http://[::1]/x", True),
        ("http://127.0.0.1.evil.com/x", False),
        ("http://127.0.0.1@evil.com/x", False),
        ("http://10.0.0.1/x", False),
        ("http://[::1/x", False),
        ("", False),
    ],
)
def test_this_machine_is_known_by_its_address(url: str, here: bool) -> None:
    assert is_loopback(url) is here
