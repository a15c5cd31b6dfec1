"""Odd values of arguments, as people and scripts give them."""

from __future__ import annotations

import random

__all__ = ["ODD_NUMBERS", "ODD_TEXTS", "odd_text"]

ODD_NUMBERS = (
    *("0", "1", "2", "3", "-1", "-0", "007", "1_000", "+1", " 1", "1.5", "0.1", "1e3", "1e308", "1e400"),
    *("nan", "NaN", "inf", "-inf", "Infinity", "0x10", "\u0663", "\u00b2", "1e-400", "4.9e-324"),
    *("127", "128", "255", "256", "32767", "65535", "65536", "2147483647", "2147483648", "4294967296"),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("-9223372036854775809", "18446744073709551615", "18446744073709551616", "9" * 40, "9" * 5000),
)
"""Numbers at limits, and texts that are nearly numbers."""

ODD_TEXTS = (
    *(
        "",
        " ",
        "\n",
        "\t",
        "-",
        "--",
        ".",
        "..",
        "/",
        "*",
        "?",
        "[",
        "(",
        "\\",
        "'",
        '"',
        ",",
        ":",
        ";",
        "=",
        "#",
        "%",
    ),
    *(
        "\u202eabc",
        "\x1b[31mred\x1b[0m",
        "a\nb",
        "\x7f",
        "\x9b1m",
        "\u00e4\u00f6\u00fc",
        "\U0001f40d",
        "\udcff",
    ),
    *(
        "{}",
        "[]",
        "null",
        "NaN",
        "true",
        "a,b",
        "a=b",
        "0-",
        "-0",
        "0-0",
        "3-1",
        "1,,2",
        "1..2",
        "..",
        "2..1",
    ),
    *("{0}", "%s", "$(id)", "`id`", "<b>&amp;", "--json", "/regex(/", "/(a+)+$/", "x" * 300, "y" * 100_000),
    *("ProfilerStep", "ProfilerStep#1", "aten::mm", "0", "None", "e\u0301", "\ufeff", "\u2028"),
)
"""Texts that mean something somewhere, or nothing anywhere."""


def odd_text(rng: random.Random) -> str:
    """A number, a text, or two of them in a row."""
    found = rng.choice(rng.choice((ODD_NUMBERS, ODD_TEXTS)))
    return found + rng.choice(rng.choice((ODD_NUMBERS, ODD_TEXTS))) if rng.random() < 0.1 else found
