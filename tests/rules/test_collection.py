"""Every worker of xdist collects the same tests: their names hold nothing that changes from process to process."""

import re

import pytest

# What gzip writes begins so, with the time of day after it; and how Python prints an object without a form of its own.
VARIES = re.compile(r"\\x1f\\x8b\\x08\\x00| at 0x[0-9a-f]{6,}|/pytest-of-")


@pytest.mark.parametrize(
    "name", [r"[\x1f\x8b\x08\x00\x97\x00]", "[<object object at 0x7f00a0b0c0d0>]", "[/pytest-of-a/pytest-0]"]
)
def test_the_rule_sees_what_varies(name: str) -> None:
    assert VARIES.search(name)


def test_no_name_of_a_test_varies(request: pytest.FixtureRequest) -> None:
    assert [
        item.nodeid
        for item in request.session.items
        if VARIES.search(item.nodeid) and not item.nodeid.startswith("tests/rules/test_collection.py")
    ] == []
